//! The workspace's automation: `cargo xtask --help`.

mod assembler;
mod build_ptx;
mod bundle;
mod check_ptx;
mod ci;
mod device_crates;
mod header;
mod help;
mod manifest;
mod report;
mod resources;
mod setup;
mod sources;
mod tools;
mod tune;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Builds and checks the kernels, and fetches the tools that this takes.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build every kernel to PTX and write the files and their manifest
    BuildPtx {
        /// Write nothing: fail if a file is not what the sources give
        #[arg(long)]
        check: bool,
    },
    /// Assemble every prebuilt entry, and compare what it takes with the committed tables
    CheckPtx {
        /// Rewrite the tables
        #[arg(long)]
        bless: bool,
    },
    /// Find the device compiler and NVIDIA's tools, and fetch what is missing
    Setup {
        /// Unpack Debian's compiler even if rustup has one for the device
        #[arg(long)]
        debian: bool,
    },
    /// Write the header of the C interface
    Header {
        /// Write nothing: fail if the header is not what the source gives
        #[arg(long)]
        check: bool,
    },
    /// Collect tests, benchmarks and examples in `bundle/`, for a GPU machine without Rust
    Bundle,
    /// Turn the records of measurements into tables and plots, in docs/benchmarks.md
    Report {
        /// Write nothing: fail if a file is not what the records give
        #[arg(long)]
        check: bool,
    },
    /// Measure every tile on the GPU at hand, and write a file of those that should be preferred
    Tune {
        /// What the program that measures takes: --help lists it
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run what continuous integration runs
    Ci,
    /// List the prebuilt entries
    ListEntries,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::BuildPtx { check } => build_ptx::run(check),
        Task::CheckPtx { bless } => check_ptx::run(bless),
        Task::Setup { debian } => setup::run(debian),
        Task::Header { check } => header::run(check),
        Task::Bundle => bundle::run(),
        Task::Report { check } => report::run(check),
        Task::Tune { arguments } => tune::run(&arguments),
        Task::Ci => ci::run(),
        Task::ListEntries => build_ptx::list(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", help::report(&error));
            ExitCode::FAILURE
        }
    }
}
