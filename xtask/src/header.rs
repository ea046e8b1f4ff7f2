//! `cargo xtask header`: the header of the C interface, from its Rust source.

use crate::{
    help::WithHelp,
    workspace::{read, relative, root},
};
use anyhow::{Context, Result, ensure};
use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Writes the header; with `check`, only fails if it is not what the source gives.
pub(crate) fn run(check: bool) -> Result<()> {
    let (path, expected) = (path(), generate()?);
    if check {
        let committed = read(&path).help("run `cargo xtask header`")?;
        let is_current = || {
            ensure!(committed == expected, "{} is not what its source gives", relative(&path));
            Ok(())
        };
        is_current().help("run `cargo xtask header`")?;
        println!("{}: up to date", relative(&path));
        return Ok(());
    }
    fs::write(&path, expected)?;
    println!("{}: written", relative(&path));
    Ok(())
}

/// Has the compilers of C and C++ read it, in the oldest of the standards that it is for.
pub(crate) fn compile() -> Result<()> {
    for (compiler, language, standard) in [("cc", "c", "c99"), ("c++", "c++", "c++11")] {
        let mut command = Command::new(compiler);
        command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        command.args(["-x", language, &format!("-std={standard}")]).arg(path());
        let status = command.status().with_context(|| format!("cannot run {compiler}"))?;
        ensure!(status.success(), "{compiler} refuses the header");
        println!("{}: compiles as {standard}", relative(&path()));
    }
    Ok(())
}

/// Where the header is.
fn path() -> PathBuf {
    root().join("include/fused_attention.h")
}

/// What the source gives: the output of the program in `xtask/header`.
fn generate() -> Result<String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--locked", "--manifest-path"]);
    cargo.arg(root().join("xtask/header/Cargo.toml"));
    cargo.arg("--target-dir").arg(root().join("target/header"));
    cargo.arg("--").arg(root().join("c")).stderr(Stdio::inherit());
    let output = cargo.output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cbindgen made no header of the package in c/");
    Ok(String::from_utf8(output.stdout)?)
}
