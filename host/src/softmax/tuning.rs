//! Preferences that were measured on a GPU, and come before those of the table.

use super::{
    call::Operation,
    cut::Demand,
    options::{backward_tile_names, tile_names},
};
use crate::{Dtype, Error, Result};
use serde::{Deserialize, Serialize};
use std::{env, fs, path::Path, sync::OnceLock};

/// What names the file of preferences.
const VARIABLE: &str = "FUSED_ATTENTION_TUNING";

/// Tiles that were measured to be faster on a GPU than those that the library prefers: what
/// `cargo xtask tune` writes, and what every process reads from the file that
/// `FUSED_ATTENTION_TUNING` names. The file is TOML:
///
/// ```
/// let text = r#"
/// device = "NVIDIA H200"
/// compute_capability = [9, 0]
///
/// [[preference]]
/// operation = "softmax_forward"
/// dtype = "bf16"
/// mask = "none"
/// aligned = true
/// row_bytes = [46341, 92681]
/// rows = [1, 46]
/// tile = "streamed4"
/// "#;
/// let tuning: fused_attention::Tuning = text.parse()?;
/// assert_eq!(tuning.preferences[0].rows, (1, 46));
/// # Ok::<(), fused_attention::TuningError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// The GPU's name.
    pub device: String,
    /// Its compute capability, major and minor. On other GPUs the preferences do not count.
    pub compute_capability: (u32, u32),
    /// The first that a problem is within, and whose tile can run it, counts.
    #[serde(default, rename = "preference")]
    pub preferences: Vec<TilePreference>,
}

/// The tile that is preferred for a range of problems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TilePreference {
    /// What is computed.
    pub operation: TunedOperation,
    /// The element type: `f16`, `bf16`, `f32` or `f64`.
    pub dtype: String,
    /// What hides parts of rows.
    pub mask: TunedMask,
    /// Whether every vector of every row is one aligned access.
    pub aligned: bool,
    /// The fewest and the most bytes of a row.
    pub row_bytes: (u64, u64),
    /// The fewest and the most rows.
    pub rows: (u64, u64),
    /// The tile's name.
    pub tile: String,
}

/// What a preferred tile computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TunedOperation {
    /// The softmax.
    SoftmaxForward,
    /// Its gradient, from probabilities.
    SoftmaxBackwardFromProbabilities,
    /// Its gradient, from scores.
    SoftmaxBackwardFromScores,
}

impl From<Operation> for TunedOperation {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Forward => TunedOperation::SoftmaxForward,
            Operation::BackwardFromProbabilities => {
                TunedOperation::SoftmaxBackwardFromProbabilities
            }
            Operation::BackwardFromScores => TunedOperation::SoftmaxBackwardFromScores,
        }
    }
}

/// What hides parts of the rows that a preferred tile takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TunedMask {
    /// Nothing.
    None,
    /// A causal mask, a window, or lengths.
    Range,
    /// Bytes, whatever else does.
    Bytes,
    /// An additive mask, whatever else does.
    Additive,
}

/// Why a text is no [`Tuning`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TuningError {
    /// The file cannot be read.
    #[error("cannot be read: {reason}")]
    Unreadable {
        /// What the system says.
        reason: String,
    },
    /// It is no TOML, or has other fields.
    #[error("{reason}")]
    Malformed {
        /// What is wrong, and where.
        reason: String,
    },
    /// A tile that the operation does not have.
    #[error("{operation:?} has no tile {tile:?}; its tiles are {known}")]
    UnknownTile {
        /// The operation.
        operation: TunedOperation,
        /// The name given.
        tile: String,
        /// The names there are.
        known: String,
    },
    /// An element type that there is no softmax of.
    #[error("there is no softmax of {dtype:?}")]
    UnknownDtype {
        /// The name given.
        dtype: String,
    },
    /// A range that ends before it begins.
    #[error("{field} of {tile} from {least} to {most}")]
    EmptyRange {
        /// The field.
        field: &'static str,
        /// The tile that it is given for.
        tile: String,
        /// Where it begins.
        least: u64,
        /// Where it ends.
        most: u64,
    },
}

impl std::str::FromStr for Tuning {
    type Err = TuningError;

    fn from_str(text: &str) -> Result<Self, TuningError> {
        let malformed =
            |error: toml::de::Error| TuningError::Malformed { reason: error.to_string() };
        let tuning: Tuning = toml::from_str(text).map_err(malformed)?;
        tuning.preferences.iter().try_for_each(TilePreference::check)?;
        Ok(tuning)
    }
}

impl Tuning {
    fn read(path: &Path) -> Result<Self, TuningError> {
        let unreadable =
            |error: std::io::Error| TuningError::Unreadable { reason: error.to_string() };
        fs::read_to_string(path).map_err(unreadable)?.parse()
    }

    /// The names of the tiles that are preferred for a problem, the best first.
    fn tiles<'a>(&'a self, problem: &TunedProblem) -> impl Iterator<Item = &'a str> + use<'a> {
        let problem = *problem;
        let counts = self.compute_capability == problem.capability;
        let preferences = self.preferences.iter().filter(move |_| counts);
        let own = preferences.filter(move |preference| preference.is_for(&problem));
        own.map(|preference| preference.tile.as_str())
    }
}

/// What a preference depends on.
#[derive(Debug, Clone, Copy)]
struct TunedProblem {
    operation: Operation,
    dtype: Dtype,
    mask: TunedMask,
    aligned: bool,
    row_bytes: u64,
    rows: u64,
    capability: (u32, u32),
}

impl TilePreference {
    fn check(&self) -> Result<(), TuningError> {
        let TilePreference { operation, ref dtype, row_bytes, rows, ref tile, .. } = *self;
        if !["f16", "bf16", "f32", "f64"].contains(&dtype.as_str()) {
            return Err(TuningError::UnknownDtype { dtype: dtype.clone() });
        }
        for (field, (least, most)) in [("row_bytes", row_bytes), ("rows", rows)] {
            if most < least {
                return Err(TuningError::EmptyRange { field, tile: tile.clone(), least, most });
            }
        }
        let known: Vec<&str> = match operation {
            TunedOperation::SoftmaxForward => tile_names().collect(),
            _ => backward_tile_names().collect(),
        };
        if !known.contains(&tile.as_str()) {
            let (tile, known) = (tile.clone(), known.join(", "));
            return Err(TuningError::UnknownTile { operation, tile, known });
        }
        Ok(())
    }

    fn is_for(&self, problem: &TunedProblem) -> bool {
        let within = |(least, most): (u64, u64), value| (least..=most).contains(&value);
        self.operation == problem.operation.into()
            && self.dtype == problem.dtype.name()
            && self.mask == problem.mask
            && self.aligned == problem.aligned
            && within(self.row_bytes, problem.row_bytes)
            && within(self.rows, problem.rows)
    }
}

/// The names of the tiles that this process prefers for a problem, the best first.
pub(super) fn tiles(
    operation: Operation,
    demand: &Demand,
) -> Result<impl Iterator<Item = &'static str>> {
    let Demand { dtype, rows, columns, aligned, capability, mask, .. } = *demand;
    let row_bytes = columns.saturating_mul(dtype.size() as u64);
    let problem = TunedProblem { operation, dtype, mask, aligned, row_bytes, rows, capability };
    Ok(current()?.into_iter().flat_map(move |tuning| tuning.tiles(&problem)))
}

/// The preferences of this process: those of the file that is named, read once.
fn current() -> Result<Option<&'static Tuning>> {
    static TUNING: OnceLock<Result<Option<Tuning>>> = OnceLock::new();
    let read = || {
        let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) else {
            return Ok(None);
        };
        Tuning::read(Path::new(&path)).map(Some).map_err(|reason| Error::BadTuning {
            path: path.to_string_lossy().into_owned(),
            reason,
        })
    };
    TUNING.get_or_init(read).as_ref().map(Option::as_ref).map_err(Error::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        device = "NVIDIA H200"
        compute_capability = [9, 0]

        [[preference]]
        operation = "softmax_forward"
        dtype = "bf16"
        mask = "none"
        aligned = true
        row_bytes = [1000, 2000]
        rows = [1, 16]
        tile = "block4"

        [[preference]]
        operation = "softmax_forward"
        dtype = "bf16"
        mask = "none"
        aligned = true
        row_bytes = [0, 9223372036854775807]
        rows = [8, 9223372036854775807]
        tile = "streamed4"
    "#;

    const PROBLEM: TunedProblem = TunedProblem {
        operation: Operation::Forward,
        dtype: Dtype::Bf16,
        mask: TunedMask::None,
        aligned: true,
        row_bytes: 1500,
        rows: 8,
        capability: (9, 0),
    };

    #[test]
    fn the_first_that_a_problem_is_within_comes_first() {
        let tuning: Tuning = FILE.parse().unwrap();
        let tiles = |problem| tuning.tiles(&problem).collect::<Vec<_>>();
        assert_eq!(tiles(PROBLEM), ["block4", "streamed4"]);
        assert_eq!(tiles(TunedProblem { row_bytes: 2001, ..PROBLEM }), ["streamed4"]);
        assert_eq!(tiles(TunedProblem { row_bytes: 2000, rows: 1, ..PROBLEM }), ["block4"]);
        for other in [
            TunedProblem { rows: 7, row_bytes: 999, ..PROBLEM },
            TunedProblem { operation: Operation::BackwardFromScores, ..PROBLEM },
            TunedProblem { dtype: Dtype::F16, ..PROBLEM },
            TunedProblem { mask: TunedMask::Range, ..PROBLEM },
            TunedProblem { aligned: false, ..PROBLEM },
            TunedProblem { capability: (8, 0), ..PROBLEM },
        ] {
            assert_eq!(tiles(other), [""; 0], "{other:?}");
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let tuning: Tuning = FILE.parse().unwrap();
        assert_eq!(toml::to_string(&tuning).unwrap().parse(), Ok(tuning));
    }

    #[test]
    fn bad_files_are_refused() {
        let with = |from: &str, to: &str| FILE.replacen(from, to, 1).parse::<Tuning>().unwrap_err();
        assert_eq!(
            with("[1000, 2000]", "[2000, 1000]"),
            TuningError::EmptyRange {
                field: "row_bytes",
                tile: "block4".into(),
                least: 2000,
                most: 1000
            }
        );
        assert_eq!(with("bf16", "u8"), TuningError::UnknownDtype { dtype: "u8".into() });
        let unknown = with("block4", "block5");
        assert!(
            matches!(&unknown, TuningError::UnknownTile { tile, .. } if tile == "block5"),
            "{unknown}"
        );
        assert!(unknown.to_string().contains("block4"), "{unknown}");
        for (from, to, told) in [
            ("tile =", "tiles =", "tiles"),
            ("softmax_forward", "softmax", "unknown variant `softmax`"),
            ("[1, 16]", "[1, -16]", "rows"),
            ("[[preference]]", "[[preference]", "line 5"),
        ] {
            let error = with(from, to);
            let is_told = |reason: &String| reason.contains(told);
            assert!(
                matches!(&error, TuningError::Malformed { reason } if is_told(reason)),
                "{error}"
            );
        }
        let unreadable = Tuning::read(Path::new("no such file")).unwrap_err();
        assert!(matches!(unreadable, TuningError::Unreadable { .. }), "{unreadable}");
    }
}
