//! Host time of a call: what it costs the caller, from the plan to the driver's return.
//!
//! A tiny problem, so that the GPU keeps up; the stream is emptied before the driver's queue fills.
//! In turn with it, an empty kernel that the driver's own call launches: most of the time is the driver's,
//! which differs from machine to machine by more than the library takes.

use bench_record::{Cell, Record, median};
use bench_support::{
    Buffers, Case, Direction, ElementType, EmptyKernel, Gpu, MaskKind, Problem, Result,
};
use clap::Parser;
use std::{collections::BTreeMap, path::PathBuf, time::Instant};

/// Host time of a call.
#[derive(Parser)]
struct Options {
    /// Rounds; of each the median of its calls is told.
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// Calls in a round.
    #[arg(long, default_value_t = 100)]
    calls: usize,
    /// Where to write the record.
    #[arg(long)]
    record: Option<PathBuf>,
    /// What cargo passes.
    #[arg(long, hide = true)]
    bench: bool,
}

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

fn main() -> Result<()> {
    let options = Options::parse();
    let Some(gpu) = Gpu::open() else { return Ok(()) };
    let mut record = Record::begin("launch overhead");
    println!("{}, {}", record.card, record.date);
    let problems = DIRECTIONS.map(|direction| Problem {
        direction,
        element: ElementType::F32,
        shape: [1, 1, 4, 64],
        mask: MaskKind::None,
    });
    let buffers = Buffers::<f32>::for_problems(&gpu.device, &problems)?;
    let empty = EmptyKernel::load(&gpu)?;
    for problem in problems {
        let case = Case::new(&buffers, problem)?;
        // Loads the kernel and makes the plan.
        let checked_error = case.check(&case.softmax, &gpu.stream)?;
        let call = || case.run(&case.softmax, &gpu.stream);
        let launch = || empty.launch(&gpu);
        let implementations: [(&str, &dyn Fn() -> Result<()>); 2] =
            [("host", &call), ("empty kernel", &launch)];
        let mut microseconds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for _ in 0..options.rounds {
            for (name, run) in implementations {
                let time = median_time(&options, &gpu, run)?;
                microseconds.entry(name.to_owned()).or_default().push(time);
            }
        }
        let medians = ["host", "empty kernel"].map(|name| median(&microseconds[name]));
        let ([host, empty], direction) = (medians, problem.direction);
        println!("{direction}: {host:.2} us of host time a call, {empty:.2} of an empty kernel");
        record.cells.push(Cell {
            direction: direction.to_string(),
            dtype: problem.element.to_string(),
            rows: problem.rows() as u64,
            columns: problem.columns() as u64,
            shape: Vec::new(),
            mask: problem.mask.to_string(),
            total_bytes: None,
            tile: Some(case.explain(&case.softmax)?.tile.to_owned()),
            bytes: problem.bytes() as u64,
            checked_error: Some(checked_error),
            peak_bytes: BTreeMap::new(),
            microseconds,
        });
    }
    if let Some(path) = &options.record {
        record.write(path)?;
    }
    Ok(())
}

/// The median of the host time that calls take, after which the stream is emptied.
fn median_time(options: &Options, gpu: &Gpu, run: &dyn Fn() -> Result<()>) -> Result<f64> {
    let mut times = Vec::with_capacity(options.calls);
    for _ in 0..options.calls {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    gpu.stream.synchronize()?;
    Ok(median(&times))
}
