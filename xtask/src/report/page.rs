//! The page that tells what was measured.

use super::{
    PLOTS, attention,
    measurements::{Measurements, classic_heads, peers},
    plot::{Line, Plot},
    tables::{MEAN_COLUMNS, by_columns, groups, mean_speedup, speed, spread, table},
};
use bench_record::{Cell, Record};
use std::collections::{BTreeMap, BTreeSet};

/// The page's text, and the plots that it shows.
pub(super) struct Page {
    pub text: String,
    pub plots: Vec<Plot>,
}

const DTYPES: [&str; 4] = ["f16", "bf16", "f32", "f64"];
const MASKS: [&str; 7] = ["none", "bytes", "heads", "additive", "causal", "window", "lengths"];
const DIRECTIONS: [(&str, &str); 3] = [
    ("forward", "Forward"),
    ("backward", "Backward, from probabilities"),
    ("backward_from_scores", "Backward, from scores and log-sum-exp"),
];

const INTRODUCTION: &str = "\
# Benchmarks

Written by `cargo xtask report` from the records in [`benches/results`](../benches/results), which
hold every round; [their README](../benches/results/README.md) tells how to measure anew.

Softmax is judged by memory. The bytes of a problem are what must be moved: of inputs what can be
seen, each distinct byte of a mask, and the output, once each. `share of a copy` is the time of a
device-to-device copy that reads and writes as many bytes, by the time of the kernel: the median of the
ratios of rounds in which both take turns in one process. In that process rows of each problem were
first compared with the f64 reference, on outputs that had been filled with NaN.
";

/// The page of these records.
pub(super) fn write(
    records: &BTreeMap<String, Record>,
    cards: &BTreeMap<String, Measurements>,
) -> Page {
    let mut page = Page { text: INTRODUCTION.to_owned(), plots: Vec::new() };
    for (card, measurements) in cards {
        page.text += &format!("\n## {card}\n");
        for (direction, title) in DIRECTIONS {
            page.direction(card, measurements, direction, title);
        }
        page.peers(card, measurements);
        attention::write(&mut page, card, measurements);
        page.host(measurements);
    }
    page.records(records);
    page
}

impl Page {
    fn direction(&mut self, card: &str, all: &Measurements, direction: &str, title: &str) {
        let of_direction = |cell: &Cell| cell.direction == direction;
        let plain = all.beside_copy(|cell| of_direction(cell) && cell.mask == "none");
        let masked = all.beside_copy(|cell| {
            of_direction(cell) && cell.mask != "none" && classic_heads(cell).is_none()
        });
        let classic = all.beside_copy(|cell| of_direction(cell) && classic_heads(cell).is_some());
        if plain.is_empty() && masked.is_empty() && classic.is_empty() {
            return;
        }
        self.text += &format!("\n### {title}\n");
        let dtypes = groups(&plain, &DTYPES, dtype);
        let (plain, others): (Vec<&Cell>, Vec<&Cell>) =
            plain.into_iter().partition(|cell| cell.columns.is_power_of_two());
        self.section(
            "Share of a copy, without a mask.",
            &by_columns(&plain, &dtypes, dtype, share),
        );
        let lines = lines(&plain, &dtypes, dtype, share);
        let name = format!("{direction}-share-of-copy");
        let plot_title = format!("{title}: share of a copy, without a mask");
        self.plot(card, &name, &plot_title, [COLUMNS, SHARE], lines);

        let text = "The same for lengths that are no power of two.";
        self.section(text, &by_columns(&others, &dtypes, dtype, share));

        let masks = groups(&masked, &MASKS, mask);
        for element in groups(&masked, &DTYPES, dtype) {
            let cells: Vec<&Cell> =
                masked.iter().copied().filter(|cell| cell.dtype == element).collect();
            let text = format!(
                "Share of a copy with masks, {element}: a byte for each element (`bytes`), bytes that \
                 eight heads share (`heads`), a causal mask over squares, a causal window of 1024, \
                 lengths that are spread evenly."
            );
            self.section(&text, &by_columns(&cells, &masks, mask, share));
            let shares = lines_of(&cells, &masks);
            let name = format!("{direction}-masks-{element}");
            let title = format!("{title}: share of a copy with masks, {element}");
            self.plot(card, &name, &title, [COLUMNS, SHARE], shares);
            let of_unmasked = |cell: &Cell| Some(1.0 / cell.speedup("ours", "unmasked")?.median);
            let faster: Vec<&Cell> =
                cells.iter().copied().filter(|cell| of_unmasked(cell).is_some()).collect();
            let masks = groups(&faster, &MASKS, mask);
            let text = "Time with such a mask, by the time of the same shape without.";
            self.section(text, &by_columns(&faster, &masks, mask, of_unmasked));
        }
        self.classic(&classic);
        for size in all.unusual_sizes() {
            self.of_size(&all.of_size(Some(size), of_direction), size);
        }
    }

    /// Problems of this size, which is not the usual one.
    fn of_size(&mut self, cells: &[&Cell], size: u64) {
        let label = |cell: &Cell| match cell.mask.as_str() {
            "none" => cell.dtype.clone(),
            mask => format!("{mask}, {}", cell.dtype),
        };
        let labels: BTreeSet<String> = cells.iter().map(|cell| label(cell)).collect();
        let labels: Vec<String> = labels.into_iter().collect();
        let size = size as f64 / f64::from(1 << 30);
        let text = format!("Share of a copy of problems in which x takes {size} GiB, not 0.5.");
        self.section(&text, &by_columns(cells, &labels, label, share));
    }

    fn classic(&mut self, cells: &[&Cell]) {
        let heads = ["scores", "share of a copy", "TB/s", "device memory, GB"].map(str::to_owned);
        let rows: Vec<Vec<String>> = cells
            .iter()
            .map(|cell| {
                let memory = cell.peak_bytes.get("ours").map(|&bytes| bytes as f64 / 1e9);
                vec![
                    shape(cell),
                    spread(cell.speedup("ours", "copy")),
                    speed(cell, "ours").map_or_else(String::new, |speed| format!("{speed:.2}")),
                    memory.map_or_else(String::new, |memory| format!("{memory:.2}")),
                ]
            })
            .collect();
        let text = "Whole attention scores (batch, heads, queries, keys), f16, with a mask of bytes \
                    that all heads share; the memory is that of the tensors, and of what the call \
                    takes besides: nothing.";
        self.section(text, &table(&heads, &rows));
    }

    fn peers(&mut self, card: &str, all: &Measurements) {
        let cells = all.beside_peers(|_| true);
        if cells.is_empty() {
            return;
        }
        self.text += "\n### Other libraries\n\nHow many times as fast as each this library is: the \
                      median of the rounds' ratios, the least\nand the largest.\n";
        for (direction, title) in DIRECTIONS {
            for mask in MASKS {
                for dtype in DTYPES {
                    let cells = all.beside_peers(|cell| {
                        cell.direction == direction && cell.mask == mask && cell.dtype == dtype
                    });
                    if !cells.is_empty() {
                        let title = format!("{title}, {}, {dtype}", mask_words(mask));
                        self.peers_of(card, &cells, &title, direction);
                    }
                }
            }
        }
    }

    fn peers_of(&mut self, card: &str, cells: &[&Cell], title: &str, direction: &str) {
        let names = peers(cells);
        let heads = ["scores", "ours, TB/s"].map(str::to_owned).into_iter().chain(names.clone());
        let heads: Vec<String> = heads.collect();
        let row = |cell: &&Cell| {
            let ours = speed(cell, "ours").map_or_else(String::new, |speed| format!("{speed:.2}"));
            let ratios = names.iter().map(|name| spread(cell.speedup("ours", name)));
            [shape(cell), ours].into_iter().chain(ratios).collect::<Vec<_>>()
        };
        let mut rows: Vec<Vec<String>> = cells.iter().map(row).collect();
        let (least, most) = MEAN_COLUMNS;
        let means = names.iter().map(|name| {
            let mean = mean_speedup(cells, name);
            mean.map_or_else(String::new, |mean| format!("{mean:.3}"))
        });
        let label = [format!("geometric mean, {least} to {most} columns"), String::new()];
        rows.push(label.into_iter().chain(means).collect());
        self.section(&format!("{title}."), &table(&heads, &rows));

        let memory = ["ours".to_owned()].into_iter().chain(names.clone());
        let memory: Vec<String> = memory
            .filter(|name| cells.iter().any(|cell| cell.peak_bytes.contains_key(name)))
            .collect();
        let heads: Vec<String> =
            ["scores".to_owned()].into_iter().chain(memory.iter().cloned()).collect();
        let differs = |cell: &&Cell| {
            let ours = cell.peak_bytes.get("ours").map_or(0.0, |&bytes| bytes as f64);
            cell.peak_bytes.values().any(|&bytes| (bytes as f64 / ours - 1.0).abs() > 0.01)
        };
        let rows: Vec<Vec<String>> = cells
            .iter()
            .filter(|_| cells.iter().any(differs))
            .filter(|cell| !cell.peak_bytes.is_empty())
            .map(|cell| {
                let bytes = memory.iter().map(|name| {
                    let bytes = cell.peak_bytes.get(name);
                    bytes.map_or_else(String::new, |&bytes| format!("{:.2}", bytes as f64 / 1e9))
                });
                [shape(cell)].into_iter().chain(bytes).collect()
            })
            .collect();
        self.section("Peak device memory, inputs and outputs included, GB.", &table(&heads, &rows));

        let in_order = ["ours", "copy"].map(str::to_owned).into_iter().chain(names);
        let lines: Vec<Line> = in_order
            .map(|name| Line { points: points(cells, |cell| speed(cell, &name)), name })
            .filter(|line| line.points.len() > 1)
            .collect();
        let dtype = cells.first().map_or("", |cell| &cell.dtype);
        let mask = cells.first().map_or("", |cell| &cell.mask);
        let name = format!("{direction}-peers-{mask}-{dtype}");
        self.plot(card, &name, title, [COLUMNS, "TB/s"], lines);
    }

    fn host(&mut self, all: &Measurements) {
        let launches = all.launches();
        if !launches.is_empty() {
            self.text += "\n### Host\n";
            let heads = ["call", "microseconds of host time", "of an empty kernel's launch"];
            let heads = heads.map(str::to_owned);
            let rows: Vec<Vec<String>> = launches
                .iter()
                .map(|cell| {
                    let times = ["host", "empty kernel"].map(|name| spread(cell.time(name)));
                    [name_of(&cell.direction)].into_iter().chain(times).collect()
                })
                .collect();
            let text = "What a call costs the caller, of a tiny problem, and in turn with it what the \
                        driver takes to launch a kernel that does nothing.";
            self.section(text, &table(&heads, &rows));
        }
        let first = all.first_uses();
        let heads = ["problem", "tile", "loading, ms", "first call, ms"].map(str::to_owned);
        let rows: Vec<Vec<String>> = first
            .iter()
            .map(|cell| {
                let milliseconds = |name: &str| {
                    let time = cell.time(name);
                    time.map_or_else(String::new, |time| format!("{:.1}", time.median / 1e3))
                };
                let Cell { direction, dtype, mask, columns, .. } = *cell;
                let size = match cell.shape.last() {
                    Some(head_dim) => format!("{columns} keys, head dimension {head_dim}"),
                    None => format!("{columns} columns"),
                };
                vec![
                    format!("{} of {size}, {dtype}, mask: {mask}", name_of(direction)),
                    cell.tile.clone().unwrap_or_default(),
                    milliseconds("load"),
                    milliseconds("first call"),
                ]
            })
            .collect();
        let text = "The first use of an entry in a process, with the driver's cache of compiled \
                    kernels disabled.";
        self.section(text, &table(&heads, &rows));
    }

    fn records(&mut self, records: &BTreeMap<String, Record>) {
        let heads = ["record", "card, driver, clocks, degrees", "date", "command", "versions"];
        let rows: Vec<Vec<String>> = records
            .iter()
            .map(|(path, record)| {
                let name = path.rsplit('/').next().unwrap_or(path);
                let Record { card, date, command, versions, .. } = record;
                let versions = versions.iter().map(|(name, version)| format!("{name} {version}"));
                vec![
                    format!("[{name}](../{path})"),
                    card.clone(),
                    date.clone(),
                    format!("`{command}`"),
                    versions.collect::<Vec<_>>().join(", "),
                ]
            })
            .collect();
        self.text += "\n## Records\n";
        self.section("", &table(&heads.map(str::to_owned), &rows));
    }

    /// Text with a table after it; nothing without a table.
    pub fn section(&mut self, text: &str, table: &str) {
        if table.is_empty() {
            return;
        }
        if !text.is_empty() {
            self.paragraph(text);
        }
        self.text += &format!("\n{table}");
    }

    pub fn paragraph(&mut self, text: &str) {
        self.text += &format!("\n{}\n", wrapped(text));
    }

    /// A plot with these labels of its axes, unless no line has two points.
    pub fn plot(
        &mut self,
        card: &str,
        name: &str,
        title: &str,
        [x_label, y_label]: [&'static str; 2],
        lines: Vec<Line>,
    ) {
        if lines.iter().all(|line| line.points.len() < 2) {
            return;
        }
        let name: String = format!("{card}-{name}")
            .to_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let folder = PLOTS.rsplit('/').next().unwrap_or(PLOTS);
        self.text +=
            &format!("\n![{title}]({folder}/{name}.svg)\n\n([PNG]({folder}/{name}.png))\n");
        let largest = lines.iter().flat_map(|line| &line.points).map(|&(_, y)| y);
        let y_most = (largest.fold(1.0, f64::max) * 1.05 * 10.0).ceil() / 10.0;
        let title = format!("{title} ({card})");
        self.plots.push(Plot { name, title, x_label, y_label, y_most, lines });
    }
}

const COLUMNS: &str = "columns";
const SHARE: &str = "share of a copy";

fn share(cell: &Cell) -> Option<f64> {
    Some(cell.speedup("ours", "copy")?.median)
}

fn dtype(cell: &Cell) -> String {
    cell.dtype.clone()
}

fn mask(cell: &Cell) -> String {
    cell.mask.clone()
}

fn mask_words(mask: &str) -> String {
    match mask {
        "none" => "without a mask".to_owned(),
        "bytes" => "a mask byte for each element".to_owned(),
        "heads" => "mask bytes that all heads share".to_owned(),
        other => format!("{other} mask"),
    }
}

fn name_of(direction: &str) -> String {
    direction.replace('_', " ")
}

/// `32 x 12 x 512 x 512`, or rows and columns.
fn shape(cell: &Cell) -> String {
    let sizes = if cell.shape.is_empty() { &vec![cell.rows, cell.columns] } else { &cell.shape };
    // Leading sizes of 1 tell nothing.
    let leading = sizes.iter().take_while(|&&size| size == 1).count();
    let sizes: Vec<String> =
        sizes[leading.min(sizes.len() - 2)..].iter().map(u64::to_string).collect();
    sizes.join(" x ")
}

/// The values of cells by their columns.
pub(super) fn points(cells: &[&Cell], value: impl Fn(&Cell) -> Option<f64>) -> Vec<(u64, f64)> {
    let points = cells.iter().filter_map(|cell| Some((cell.columns, value(cell)?)));
    // The last of those with as many columns.
    points.collect::<BTreeMap<_, _>>().into_iter().collect::<Vec<(u64, f64)>>()
}

/// A line for each group.
fn lines(
    cells: &[&Cell],
    groups: &[String],
    group_of: impl Fn(&Cell) -> String,
    value: impl Fn(&Cell) -> Option<f64>,
) -> Vec<Line> {
    let line = |name: &String| {
        let of_group = |cell: &Cell| (group_of(cell) == *name).then(|| value(cell)).flatten();
        Line { name: name.clone(), points: points(cells, of_group) }
    };
    groups.iter().map(line).collect()
}

fn lines_of(cells: &[&Cell], masks: &[String]) -> Vec<Line> {
    lines(cells, masks, mask, share)
}

/// Lines of up to 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("begun with one");
        if !line.is_empty() && line.len() + 1 + word.len() > 100 {
            lines.push(word.to_owned());
        } else {
            *line += if line.is_empty() { "" } else { " " };
            *line += word;
        }
    }
    lines.join("\n")
}
