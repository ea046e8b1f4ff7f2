//! Attention's forward, several rounds, every round recorded; with a mask, a bias and the like in turn
//! with the same problem without.
//!
//! Prints a table and, with `--record`, writes JSON; with `--against`, compares with an earlier
//! record. Sampled queries of every problem are compared with the f64 reference in the same process,
//! on outputs that were poisoned before.

use bench_record::{Cell, Record, Spread};
use bench_support::{AttentionCase, AttentionShape, Feature, Gpu, Result, Turns};
use clap::Parser;
use fused_attention::{Element, attention_tile_names};
use half::{bf16, f16};
use std::{path::PathBuf, time::Duration};

/// Attention's forward, in rounds.
#[derive(Parser)]
struct Options {
    /// Tokens of all sequences.
    #[arg(long, default_value_t = 16384)]
    tokens: usize,
    /// Elements of all heads.
    #[arg(long, default_value_t = 2048)]
    width: usize,
    /// Lengths of a sequence.
    #[arg(long, value_delimiter = ',', default_value = "1024,2048,4096,8192,16384")]
    lengths: Vec<usize>,
    /// Elements of a head.
    #[arg(long = "head-dim", value_delimiter = ',', default_value = "64,128")]
    head_dims: Vec<usize>,
    /// Features that are measured at every length.
    #[arg(long = "feature", value_delimiter = ',', default_value = "none,causal")]
    features: Vec<Feature>,
    /// Features that are measured at one length.
    #[arg(
        long = "more",
        value_delimiter = ',',
        default_value = "window,bytes,bias,bias-f32,alibi,softcap,dropout"
    )]
    more: Vec<Feature>,
    /// That length.
    #[arg(long = "more-at", default_value_t = 4096)]
    more_at: usize,
    /// f16 instead of bf16.
    #[arg(long)]
    f16: bool,
    /// Every tile that can run a problem, not only the preferred one.
    #[arg(long)]
    all_tiles: bool,
    /// Rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Milliseconds that an implementation takes in a round, about.
    #[arg(long, default_value_t = 25.0)]
    milliseconds: f64,
    /// Milliseconds of rest before each measurement.
    #[arg(long, default_value_t = 0)]
    rest: u64,
    /// Where to write the record.
    #[arg(long)]
    record: Option<PathBuf>,
    /// A record to compare with.
    #[arg(long)]
    against: Option<PathBuf>,
    /// What cargo passes.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let Some(gpu) = Gpu::open() else { return Ok(()) };
    let earlier = options.against.as_deref().map(Record::read).transpose()?;
    let mut record = Record::begin("attention");
    println!("{}, {}", record.card, record.date);
    println!(
        "dtype  D    batch x heads x length  feature  tile                    us  TFLOP/s (least .. \
         most)"
    );
    let everywhere = options.lengths.iter().map(|&length| (length, &options.features));
    let cases = everywhere.chain([(options.more_at, &options.more)]);
    for &head_dim in &options.head_dims {
        for (length, features) in cases.clone() {
            let shape = AttentionShape::of(options.tokens, options.width, length, head_dim);
            for &feature in features {
                let cells = match options.f16 {
                    true => measure::<f16>(&gpu, &options, shape, feature)?,
                    false => measure::<bf16>(&gpu, &options, shape, feature)?,
                };
                for cell in cells {
                    print(&cell, shape, feature, earlier.as_ref());
                    record.cells.push(cell);
                }
            }
        }
    }
    if let Some(path) = &options.record {
        record.write(path)?;
    }
    Ok(())
}

fn measure<T: Element>(
    gpu: &Gpu,
    options: &Options,
    shape: AttentionShape,
    feature: Feature,
) -> Result<Vec<Cell>> {
    let case = AttentionCase::<T>::new(&gpu.device, shape, feature)?;
    let attention = case.options();
    let preferred = case.explain(&attention)?.tile;
    let turns = Turns {
        rounds: options.rounds,
        milliseconds: options.milliseconds,
        most_calls: Turns::MOST_CALLS,
        rest: Duration::from_millis(options.rest),
    };
    let mut cells = Vec::new();
    for tile in attention_tile_names().filter(|&tile| options.all_tiles || tile == preferred) {
        let attention = attention.with_tile(tile)?;
        if case.explain(&attention).is_err() {
            continue;
        }
        let checked_error = case.check(&attention, &gpu.stream)?;
        let ours = || case.run(&attention, &gpu.stream).expect("checked");
        let plain = || case.run_plain(&gpu.stream).expect("without features too");
        let mut implementations: Vec<(&str, &dyn Fn())> = vec![("ours", &ours)];
        if feature != Feature::None {
            implementations.push(("plain", &plain));
        }
        let free = gpu.free_bytes();
        let (names, runs): (Vec<&str>, Vec<&dyn Fn()>) = implementations.into_iter().unzip();
        let microseconds = turns.measure(gpu, &runs);
        let taken = free.saturating_sub(gpu.free_bytes());
        let AttentionShape { batch, heads, length, head_dim } = shape;
        cells.push(Cell {
            direction: "attention_forward".to_owned(),
            dtype: T::DTYPE.to_string(),
            rows: (batch * heads * length) as u64,
            columns: length as u64,
            shape: [batch, heads, length, head_dim].map(|size| size as u64).to_vec(),
            mask: feature.to_string(),
            total_bytes: None,
            tile: Some(tile.to_owned()),
            bytes: case.tensor_bytes() as u64,
            checked_error: Some(checked_error),
            peak_bytes: [("ours".to_owned(), (case.tensor_bytes() + taken) as u64)].into(),
            microseconds: names.into_iter().map(str::to_owned).zip(microseconds).collect(),
        });
    }
    Ok(cells)
}

fn print(cell: &Cell, shape: AttentionShape, feature: Feature, earlier: Option<&Record>) {
    let AttentionShape { batch, heads, length, head_dim } = shape;
    let sizes = format!("{batch} x {heads} x {length}");
    let (dtype, tile) = (&cell.dtype, cell.tile.as_deref().unwrap_or_default());
    let Some(us) = cell.time("ours") else { return };
    let speed = |us: f64| shape.operations(feature) / us / 1e6;
    let Spread { median, least, most } = us;
    print!(
        "{dtype:5} {head_dim:3} {sizes:>23}  {feature:8} {tile:16} {median:9.1}  {:.1} ({:.1} .. \
         {:.1})",
        speed(median),
        speed(most),
        speed(least)
    );
    if let Some(Spread { median, .. }) = cell.speedup("ours", "plain") {
        print!(", {median:.3} of the speed without");
    }
    let same = |other: &&Cell| {
        let key = |cell: &Cell| (cell.shape.clone(), cell.mask.clone(), cell.dtype.clone());
        other.direction == cell.direction && key(other) == key(cell)
    };
    let before = earlier.and_then(|record| record.cells.iter().find(same)?.time("ours"));
    if let Some(before) = before {
        print!(", {:.3} of the earlier time", median / before.median);
    }
    println!();
}
