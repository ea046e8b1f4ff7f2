//! Softmax in turn with a device-to-device copy, several rounds, every round recorded.
//!
//! Prints a table and, with `--record`, writes JSON. Sampled rows of every problem are compared
//! with the f64 reference in the same process, on an output that was poisoned before.

use bench_record::{Cell, Record, Spread};
use bench_support::{Buffers, Case, ElementType, Gpu, MaskKind, Problem, Result, Selection, Turns};
use clap::Parser;
use fused_attention::{Accumulate, ScaledMaskedSoftmax};
use half::{bf16, f16};
use std::{path::PathBuf, time::Duration};

/// Softmax in turn with a copy.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    selection: Selection,
    /// Every tile that can run a problem, not only the preferred one.
    #[arg(long)]
    all_tiles: bool,
    /// Rounds.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Milliseconds that an implementation takes in a round, about.
    #[arg(long, default_value_t = 2.5)]
    milliseconds: f64,
    /// Where to write the record.
    #[arg(long)]
    record: Option<PathBuf>,
    /// What cargo passes.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let Some(gpu) = Gpu::open() else { return Ok(()) };
    let mut record = Record::begin("softmax");
    println!("{}, {}", record.card, record.date);
    println!(
        "{:20} dtype {:>21}  mask    tile                     us    copy us  of copy (least .. most)",
        "direction", "shape"
    );
    let problems = options.selection.problems();
    for element in [ElementType::F16, ElementType::Bf16, ElementType::F32, ElementType::F64] {
        let of_element = problems.iter().filter(|problem| problem.element == element);
        let problems: Vec<Problem> = of_element.copied().collect();
        match element {
            _ if problems.is_empty() => {}
            ElementType::F16 => measure::<f16>(&gpu, &options, problems, &mut record)?,
            ElementType::Bf16 => measure::<bf16>(&gpu, &options, problems, &mut record)?,
            ElementType::F32 => measure::<f32>(&gpu, &options, problems, &mut record)?,
            ElementType::F64 => measure::<f64>(&gpu, &options, problems, &mut record)?,
        }
    }
    if let Some(path) = &options.record {
        record.write(path)?;
    }
    Ok(())
}

/// Of the GPU's free memory, what buffers may take.
const MEMORY_SHARE: f64 = 0.9;

fn measure<T: Accumulate>(
    gpu: &Gpu,
    options: &Options,
    problems: Vec<Problem>,
    record: &mut Record,
) -> Result<()> {
    let memory = (gpu.free_bytes() as f64 * MEMORY_SHARE) as usize;
    let (fitting, too_large): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|&problem| Buffers::<T>::bytes_for(&[problem]) <= memory);
    for Problem { direction, element, shape, mask } in too_large {
        println!("{direction:20} {element:5} {shape:?} {mask}: not enough memory");
    }
    // Of a quarter each, the largest tensors, masks and copies of different problems fit together.
    let (small, large): (Vec<_>, Vec<_>) =
        fitting.into_iter().partition(|&problem| Buffers::<T>::bytes_for(&[problem]) <= memory / 4);
    measure_together::<T>(gpu, options, &small, record)?;
    large
        .into_iter()
        .try_for_each(|problem| measure_together::<T>(gpu, options, &[problem], record))
}

/// Measures problems that fit the same buffers.
fn measure_together<T: Accumulate>(
    gpu: &Gpu,
    options: &Options,
    problems: &[Problem],
    record: &mut Record,
) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    let buffers = Buffers::<T>::for_problems(&gpu.device, problems)?;
    for &problem in problems {
        let case = Case::new(&buffers, problem)?;
        let preferred = case.explain(&case.softmax)?.tile;
        let others = case.tile_names().into_iter();
        let others = others.filter(|&tile| options.all_tiles && tile != preferred);
        let others = others.map(|tile| Ok((tile, case.with_tile(tile)?)));
        let others: Vec<_> = others.collect::<Result<_>>()?;
        for (tile, softmax) in [(preferred, Some(case.softmax))].into_iter().chain(others) {
            let Some(softmax) = softmax else { continue };
            let cell = rounds(gpu, options, &case, &softmax, tile)?;
            print(&problem, &cell);
            record.cells.push(cell);
        }
    }
    Ok(())
}

fn rounds<T: Accumulate>(
    gpu: &Gpu,
    options: &Options,
    case: &Case<'_, T>,
    softmax: &ScaledMaskedSoftmax,
    tile: &str,
) -> Result<Cell> {
    let checked_error = case.check(softmax, &gpu.stream)?;
    let ours = || case.run(softmax, &gpu.stream).expect("checked");
    let (to, from, bytes) = case.copied();
    // SAFETY: two allocations of at least this size.
    let copy = || unsafe { gpu.copy(to, from, bytes) };
    let unmasked = || case.run_unmasked(&gpu.stream).expect("without a mask too");
    let mut implementations: Vec<(&str, &dyn Fn())> = vec![("ours", &ours), ("copy", &copy)];
    let problem = case.problem;
    if matches!(problem.mask, MaskKind::Causal | MaskKind::Window | MaskKind::Lengths) {
        implementations.push(("unmasked", &unmasked));
    }
    // What a call takes beyond its tensors; the check has loaded the kernel.
    let free = gpu.free_bytes();
    let turns = Turns {
        rounds: options.rounds,
        milliseconds: options.milliseconds,
        most_calls: Turns::MOST_CALLS,
        rest: Duration::ZERO,
    };
    let (names, runs): (Vec<&str>, Vec<&dyn Fn()>) = implementations.into_iter().unzip();
    let microseconds = turns.measure(gpu, &runs);
    let taken = free.saturating_sub(gpu.free_bytes());
    Ok(Cell {
        direction: problem.direction.to_string(),
        dtype: problem.element.to_string(),
        rows: problem.rows() as u64,
        columns: problem.columns() as u64,
        shape: problem.shape.map(|size| size as u64).to_vec(),
        mask: problem.mask.to_string(),
        total_bytes: options.selection.unusual_bytes(&problem),
        tile: Some(tile.to_owned()),
        bytes: problem.bytes() as u64,
        checked_error: Some(checked_error),
        peak_bytes: [("ours".to_owned(), (case.tensor_bytes() + taken) as u64)].into(),
        microseconds: names.into_iter().map(str::to_owned).zip(microseconds).collect(),
    })
}

fn print(problem: &Problem, cell: &Cell) {
    let Problem { direction, element, shape, mask } = problem;
    let shape = shape.map(|size| size.to_string()).join("x");
    let [ours, copy] = ["ours", "copy"].map(|name| cell.time(name).map_or(0.0, |us| us.median));
    let Some(Spread { median, least, most }) = cell.speedup("ours", "copy") else { return };
    let tile = cell.tile.as_deref().unwrap_or_default();
    print!(
        "{direction:20} {element:5} {shape:>21}  {mask:7} {tile:16} {ours:9.1}  {copy:9.1}  \
         {median:.3} ({least:.3} .. {most:.3})"
    );
    if let Some(Spread { median, .. }) = cell.speedup("ours", "unmasked") {
        print!(", {:.3} of the time without the mask", 1.0 / median);
    }
    println!();
}
