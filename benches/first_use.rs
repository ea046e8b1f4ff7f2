//! What the first use of an entry costs: loading it, for which the driver compiles its PTX if there is
//! no machine code beside it, and the first call after that.
//!
//! The driver's cache of compiled kernels is disabled. An entry is loaded once in a process, so each
//! measurement is a process of its own: this program again.

use bench_record::{Cell, Record, Spread};
use bench_support::{
    AttentionCase, AttentionShape, Buffers, Case, Direction, ElementType, Feature, Gpu, MaskKind,
    Problem, Result,
};
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

/// A problem whose entry is loaded.
#[derive(Clone, Copy)]
enum Use {
    /// Softmax.
    Softmax(Problem),
    /// Attention's forward, in bf16.
    Attention(AttentionShape, Feature),
}

/// Problems of different entries: softmax by element type, mask, and length of rows, and attention by
/// head dimension and feature.
fn uses() -> Vec<Use> {
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
        entries.map(|(element, mask, columns)| {
            Use::Softmax(Problem { direction, element, shape: [1, 1, 64, columns], mask })
        })
    };
    let attention = [
        (64, Feature::None),
        (128, Feature::None),
        (256, Feature::None),
        (128, Feature::Bytes),
        (128, Feature::Dropout),
    ];
    let attention = attention.map(|(head_dim, feature)| {
        Use::Attention(AttentionShape { batch: 1, heads: 8, length: 4096, head_dim }, feature)
    });
    DIRECTIONS.into_iter().flat_map(of_direction).chain(attention).collect()
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(child) = options.child {
        return measure(uses()[child]);
    }
    if Gpu::open().is_none() {
        return Ok(());
    }
    let mut record = Record::begin("first use");
    println!("{}, {}", record.card, record.date);
    for (number, of) in uses().into_iter().enumerate() {
        let mut microseconds = BTreeMap::<String, Vec<f64>>::new();
        let mut tile = String::new();
        for _ in 0..options.rounds {
            let measured = in_a_process_of_its_own(number)?;
            microseconds.entry("load".to_owned()).or_default().push(measured.load);
            microseconds.entry("first call".to_owned()).or_default().push(measured.first_call);
            tile = measured.tile;
        }
        let [load, first] = ["load", "first call"].map(|name| {
            let times = microseconds[name].iter().map(|us| us / 1e3);
            Spread::of(times).map_or(f64::NAN, |times| times.median)
        });
        let cell = Cell { tile: Some(tile), microseconds, ..cell_of(of) };
        println!(
            "{:20} {:5} {:7} {:8} {:20} {load:7.1} ms to load, first call {first:.2} ms",
            cell.direction,
            cell.dtype,
            cell.columns,
            cell.mask,
            cell.tile.as_deref().unwrap_or_default()
        );
        record.cells.push(cell);
    }
    if let Some(path) = &options.record {
        record.write(path)?;
    }
    Ok(())
}

/// What a record says of a problem before it is measured.
fn cell_of(of: Use) -> Cell {
    let (direction, dtype, mask, [rows, columns], shape, bytes) = match of {
        Use::Softmax(problem) => (
            problem.direction.to_string(),
            problem.element.to_string(),
            problem.mask.to_string(),
            [problem.rows(), problem.columns()],
            Vec::new(),
            problem.bytes(),
        ),
        Use::Attention(AttentionShape { batch, heads, length, head_dim }, feature) => (
            "attention_forward".to_owned(),
            ElementType::Bf16.to_string(),
            feature.to_string(),
            [batch * heads * length, length],
            [batch, heads, length, head_dim].map(|size| size as u64).to_vec(),
            4 * batch * heads * length * head_dim * size_of::<bf16>(),
        ),
    };
    Cell {
        direction,
        dtype,
        rows: rows as u64,
        columns: columns as u64,
        shape,
        mask,
        total_bytes: None,
        tile: None,
        bytes: bytes as u64,
        checked_error: None,
        peak_bytes: BTreeMap::new(),
        microseconds: BTreeMap::new(),
    }
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
fn measure(of: Use) -> Result<()> {
    match of {
        Use::Attention(shape, feature) => {
            let gpu = open()?;
            let case = AttentionCase::<bf16>::new(&gpu.device, shape, feature)?;
            let attention = case.options();
            let explanation = case.explain(&attention)?;
            let (kernel, tile) = (explanation.kernel, explanation.tile);
            time(&gpu, kernel, tile, || case.run(&attention, &gpu.stream))
        }
        Use::Softmax(problem) => match problem.element {
            ElementType::F16 => measure_softmax::<f16>(problem),
            ElementType::Bf16 => measure_softmax::<bf16>(problem),
            ElementType::F32 => measure_softmax::<f32>(problem),
            ElementType::F64 => measure_softmax::<f64>(problem),
        },
    }
}

fn measure_softmax<T: Accumulate>(problem: Problem) -> Result<()> {
    let gpu = open()?;
    let buffers = Buffers::<T>::for_problems(&gpu.device, &[problem])?;
    let case = Case::new(&buffers, problem)?;
    let explanation = case.explain(&case.softmax)?;
    let (kernel, tile) = (explanation.kernel, explanation.tile);
    time(&gpu, kernel, tile, || case.run(&case.softmax, &gpu.stream))
}

fn open() -> Result<Gpu> {
    Gpu::open().ok_or_else(|| "no GPU".into())
}

/// Times loading a kernel, and the first call.
fn time(gpu: &Gpu, kernel: &str, tile: &str, call: impl FnOnce() -> Result<()>) -> Result<()> {
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    gpu.stream.synchronize()?;
    let start = Instant::now();
    gpu.device.prepare(&[kernel])?;
    let load = microseconds(start.elapsed());
    let start = Instant::now();
    call()?;
    gpu.stream.synchronize()?;
    println!("{load} {} {tile}", microseconds(start.elapsed()));
    Ok(())
}
