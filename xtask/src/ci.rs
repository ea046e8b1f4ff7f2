//! `cargo xtask ci`: what continuous integration checks, in its order.

use crate::{build_ptx, check_ptx, header, report, setup, workspace::root};
use anyhow::{Context, Result, ensure};
use std::{env, process::Command, time::Instant};

/// Runs every step; the first that fails ends it.
pub(crate) fn run() -> Result<()> {
    step("formatting", || cargo(&["fmt", "--check"], &[]))?;
    step("lints", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
    })?;
    step("documentation", || {
        cargo(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
    })?;
    step("the C header", || {
        header::run(true)?;
        header::compile()
    })?;
    step("tools", || setup::run(false))?;
    step("prebuilt kernels", || build_ptx::run(true))?;
    step("resources of the kernels", || check_ptx::run(false))?;
    step("report", || report::run(true))?;
    step("tests", || cargo(&["test"], &[]))?;
    step("a crate outside of the workspace", || {
        let status = Command::new(root().join("tests/external-crate/check.sh")).status();
        ensure!(status.context("cannot run its check")?.success(), "it does not build or run");
        Ok(())
    })
}

fn step(name: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}");
    let start = Instant::now();
    run().with_context(|| format!("in the step {name:?}"))?;
    println!("== {name}: passed in {:.0?}", start.elapsed());
    Ok(())
}

fn cargo(arguments: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).envs(variables.iter().copied()).current_dir(root());
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}
