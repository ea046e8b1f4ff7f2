//! `cargo xtask tune`: preferences of tiles, measured on the GPU at hand.

use crate::workspace::root;
use anyhow::{Context, Result, ensure};
use std::{env, path::absolute, process::Command};

/// Builds and runs the program that measures. Its file goes to where the caller stands.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["bench", "--quiet", "--package=fused-attention-benches", "--bench=tune", "--"]);
    if !arguments.iter().any(|argument| argument.starts_with("--output")) {
        command.arg("--output").arg(absolute("tuning.toml")?);
    }
    let status = command.args(arguments).current_dir(root()).status();
    ensure!(status.context("cannot run cargo")?.success(), "the program that measures failed");
    Ok(())
}
