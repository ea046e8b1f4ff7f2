//! Attention of queries, keys and values from a safetensors file, on a GPU or on the CPU emulator,
//! compared with the reference in f64.
//!
//! ```text
//! cargo run --release --example attention                   # tensors that ship with it
//! cargo run --release --example attention -- qkv.safetensors --causal
//! cargo run --release --example attention -- --help
//! ```
//!
//! Exits with 0 if the result is right, with 1 if it is not, with 2 if there is no result.

use clap::Parser;
use example_support::{
    attention::{self, AttentionReport, AttentionRequest, Refusal},
    command_line::{Diagonal, exit_code},
    device::{self, Wanted},
    shipped,
    tensor_file::{self, TensorFile},
};
use fused_attention::Causal;
use std::{path::PathBuf, process::ExitCode};

/// Attention of three tensors, checked against a reference in f64.
#[derive(Parser)]
#[command(name = "attention")]
struct Options {
    /// A safetensors file; without it, tensors that ship with the program.
    file: Option<PathBuf>,
    /// The tensor of queries: F16, BF16 or F32, of batch, heads, rows, elements.
    #[arg(long, default_value = "q")]
    q: String,
    /// The tensor of keys.
    #[arg(long, default_value = "k")]
    k: String,
    /// The tensor of values.
    #[arg(long, default_value = "v")]
    v: String,
    /// The tensor that says how many rows of each batch entry count: I32 [default: the tensor
    /// `lengths`, if the file has one].
    #[arg(long)]
    lengths: Option<String>,
    /// What products are multiplied by [default: the file's metadata `scale`, or one over the
    /// square root of the elements].
    #[arg(long, allow_negative_numbers = true)]
    scale: Option<f64>,
    /// Hide the keys to the right of the diagonal, which ends in the bottom right corner unless
    /// the other is named.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "bottom-right")]
    causal: Option<Diagonal>,
    /// Show only keys so far left of the diagonal, and so far right of it; negative: all.
    #[arg(long, num_args = 2, value_names = ["LEFT", "RIGHT"], allow_negative_numbers = true)]
    window: Option<Vec<i64>>,
    /// Where to run.
    #[arg(long, default_value = "auto")]
    device: Wanted,
    /// Where to write the result.
    #[arg(long, default_value = "attention.safetensors")]
    out: PathBuf,
}

fn main() -> ExitCode {
    exit_code(run(&Options::parse()))
}

/// Whether the result is right.
fn run(options: &Options) -> Result<bool, Refusal> {
    let file = match &options.file {
        Some(path) => TensorFile::open(path)?,
        None => shipped::attention()?,
    };
    let default_lengths = file.contains("lengths")?.then_some("lengths");
    let request = AttentionRequest {
        tensors: [&options.q, &options.k, &options.v],
        lengths: options.lengths.as_deref().or(default_lengths),
        scale: match options.scale {
            Some(scale) => Some(scale),
            None => file.scale()?,
        },
        causal: options.causal.map(Causal::from),
        window: options.window.as_ref().map(|window| (window[0], window[1])),
    };
    let (device, why) = device::choose(options.device)?;
    println!("device  {device}: {why}");
    println!("input   {}", request.describe(&file)?);
    let AttentionReport { plan, check, time, o, lse } = attention::run(&device, &file, &request)?;
    println!("plan    {plan}");
    match &check {
        Ok(deviation) => println!("error   {deviation}: right"),
        Err(mismatch) => println!("error   {mismatch}: wrong"),
    }
    println!("time    {time}");
    tensor_file::write(&options.out, &[("o", &o), ("lse", &lse)])?;
    println!("output  {}: o {o}, lse {lse}", options.out.display());
    Ok(check.is_ok())
}
