//! Records of measurements: what was measured, on which card, by which command, every round.
//!
//! The benchmarks and the scripts that run other libraries write this, as JSON; `cargo xtask report`
//! reads it.

mod statistics;

pub use statistics::{Spread, geometric_mean, median};

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, env, fs, io, path::Path, process::Command};

/// A run of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was measured.
    pub benchmark: String,
    /// The card, its driver, clocks and temperature, as nvidia-smi tells.
    pub card: String,
    /// When, in UTC.
    pub date: String,
    /// The command line.
    pub command: String,
    /// Versions of what took part, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// One for each problem.
    pub cells: Vec<Cell>,
}

/// A problem, measured in several rounds in which all implementations take turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// `forward`, `backward` (from probabilities) or `backward_from_scores`.
    pub direction: String,
    /// The element type: `f16`, `bf16`, `f32`, `f64`.
    pub dtype: String,
    /// Rows.
    pub rows: u64,
    /// Columns of a row.
    pub columns: u64,
    /// All dimensions, where more are told than rows and columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<u64>,
    /// What hides parts of rows: `none`, `bytes` (one for each element), `heads` (bytes that all
    /// heads share), `additive`, `causal`, `window`, `lengths`.
    pub mask: String,
    /// The bytes that x was to take, about, where that is not the usual number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Our tile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tile: Option<String>,
    /// What must be moved: each distinct byte that counts, of inputs, masks and output.
    pub bytes: u64,
    /// The largest relative error in norm of the rows that were checked, in the same process and on
    /// outputs poisoned before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_error: Option<f64>,
    /// The most device memory in use at once, by implementation, inputs and outputs included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peak_bytes: BTreeMap<String, u64>,
    /// Microseconds of a call, by implementation, one for each round. `ours` is this library;
    /// `copy` a device-to-device copy that reads and writes `bytes` in all; `unmasked` this library
    /// without the mask.
    pub microseconds: BTreeMap<String, Vec<f64>>,
}

impl Record {
    /// A record of this run, without cells.
    pub fn begin(benchmark: &str) -> Self {
        let query = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu";
        let card = output("nvidia-smi", &["--id=0", query, "--format=csv,noheader"]);
        Record {
            benchmark: benchmark.to_owned(),
            card: card.filter(|card| !card.is_empty()).unwrap_or_else(|| "unknown".to_owned()),
            date: output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]).unwrap_or_default(),
            command: command_line(env::args()),
            versions: BTreeMap::new(),
            cells: Vec::new(),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no record.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let record: Record = serde_json::from_slice(&fs::read(path)?)?;
        for cell in &record.cells {
            let mut counts = cell.microseconds.values().map(Vec::len);
            let rounds = counts.next().unwrap_or(0);
            let numbers = || cell.microseconds.values().flatten();
            if rounds == 0 || counts.any(|count| count != rounds) || numbers().any(|&us| us <= 0.0)
            {
                let Cell { direction, dtype, rows, columns, .. } = cell;
                let cell = format!("{direction} of {rows} x {columns} {dtype}");
                return Err(ReadError::Rounds { cell });
            }
        }
        Ok(record)
    }

    /// Writes a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, serde_json::to_string_pretty(self)? + "\n")
    }
}

/// Why a file is no record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is no JSON, or has other fields.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Implementations of one cell with different numbers of rounds, none, or times that are none.
    #[error("{cell}: every implementation needs a time above 0 for each round")]
    Rounds {
        /// The problem.
        cell: String,
    },
}

impl Cell {
    /// How many times as fast as `other` an implementation is, round by round; None if either was
    /// not measured.
    pub fn speedup(&self, of: &str, over: &str) -> Option<Spread> {
        let (own, other) = (self.microseconds.get(of)?, self.microseconds.get(over)?);
        Spread::of(own.iter().zip(other).map(|(own, other)| other / own))
    }

    /// An implementation's times; None if it was not measured.
    pub fn time(&self, of: &str) -> Option<Spread> {
        Spread::of(self.microseconds.get(of)?.iter().copied())
    }
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The command, without the program's folder, what cargo adds, and where the record goes, which says
/// nothing about what was measured.
fn command_line(mut arguments: impl Iterator<Item = String>) -> String {
    let program = arguments.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    // Cargo appends the hash of the build.
    let name = match name.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 => name,
        _ => name,
    };
    let mut words = vec![name.to_owned()];
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--record" => drop(arguments.next()),
            "--bench" => {}
            _ if word.starts_with("--record=") => {}
            _ => words.push(word),
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> Cell {
        let times = [("ours", vec![2.0, 4.0, 5.0]), ("copy", vec![1.0, 2.0, 4.0])];
        Cell {
            direction: "forward".into(),
            dtype: "bf16".into(),
            rows: 3,
            columns: 4,
            shape: vec![],
            mask: "none".into(),
            total_bytes: None,
            tile: None,
            bytes: 48,
            checked_error: Some(0.001),
            peak_bytes: BTreeMap::new(),
            microseconds: times.map(|(name, times)| (name.to_owned(), times)).into(),
        }
    }

    #[test]
    fn speedups_pair_the_rounds() {
        let spread = cell().speedup("ours", "copy").unwrap();
        assert_eq!(spread, Spread { median: 0.5, least: 0.5, most: 0.8 });
        assert_eq!(cell().speedup("ours", "quack"), None);
        assert_eq!(cell().time("copy").unwrap().median, 2.0);
    }

    #[test]
    fn records_come_back_as_they_were() {
        let record = Record { cells: vec![cell()], ..Record::begin("softmax") };
        let path = env::temp_dir().join(format!("record-{}.json", std::process::id()));
        record.write(&path).unwrap();
        let read = Record::read(&path);
        fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap(), record);
    }

    #[test]
    fn rounds_must_pair() {
        let mut cell = cell();
        cell.microseconds.get_mut("copy").unwrap().pop();
        let record = Record { cells: vec![cell], ..Record::begin("softmax") };
        let path = env::temp_dir().join(format!("unpaired-{}.json", std::process::id()));
        record.write(&path).unwrap();
        let read = Record::read(&path);
        fs::remove_file(&path).unwrap();
        let error = read.unwrap_err().to_string();
        assert!(error.starts_with("forward of 3 x 4 bf16: "), "{error}");
    }

    #[test]
    fn commands_name_what_was_measured() {
        let line = |words: &[&str]| command_line(words.iter().map(|&word| word.to_owned()));
        let words =
            ["/a/softmax_rounds-0123456789abcdef", "--bench", "--record", "r", "--rounds", "9"];
        assert_eq!(line(&words), "softmax_rounds --rounds 9");
        assert_eq!(line(&["b/x", "--record=r"]), "x");
    }
}
