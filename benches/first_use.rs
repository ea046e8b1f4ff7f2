//! What the first use of an entry costs: loading it, for which the driver compiles its PTX, and the
//! first call after that.
//!
//! The driver's cache of compiled kernels is disabled. An entry is loaded once in a process, so each
//! measurement is a process of its own: this program again.

use bench_record::{Cell, Record, Spread};
use bench_support::{Buffers, Case, Direction, ElementType, Gpu, MaskKind, Problem, Result};
use clap::Parser;
use fused_attention::Accumulate;
use half::{bf16, f16};
use std::{
    collections::BTreeMap,
    env,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

/// What the first use of an entry costs.
#[derive(Parser)]
struct Options {
    /// Processes for each entry.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where to write the record.
    #[arg(long)]
    record: Option<PathBuf>,
    /// Measure this problem, in this process.
    #[arg(long, hide = true)]
    child: Option<usize>,
    /// What cargo passes.
    #[arg(long, hide = true)]
    bench: bool,
}

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// Problems of different entries: element types, masks, short and long rows.
fn problems() -> Vec<Problem> {
    use ElementType::{Bf16, F16, F32};
    let entries = [
        (F16, MaskKind::None, 1024),
        (Bf16, MaskKind::None, 1024),
        (F32, MaskKind::None, 1024),
        (Bf16, MaskKind::Bytes, 4096),
        (Bf16, MaskKind::None, 16384),
        (Bf16, MaskKind::None, 131_072),
    ];
    let of_direction = |direction| {
        entries.map(|(element, mask, columns)| Problem {
            direction,
            element,
            shape: [1, 1, 64, columns],
            mask,
        })
    };
    DIRECTIONS.into_iter().flat_map(of_direction).collect()
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(child) = options.child {
        return measure(problems()[child]);
    }
    if Gpu::open().is_none() {
        return Ok(());
    }
    let mut record = Record::begin("first use");
    println!("{}, {}", record.card, record.date);
    for (number, problem) in problems().into_iter().enumerate() {
        let mut microseconds = BTreeMap::<String, Vec<f64>>::new();
        let mut tile = String::new();
        for _ in 0..options.rounds {
            let measured = in_a_process_of_its_own(number)?;
            microseconds.entry("load".to_owned()).or_default().push(measured.load);
            microseconds.entry("first call".to_owned()).or_default().push(measured.first_call);
            tile = measured.tile;
        }
        let Problem { direction, element, mask, .. } = problem;
        let [load, first] = ["load", "first call"].map(|name| {
            let times = microseconds[name].iter().map(|us| us / 1e3);
            Spread::of(times).map_or(f64::NAN, |times| times.median)
        });
        let columns = problem.columns();
        println!(
            "{direction:20} {element:5} {columns:7} {mask:6} {tile:16} \
             {load:7.1} ms to load, first call {first:.2} ms"
        );
        record.cells.push(Cell {
            direction: direction.to_string(),
            dtype: element.to_string(),
            rows: problem.rows() as u64,
            columns: columns as u64,
            shape: Vec::new(),
            mask: mask.to_string(),
            total_bytes: None,
            tile: Some(tile),
            bytes: problem.bytes() as u64,
            checked_error: None,
            peak_bytes: BTreeMap::new(),
            microseconds,
        });
    }
    if let Some(path) = &options.record {
        record.write(path)?;
    }
    Ok(())
}

/// What a process reports, in microseconds.
struct Measured {
    load: f64,
    first_call: f64,
    tile: String,
}

fn in_a_process_of_its_own(number: usize) -> Result<Measured> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--child", &number.to_string()]).env("CUDA_CACHE_DISABLE", "1");
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let words: Vec<&str> = text.split_whitespace().collect();
    match *words {
        [load, first_call, tile] if output.status.success() => Ok(Measured {
            load: load.parse()?,
            first_call: first_call.parse()?,
            tile: tile.to_owned(),
        }),
        _ => Err(format!("problem {number} was not measured: {text}{errors}").into()),
    }
}

/// Measures in this process, and prints the microseconds and the tile.
fn measure(problem: Problem) -> Result<()> {
    match problem.element {
        ElementType::F16 => measure_of::<f16>(problem),
        ElementType::Bf16 => measure_of::<bf16>(problem),
        ElementType::F32 => measure_of::<f32>(problem),
        ElementType::F64 => measure_of::<f64>(problem),
    }
}

fn measure_of<T: Accumulate>(problem: Problem) -> Result<()> {
    let Some(gpu) = Gpu::open() else { return Err("no GPU".into()) };
    let buffers = Buffers::<T>::for_problems(&gpu.device, &[problem])?;
    let case = Case::new(&buffers, problem)?;
    gpu.stream.synchronize()?;
    let explanation = case.explain(&case.softmax)?;
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    let start = Instant::now();
    gpu.device.prepare(&[explanation.kernel])?;
    let load = microseconds(start.elapsed());
    let start = Instant::now();
    case.run(&case.softmax, &gpu.stream)?;
    gpu.stream.synchronize()?;
    println!("{load} {} {}", microseconds(start.elapsed()), explanation.tile);
    Ok(())
}
