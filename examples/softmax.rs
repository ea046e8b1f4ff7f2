//! Scaled masked softmax of a tensor from a safetensors file, on a GPU or on the CPU emulator,
//! and its backward, compared with the reference in f64.
//!
//! ```text
//! cargo run --release --example softmax                    # attention scores that ship with it
//! cargo run --release --example softmax -- scores.safetensors --scale 0.125 --causal
//! cargo run --release --example softmax -- --help
//! ```
//!
//! Exits with 0 if the result is right, with 1 if it is not, with 2 if there is no result.

use clap::{Parser, ValueEnum};
use example_support::{
    command_line::{Diagonal, exit_code},
    device::{self, Wanted},
    shipped,
    softmax::{self, Polarity, Refusal, SoftmaxReport, SoftmaxRequest},
    tensor_file::{self, TensorFile},
};
use fused_attention::{
    Causal,
    reference::tolerance::{Deviation, Mismatch},
};
use std::{path::PathBuf, process::ExitCode};

/// Scaled masked softmax over the last dimension of a tensor, checked against a reference in f64.
#[derive(Parser)]
#[command(name = "softmax")]
struct Options {
    /// A safetensors file; without it, attention scores that ship with the program.
    file: Option<PathBuf>,
    /// The tensor of scores: F16, BF16, F32 or F64, of any shape.
    #[arg(long, default_value = "scores")]
    scores: String,
    /// The tensor that masks them, of a shape that broadcasts to that of the scores: U8 or BOOL
    /// to hide, floats to add [default: the tensor `mask`, if the file has one].
    #[arg(long)]
    mask: Option<String>,
    /// What a nonzero byte of the mask means.
    #[arg(long, default_value = "exclude")]
    nonzero: Nonzero,
    /// What scores are multiplied by [default: the file's metadata `scale`, or 1].
    #[arg(long, allow_negative_numbers = true)]
    scale: Option<f64>,
    /// Hide the keys to the right of the diagonal, which ends in the bottom right corner unless
    /// the other is named.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "bottom-right")]
    causal: Option<Diagonal>,
    /// Where to run.
    #[arg(long, default_value = "auto")]
    device: Wanted,
    /// Where to write the result.
    #[arg(long, default_value = "softmax.safetensors")]
    out: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Nonzero {
    /// Masked.
    Exclude,
    /// Visible.
    Keep,
}

fn main() -> ExitCode {
    exit_code(run(&Options::parse()))
}

/// Whether the result is right.
fn run(options: &Options) -> Result<bool, Refusal> {
    let file = match &options.file {
        Some(path) => TensorFile::open(path)?,
        None => shipped::attention_scores()?,
    };
    let default_mask = file.contains("mask")?.then_some("mask");
    let request = SoftmaxRequest {
        scores: &options.scores,
        mask: options.mask.as_deref().or(default_mask),
        polarity: match options.nonzero {
            Nonzero::Exclude => Polarity::Exclude,
            Nonzero::Keep => Polarity::Keep,
        },
        scale: match options.scale {
            Some(scale) => scale,
            None => file.scale()?.unwrap_or(1.0),
        },
        causal: options.causal.map(Causal::from),
    };
    let (device, why) = device::choose(options.device)?;
    println!("device  {device}: {why}");
    println!("input   {}", request.describe(&file)?);
    let report = softmax::run(&device, &file, &request)?;
    println!("plan    {}", report.plan);
    println!("error   {}", describe_error(&report.check));
    println!("        backward: {}", report.backward_plan);
    println!("        {}", describe_error(&report.backward_check));
    println!("time    {}", report.time);
    let SoftmaxReport { probabilities, lse, .. } = &report;
    tensor_file::write(&options.out, &[("softmax", probabilities), ("lse", lse)])?;
    println!("output  {}: softmax {probabilities}, lse {lse}", options.out.display());
    Ok(report.check.is_ok() && report.backward_check.is_ok())
}

fn describe_error(check: &Result<Deviation, Mismatch>) -> String {
    match check {
        Ok(deviation) => format!("{deviation}: right"),
        Err(mismatch) => format!("{mismatch}: wrong"),
    }
}
