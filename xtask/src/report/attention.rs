//! Attention's forward: speed beside other libraries, of each tile, and with features.

use super::{
    measurements::{Measurements, kernel_of, peers},
    page::{Page, points},
    plot::Line,
    tables::{spread, table},
};
use bench_record::{Cell, geometric_mean};
use std::collections::{BTreeMap, BTreeSet};

/// Keys that windows show.
const WINDOW: u64 = 1024;

/// Cells that differ only in their length, and in nothing that the name does not tell.
type Groups<'a> = BTreeMap<(u64, String), Vec<&'a Cell>>;

/// The section of a card.
pub(super) fn write(page: &mut Page, card: &str, all: &Measurements) {
    let (beside, alone) = (all.attention_beside_peers(), all.attention_by_tile());
    if beside.is_empty() && alone.is_empty() {
        return;
    }
    page.text += "\n### Attention, forward\n";
    let text = "TFLOP/s: of each query and each key that it may see by its position, a head counts four \
                operations for each element; blocks that nobody sees are no work. All sequences have as \
                many tokens together, and all heads as many elements. Before any of it was measured, \
                sampled queries were compared with the f64 reference.";
    page.paragraph(text);
    for ((head_dim, kind), cells) in groups(&beside, kernel_and_kind) {
        beside_peers(page, card, &cells, &format!("head dimension {head_dim}, {kind}"));
    }
    let (with, without): (Vec<&Cell>, Vec<&Cell>) =
        alone.into_iter().partition(|cell| cell.microseconds.contains_key("plain"));
    page.section(
        "TFLOP/s of each tile by the length of sequences, as it was last measured.",
        &speeds_of_tiles(&without),
    );
    page.section(
        "What a feature costs: the time without it, on the preferred tile, by the time with it on this one, \
         in turn; the median of the rounds. Above 1 it spares work.",
        &shares_with_features(&with),
    );
}

/// Rows for the README's summary: the geometric mean over lengths of how many times as fast as each peer
/// this library is.
pub(super) fn over_peers(all: &Measurements) -> String {
    let cells = all.attention_beside_peers();
    let names = peers(&cells);
    let heads: Vec<String> = [String::new()].into_iter().chain(names.clone()).collect();
    let rows = groups(&cells, kernel_and_kind).into_iter().map(|((head_dim, kind), cells)| {
        let means = names.iter().map(|name| mean(&cells, name, 2));
        [format!("head dimension {head_dim}, {kind}")].into_iter().chain(means).collect()
    });
    table(&heads, &rows.collect::<Vec<_>>())
}

fn beside_peers(page: &mut Page, card: &str, cells: &[&Cell], title: &str) {
    let names = peers(cells);
    let heads = ["length", "tile", "ours, TFLOP/s"].map(str::to_owned);
    let heads: Vec<String> = heads.into_iter().chain(names.clone()).collect();
    let row = |cell: &&Cell| {
        let tile = cell.tile.clone().unwrap_or_default();
        let ratios = names.iter().map(|name| spread(cell.speedup("ours", name)));
        [cell.columns.to_string(), tile, told(speed(cell, "ours"))]
            .into_iter()
            .chain(ratios)
            .collect::<Vec<_>>()
    };
    let mut rows: Vec<Vec<String>> = cells.iter().map(row).collect();
    let label = ["geometric mean".to_owned(), String::new(), String::new()];
    rows.push(label.into_iter().chain(names.iter().map(|name| mean(cells, name, 3))).collect());
    let text = format!(
        "Beside other libraries, {title}: how many times as fast as each this library is, the median \
         of the rounds' ratios, the least and the largest."
    );
    page.section(&text, &table(&heads, &rows));
    let in_order = ["ours".to_owned()].into_iter().chain(names);
    let lines =
        in_order.map(|name| Line { points: points(cells, |cell| speed(cell, &name)), name });
    let name = format!("attention-{}", title.replace(", ", "-"));
    let title = format!("Attention forward, {title}");
    page.plot(card, &name, &title, ["tokens of a sequence", "TFLOP/s"], lines.collect());
}

fn speeds_of_tiles(cells: &[&Cell]) -> String {
    let lengths: BTreeSet<u64> = cells.iter().map(|cell| cell.columns).collect();
    let heads = ["head dimension", "mask", "tile"].map(str::to_owned);
    let heads: Vec<String> = heads.into_iter().chain(lengths.iter().map(u64::to_string)).collect();
    let of_tile = |cell: &Cell| format!("{}\n{}", kind(cell), cell.tile.as_deref().unwrap_or(""));
    let rows = groups(cells, of_tile).into_iter().map(|((head_dim, name), cells)| {
        let (kind, tile) = name.split_once('\n').unwrap_or_default();
        let of_length = |length: &u64| {
            let cell = cells.iter().find(|cell| cell.columns == *length);
            told(cell.and_then(|cell| speed(cell, "ours")))
        };
        let speeds = lengths.iter().map(of_length);
        let names = [head_dim.to_string(), kind.to_owned(), tile.to_owned()];
        names.into_iter().chain(speeds).collect()
    });
    table(&heads, &rows.collect::<Vec<_>>())
}

fn shares_with_features(cells: &[&Cell]) -> String {
    let features: BTreeSet<String> = cells.iter().map(|cell| kind(cell)).collect();
    let heads = ["head dimension", "length", "tile"].map(str::to_owned);
    let heads: Vec<String> = heads.into_iter().chain(features.iter().cloned()).collect();
    let of_tile =
        |cell: &Cell| format!("{:9}\n{}", cell.columns, cell.tile.as_deref().unwrap_or_default());
    let rows = groups(cells, of_tile).into_iter().map(|((head_dim, name), cells)| {
        let (length, tile) = name.split_once('\n').unwrap_or_default();
        let of_feature = |feature: &String| {
            let cell = cells.iter().find(|cell| kind(cell) == *feature);
            let share = cell.and_then(|cell| cell.speedup("ours", "plain"));
            share.map_or_else(String::new, |share| format!("{:.2}", share.median))
        };
        let names = [head_dim.to_string(), length.trim().to_owned(), tile.to_owned()];
        names.into_iter().chain(features.iter().map(of_feature)).collect()
    });
    table(&heads, &rows.collect::<Vec<_>>())
}

/// By head dimension and this name, in order of length.
fn groups<'a>(cells: &[&'a Cell], name: impl Fn(&Cell) -> String) -> Groups<'a> {
    let mut groups = Groups::new();
    for cell in cells {
        let head_dim = cell.shape.last().copied().unwrap_or_default();
        groups.entry((head_dim, name(cell))).or_default().push(cell);
    }
    for cells in groups.values_mut() {
        cells.sort_by_key(|cell| cell.columns);
    }
    groups
}

/// Which kernel it is, and the rest.
fn kernel_and_kind(cell: &Cell) -> String {
    format!("{}, {}", kernel_of(cell), kind(cell))
}

/// The mask, and the element type if it is not bf16.
fn kind(cell: &Cell) -> String {
    let mask = if cell.mask == "none" { "no mask" } else { &cell.mask };
    if cell.dtype == "bf16" { mask.to_owned() } else { format!("{mask}, {}", cell.dtype) }
}

/// TFLOP/s of an implementation.
fn speed(cell: &Cell, implementation: &str) -> Option<f64> {
    let &[batch, heads, length, head_dim] = &cell.shape[..] else { return None };
    let keys = match cell.mask.split(',').next() {
        Some("causal") => length as f64 / 2.0,
        Some("window") => length.min(WINDOW) as f64,
        _ => length as f64,
    };
    let operations = 4.0 * (batch * heads * length * head_dim) as f64 * keys;
    Some(operations / cell.time(implementation)?.median / 1e6)
}

fn told(speed: Option<f64>) -> String {
    speed.map_or_else(String::new, |speed| format!("{speed:.0}"))
}

fn mean(cells: &[&Cell], over: &str, digits: usize) -> String {
    let medians: Vec<f64> =
        cells.iter().filter_map(|cell| Some(cell.speedup("ours", over)?.median)).collect();
    geometric_mean(&medians).map_or_else(String::new, |mean| format!("{mean:.digits$}"))
}
