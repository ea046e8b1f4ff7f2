//! Measures every tile that can run a problem, over a grid of problems, and writes a file of those
//! that are faster than the library's choice. `FUSED_ATTENTION_TUNING=FILE` then prefers them.

use bench_support::{
    Buffers, Case, Direction, ElementType, Gpu, MaskKind, Problem, Result, Turns,
    tuning::{Change, Grid, Kind, Place, Timing, faster, preferences},
};
use clap::Parser;
use fused_attention::{Accumulate, ScaledMaskedSoftmax, TunedMask, TunedOperation, Tuning};
use half::{bf16, f16};
use indicatif::{ProgressBar, ProgressStyle};
use std::{cell::Cell, env, fs, path::PathBuf, time::Duration};

/// Measures every tile that can run a problem, and writes a file of preferences.
#[derive(Parser)]
struct Options {
    /// What is computed.
    #[arg(long = "direction", value_delimiter = ',', default_value = "forward,backward")]
    directions: Vec<Direction>,
    /// Element types.
    #[arg(long = "dtype", value_delimiter = ',', default_value = "f16,bf16,f32")]
    elements: Vec<ElementType>,
    /// Masks; lengths stand for causal masks and windows too, bytes for those that heads share.
    #[arg(long = "mask", value_delimiter = ',', default_value = "none,lengths,bytes,additive")]
    masks: Vec<MaskKind>,
    /// Bytes of a row, ascending.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "128,256,512,1024,2048,4096,8192,16384,32768,65536,131072,262144,524288,1048576,2097152"
    )]
    row_bytes: Vec<u64>,
    /// Rows, ascending.
    #[arg(long, value_delimiter = ',', default_value = "1,32,264,4096,65536,1048576")]
    rows: Vec<u64>,
    /// The most bytes of all rows.
    #[arg(long, default_value_t = 1 << 28)]
    most_bytes: u64,
    /// Rounds in which all tiles take turns.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Milliseconds that a tile takes in a round, about.
    #[arg(long, default_value_t = 0.5)]
    milliseconds: f64,
    /// How much faster than the library's choice a tile must be, as a share.
    #[arg(long, default_value_t = 0.03)]
    noise: f64,
    /// The file to write.
    #[arg(long, default_value = "tuning.toml")]
    output: PathBuf,
    /// What cargo passes.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// What is computed with which masks.
    fn kinds(&self) -> Vec<(Direction, MaskKind)> {
        let all = self
            .directions
            .iter()
            .flat_map(|&direction| self.masks.iter().map(move |&mask| (direction, mask)));
        // Probabilities have what masks of elements hide already as zeros.
        let of_elements = [MaskKind::Bytes, MaskKind::Heads, MaskKind::Additive];
        let are_read = |&(direction, mask): &(Direction, MaskKind)| {
            direction != Direction::Backward || !of_elements.contains(&mask)
        };
        all.filter(are_read).collect()
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    if env::var_os("FUSED_ATTENTION_TUNING").is_some() {
        return Err(
            "unset FUSED_ATTENTION_TUNING: what is measured is compared with the table".into()
        );
    }
    let ascending = |sizes: &[u64]| sizes.is_sorted_by(|a, b| a < b) && sizes.first() > Some(&0);
    if !ascending(&options.row_bytes) || !ascending(&options.rows) {
        return Err("row bytes and rows ascend from above 0".into());
    }
    let Some(gpu) = Gpu::open() else { return Ok(()) };
    let grid = Grid {
        row_bytes: options.row_bytes.clone(),
        rows: options.rows.clone(),
        most_bytes: options.most_bytes,
    };
    let kinds = options.kinds().len() * options.elements.len() * 2;
    let style = "{bar:40} {pos}/{len} problems, {eta} left, {msg}";
    let progress = ProgressBar::new((kinds * grid.places().count()) as u64)
        .with_style(ProgressStyle::with_template(style)?);
    let mut tuner =
        Tuner { gpu: &gpu, options: &options, grid: &grid, progress, changes: Vec::new() };
    for &element in &options.elements {
        match element {
            ElementType::F16 => tuner.tune::<f16>(element)?,
            ElementType::Bf16 => tuner.tune::<bf16>(element)?,
            ElementType::F32 => tuner.tune::<f32>(element)?,
            ElementType::F64 => tuner.tune::<f64>(element)?,
        }
    }
    let Tuner { progress, changes, .. } = tuner;
    progress.finish_and_clear();
    report(&grid, &changes);
    let tuning = Tuning {
        device: gpu.device.name().to_owned(),
        compute_capability: gpu.device.compute_capability(),
        preferences: preferences(&grid, &changes),
    };
    fs::write(&options.output, toml::to_string(&tuning)?)?;
    println!(
        "{}: {} preferences, of {} problems that another tile is faster for",
        options.output.display(),
        tuning.preferences.len(),
        changes.len()
    );
    Ok(())
}

struct Tuner<'a> {
    gpu: &'a Gpu,
    options: &'a Options,
    grid: &'a Grid,
    progress: ProgressBar,
    changes: Vec<Change>,
}

impl Tuner<'_> {
    /// All kinds of problems of an element type.
    fn tune<T: Accumulate>(&mut self, element: ElementType) -> Result<()> {
        let mut problems = Vec::new();
        let grid = self.grid;
        for (direction, mask) in self.options.kinds() {
            for aligned in [true, false] {
                let kind = kind(direction, element, mask, aligned);
                problems.extend(grid.places().map(|place| {
                    (kind, place, problem(direction, element, mask, aligned, grid, place))
                }));
            }
        }
        let all: Vec<Problem> = problems.iter().map(|(_, _, problem)| *problem).collect();
        let buffers = Buffers::<T>::for_problems(&self.gpu.device, &all)?;
        for (kind, place, problem) in problems {
            self.progress.set_message(format!("{} of {}", problem.direction, kind.dtype));
            self.measure(&buffers, kind, place, problem)?;
            self.progress.inc(1);
        }
        Ok(())
    }

    fn measure<T: Accumulate>(
        &mut self,
        buffers: &Buffers<T>,
        kind: Kind,
        place: Place,
        problem: Problem,
    ) -> Result<()> {
        // Several of a size, so that the caches do not hold what the next launch reads.
        let copies = Case::places(buffers, problem).clamp(1, MOST_COPIES);
        let cases = (0..copies).map(|copy| Case::nth(buffers, problem, copy));
        let cases: Vec<_> = cases.collect::<Result<_>>()?;
        let table = cases[0].explain(&cases[0].softmax)?.tile;
        let mut tiles = vec![(table, cases[0].softmax)];
        for tile in cases[0].tile_names().into_iter().filter(|&tile| tile != table) {
            tiles.extend(cases[0].with_tile(tile)?.map(|softmax| (tile, softmax)));
        }
        let next = Cell::new(0);
        let run = |softmax: &ScaledMaskedSoftmax| {
            let number = next.get();
            next.set((number + 1) % cases.len());
            cases[number].run(softmax, &self.gpu.stream).expect("a tile that can run it");
        };
        let turns = Turns {
            rounds: self.options.rounds,
            milliseconds: self.options.milliseconds,
            most_calls: MOST_CALLS,
            rest: Duration::ZERO,
        };
        let runs: Vec<_> = tiles.iter().map(|(_, softmax)| move || run(softmax)).collect();
        let runs: Vec<&dyn Fn()> = runs.iter().map(|run| run as &dyn Fn()).collect();
        let microseconds = turns.measure(self.gpu, &runs);
        let timings: Vec<Timing> = tiles
            .iter()
            .zip(microseconds)
            .map(|(&(tile, _), microseconds)| Timing { tile, microseconds })
            .collect();
        let Some((to, gain)) = faster(&timings[0], &timings[1..], self.options.noise) else {
            return Ok(());
        };
        // What the file will prefer must be right.
        cases[0].check(&cases[0].softmax.with_tile(to)?, &self.gpu.stream)?;
        self.changes.push(Change { kind, place, from: table, to, gain });
        Ok(())
    }
}

/// Problems of a size that launches go round, at most.
const MOST_COPIES: usize = 16;

/// Launches of a tile in a round, at most: fewer than the driver's queue takes.
const MOST_CALLS: usize = 200;

fn kind(direction: Direction, element: ElementType, mask: MaskKind, aligned: bool) -> Kind {
    let operation = match direction {
        Direction::Forward => TunedOperation::SoftmaxForward,
        Direction::Backward => TunedOperation::SoftmaxBackwardFromProbabilities,
        Direction::BackwardFromScores => TunedOperation::SoftmaxBackwardFromScores,
    };
    let mask = match mask {
        MaskKind::Bytes | MaskKind::Heads => TunedMask::Bytes,
        MaskKind::Additive => TunedMask::Additive,
        MaskKind::None => TunedMask::None,
        MaskKind::Causal | MaskKind::Window | MaskKind::Lengths => TunedMask::Range,
    };
    Kind { operation, dtype: element.dtype().name(), mask, aligned }
}

fn problem(
    direction: Direction,
    element: ElementType,
    mask: MaskKind,
    aligned: bool,
    grid: &Grid,
    place: Place,
) -> Problem {
    let rows = grid.rows[place.rows] as usize;
    let columns = grid.row_bytes[place.row_bytes] as usize / element.dtype().size();
    // One element less takes all rows but the first off the grid.
    let columns = if aligned { columns } else { columns - 1 };
    // Some batch entries, for lengths.
    let batches = if rows.is_multiple_of(8) { 8 } else { 1 };
    Problem { direction, element, shape: [batches, 1, rows / batches, columns], mask }
}

/// Prints what is faster than the library's choice.
fn report(grid: &Grid, changes: &[Change]) {
    for Change { kind, place, from, to, gain } in changes {
        let (rows, row_bytes) = (grid.rows[place.rows], grid.row_bytes[place.row_bytes]);
        let Kind { operation, dtype, mask, aligned } = kind;
        let grid = if *aligned { "" } else { ", off the grid" };
        println!(
            "{operation:?} {dtype} {mask:?}, {rows} rows of {row_bytes} bytes{grid}: {to} instead of \
             {from}, {:.3} times as fast ({:.3} .. {:.3})",
            gain.median, gain.least, gain.most
        );
    }
}
