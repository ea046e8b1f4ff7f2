//! Records of measurements: what was measured, on which card, by which command, every round.

use serde::Serialize;
use std::{env, process::Command};

/// A run of a benchmark.
#[derive(Debug, Serialize)]
pub struct Record {
    /// What was measured.
    pub benchmark: String,
    /// The card, its driver and its clocks, as nvidia-smi tells.
    pub card: String,
    /// When, in UTC.
    pub date: String,
    /// The command line.
    pub command: String,
    /// One for each cell.
    pub cells: Vec<Cell>,
}

/// A problem, measured in several rounds in turn with the yardstick.
#[derive(Debug, Serialize)]
pub struct Cell {
    /// The element type.
    pub dtype: &'static str,
    /// Rows.
    pub rows: usize,
    /// Columns of a row.
    pub columns: usize,
    /// What hides parts of rows.
    pub mask: String,
    /// The tile that ran.
    pub tile: String,
    /// Bytes moved: each input and output once.
    pub bytes: usize,
    /// Microseconds of the kernel, each round.
    pub kernel_us: Vec<f64>,
    /// Microseconds of a device-to-device copy of as many bytes, read and written, each round.
    pub copy_us: Vec<f64>,
    /// Median of the rounds' ratios: copy time / kernel time.
    pub of_copy: f64,
    /// The largest relative error among checked elements, in the same process.
    pub checked_error: f64,
}

impl Record {
    /// A record of this run, without cells.
    pub fn begin(benchmark: &str) -> Self {
        let output = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let query = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu";
        let card = output("nvidia-smi", &[query, "--format=csv,noheader"]);
        // Where the record goes says nothing about what was measured.
        let mut words = Vec::new();
        let mut arguments = env::args();
        let program = arguments.next().unwrap_or_default();
        words.push(program.rsplit('/').next().unwrap_or_default().to_owned());
        while let Some(word) = arguments.next() {
            match word.as_str() {
                "--record" => drop(arguments.next()),
                "--bench" => {}
                _ => words.push(word),
            }
        }
        Record {
            benchmark: benchmark.to_owned(),
            card: card.unwrap_or_else(|| "unknown".to_owned()),
            date: output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]).unwrap_or_default(),
            command: words.join(" "),
            cells: Vec::new(),
        }
    }
}
