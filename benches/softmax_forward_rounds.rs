//! Softmax forward in turn with a device-to-device copy, several rounds, every round recorded.
//!
//! Prints a table and, with `--record`, writes JSON. Sampled rows of every cell are compared with
//! the f64 reference in the same process, on an output that was poisoned before.

use bench_support::{
    Gpu, median, normal,
    record::{Cell, Record},
};
use clap::Parser;
use fused_attention::{
    Accumulate, Causal, Device, Mask, ScaledMaskedSoftmax, SoftmaxInputs, Tensor,
    reference::{softmax::SoftmaxProblem, tolerance::check_output},
    tile_names,
};
use half::{bf16, f16};
use std::{error::Error, path::PathBuf};

/// Softmax forward in turn with a copy.
#[derive(Parser)]
struct Options {
    /// Row lengths.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "128,256,512,1024,2048,4096,8192,16384,32768,65536,131072,262144"
    )]
    lengths: Vec<usize>,
    /// Element types.
    #[arg(long, value_delimiter = ',', default_value = "bf16,f16,f32")]
    dtypes: Vec<String>,
    /// Masks: none, causal, bytes.
    #[arg(long, value_delimiter = ',', default_value = "none")]
    masks: Vec<String>,
    /// Every tile that can run a length, not only the preferred one.
    #[arg(long)]
    all_tiles: bool,
    /// Elements of x, about.
    #[arg(long, default_value_t = 1 << 28)]
    elements: usize,
    /// Rounds.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Launches in a round.
    #[arg(long, default_value_t = 10)]
    launches: usize,
    /// Where to write the record.
    #[arg(long)]
    record: Option<PathBuf>,
    /// What cargo passes.
    #[arg(long, hide = true)]
    bench: bool,
}

const SCALE: f64 = 0.125;

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let Some(gpu) = Gpu::open() else { return Ok(()) };
    let mut record = Record::begin("softmax forward");
    println!("{}, {}", record.card, record.date);
    println!("dtype  columns mask    tile              kernel us   copy us  of copy (min .. max)");
    for dtype in &options.dtypes {
        match dtype.as_str() {
            "bf16" => measure::<bf16>(&gpu, &options, &mut record)?,
            "f16" => measure::<f16>(&gpu, &options, &mut record)?,
            "f32" => measure::<f32>(&gpu, &options, &mut record)?,
            "f64" => measure::<f64>(&gpu, &options, &mut record)?,
            other => return Err(format!("no softmax of {other}").into()),
        }
    }
    if let Some(path) = options.record {
        std::fs::write(path, serde_json::to_string_pretty(&record)? + "\n")?;
    }
    Ok(())
}

fn measure<T: Accumulate>(
    gpu: &Gpu,
    options: &Options,
    record: &mut Record,
) -> Result<(), Box<dyn Error>> {
    let values: Vec<T> = normal(options.elements);
    let input = gpu.device.upload(&values, &[options.elements])?;
    let output = gpu.device.empty::<T>(&[options.elements])?;
    let bytes: Vec<u8> = (0..options.elements).map(|i| u8::from(i % 3 == 0)).collect();
    let bytes = gpu.device.upload(&bytes, &[options.elements])?;
    for &columns in &options.lengths {
        let rows = options.elements / columns;
        // Square matrices where there are enough rows, for the causal mask.
        let queries = if rows.is_multiple_of(columns) { columns } else { rows };
        let shape = [rows / queries, queries, columns];
        let view = |tensor: &Tensor<T>| {
            tensor.narrow(0, 0, rows * columns).and_then(|flat| flat.reshape(&shape))
        };
        let (x, y) = (view(&input)?, view(&output)?);
        let excluded = bytes.narrow(0, 0, rows * columns)?.reshape(&shape)?;
        for mask in &options.masks {
            let softmax = ScaledMaskedSoftmax::new(SCALE);
            let softmax = match mask.as_str() {
                "causal" => softmax.causal(Causal::BottomRight),
                _ => softmax,
            };
            let tensors = if mask == "bytes" { Mask::exclude(&excluded) } else { Mask::none() };
            let inputs = SoftmaxInputs::new(&x).mask(tensors);
            let preferred = softmax.explain(inputs, &y)?.tile;
            let tiles = tile_names().filter(|&tile| options.all_tiles || tile == preferred);
            for tile in tiles {
                let softmax = softmax.with_tile(tile)?;
                if softmax.explain(inputs, &y).is_err() {
                    continue;
                }
                let error = check(&softmax, inputs, &values, &y, mask)?;
                let mask_bytes = if mask == "bytes" { rows * columns } else { 0 };
                let moved = 2 * rows * columns * size_of::<T>() + mask_bytes;
                let mut cell = Cell {
                    dtype: T::DTYPE.name(),
                    rows,
                    columns,
                    mask: mask.clone(),
                    tile: tile.to_owned(),
                    bytes: moved,
                    kernel_us: Vec::new(),
                    copy_us: Vec::new(),
                    of_copy: 0.0,
                    checked_error: error,
                };
                let launches = options.launches;
                let run = || {
                    for _ in 0..launches {
                        softmax.forward_into(&gpu.stream, inputs, &y, None).expect("checked");
                    }
                };
                let copied = rows * columns * size_of::<T>();
                let copy = || {
                    for _ in 0..launches {
                        // SAFETY: both tensors hold as many bytes.
                        unsafe { gpu.copy(y.pointer(), x.pointer(), copied) };
                    }
                };
                gpu.time(run);
                gpu.time(copy);
                for _ in 0..options.rounds {
                    let each =
                        |time: std::time::Duration| time.as_secs_f64() * 1e6 / launches as f64;
                    cell.kernel_us.push(each(gpu.time(run)));
                    // As many bytes as the kernel moves.
                    let share = moved as f64 / (2 * copied) as f64;
                    cell.copy_us.push(each(gpu.time(copy)) * share);
                }
                let ratios: Vec<f64> = cell
                    .copy_us
                    .iter()
                    .zip(&cell.kernel_us)
                    .map(|(copy, own)| copy / own)
                    .collect();
                cell.of_copy = median(&ratios);
                let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
                let high = ratios.iter().copied().fold(0.0, f64::max);
                println!(
                    "{:5} {columns:8} {mask:7} {tile:16} {:10.1} {:9.1}  {:.3} ({low:.3} .. {high:.3})",
                    cell.dtype,
                    median(&cell.kernel_us),
                    median(&cell.copy_us),
                    cell.of_copy,
                );
                record.cells.push(cell);
            }
        }
    }
    Ok(())
}

/// Runs once on a poisoned output and compares rows at the begin, the end and between with the
/// reference, by the tests' rule. Gives the largest relative error in norm.
fn check<T: Accumulate>(
    softmax: &ScaledMaskedSoftmax,
    inputs: SoftmaxInputs<'_, T>,
    values: &[T],
    y: &Tensor<T>,
    mask: &str,
) -> Result<f64, Box<dyn Error>> {
    let device: &Device = y.device();
    let [matrices, queries, columns] = *y.shape() else { return Err("three dimensions".into()) };
    let picked = |random: usize| random * 7919 % (matrices * queries);
    let rows: Vec<usize> =
        [0, matrices * queries - 1].into_iter().chain((1..6).map(picked)).collect();
    let poison = vec![T::from_f64(f64::NAN); columns];
    let row_of = |tensor: &Tensor<T>, row: usize| {
        tensor.narrow(0, row / queries, 1)?.narrow(1, row % queries, 1)?.reshape(&[columns])
    };
    for &row in &rows {
        row_of(y, row)?.copy_from(&poison)?;
    }
    softmax.forward_into(&device.default_stream(), inputs, y, None)?;
    let mut worst = 0f64;
    for &row in &rows {
        let x: Vec<f64> = values[row * columns..][..columns].iter().map(|x| x.to_f64()).collect();
        let query = row % queries;
        let excluded = |_: usize, _: usize, j: usize| match mask {
            "causal" => j as i64 > query as i64 + columns as i64 - queries as i64,
            "bytes" => (row * columns + j).is_multiple_of(3),
            _ => false,
        };
        let mut problem = SoftmaxProblem::new(&x, 1, columns);
        problem.scale = SCALE;
        problem.excluded = Some(&excluded);
        let expected = problem.solve().p;
        let unfused = problem.solve_unfused::<T>();
        let got = row_of(y, row)?.to_vec()?;
        check_output(&got, &expected, &unfused, columns).map_err(|e| format!("row {row}: {e}"))?;
        let sum = |f: &dyn Fn(f64, f64) -> f64| {
            let pairs = got.iter().zip(&expected);
            pairs.map(|(got, &expected)| f(got.to_f64(), expected).powi(2)).sum::<f64>()
        };
        let (error, norm) = (sum(&|got, expected| got - expected), sum(&|_, expected| expected));
        worst = worst.max((error / norm.max(f64::MIN_POSITIVE)).sqrt());
    }
    Ok(worst)
}
