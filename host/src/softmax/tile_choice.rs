//! Which tile of the table runs a problem, and why.

use super::{launch::Entry, options::ScaledMaskedSoftmax};
use crate::Dtype;
use kernels::tiles::{Preference, Sharing, SoftmaxTile};

/// What the choice depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    pub dtype: Dtype,
    pub rows: u64,
    pub columns: u64,
    /// Every vector of every row, of its masks and of its output is one aligned access.
    pub aligned: bool,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
}

/// A row of the table, and the entry of it that a problem would take.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub tile: &'static SoftmaxTile,
    pub entry: Entry,
}

/// How many threads take a row, in a tile that can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// Threads of a block.
    pub threads: u32,
    /// Lanes of a warp for each row, log2.
    pub row_lanes_log2: u32,
    /// Blocks of a cluster.
    pub cluster: u32,
}

/// The elements of a 16-byte vector.
pub(super) fn lanes(dtype: Dtype) -> u64 {
    16 / dtype.size() as u64
}

/// Of the element types in a variant's kernels.
pub(super) fn dtype_index(dtype: Dtype) -> Option<usize> {
    [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64].iter().position(|&known| known == dtype)
}

/// The largest portable cluster.
const MAX_CLUSTER: u64 = 8;

/// Can this entry of the tile run the problem? If so, how it is cut, else why not.
fn eligible(candidate: Candidate, demand: &Demand) -> Result<Cut, String> {
    let SoftmaxTile { vectors, threads, aligned, streamed, sharing, .. } = *candidate.tile;
    let needed = candidate.entry.arch();
    let (major, minor) = demand.capability;
    if capability_of(needed) > (major, minor) {
        return Err(format!("needs {needed}, the device is sm_{major}{minor}"));
    }
    if aligned && !demand.aligned {
        return Err("rows, masks or output are not all on 16-byte boundaries".to_owned());
    }
    let lanes = lanes(demand.dtype);
    // A row off the grid may touch one vector more than it fills.
    let lead = if aligned { 0 } else { lanes - 1 };
    let needed_threads =
        demand.columns.saturating_add(lead).div_ceil(lanes * u64::from(vectors)).max(1);
    let whole_warps = |threads: u64| threads.next_multiple_of(32) as u32;
    let most = u64::from(threads);
    let too_long = |limit: u64| {
        let columns = limit * lanes * u64::from(vectors) - lead;
        Err(format!("holds rows of up to {columns} columns, not {}", demand.columns))
    };
    match sharing {
        Sharing::Warp if needed_threads > 32 => too_long(32),
        Sharing::Warp => {
            // Edges off the grid are taken one by one, each by a lane of its own.
            let least = if aligned { 1 } else { lanes };
            let row_lanes_log2 = needed_threads.max(least).next_power_of_two().trailing_zeros();
            Ok(Cut { threads, row_lanes_log2, cluster: 1 })
        }
        Sharing::Block if streamed => {
            let threads = whole_warps(needed_threads.min(most)).min(threads);
            Ok(Cut { threads, row_lanes_log2: 5, cluster: 1 })
        }
        Sharing::Block if needed_threads > most => too_long(most),
        Sharing::Block => {
            Ok(Cut { threads: whole_warps(needed_threads), row_lanes_log2: 5, cluster: 1 })
        }
        Sharing::Cluster if needed_threads > most * MAX_CLUSTER => too_long(most * MAX_CLUSTER),
        Sharing::Cluster => {
            let cluster = needed_threads.div_ceil(most).next_power_of_two().max(2);
            let threads = whole_warps(needed_threads.div_ceil(cluster));
            Ok(Cut { threads, row_lanes_log2: 5, cluster: cluster as u32 })
        }
    }
}

/// `sm_90a` as (9, 0).
fn capability_of(arch: &str) -> (u32, u32) {
    let digits = arch.trim_start_matches("sm_").trim_end_matches('a');
    let number: u32 = digits.parse().unwrap_or(u32::MAX);
    (number / 10, number % 10)
}

/// Is the tile preferred for the problem? If not, why.
fn preferred(tile: &SoftmaxTile, demand: &Demand) -> Result<(), String> {
    let row_bytes = demand.columns.saturating_mul(demand.dtype.size() as u64);
    match tile.preference {
        Preference::RowBytesUpTo(most) if row_bytes > most.into() => {
            Err(format!("eligible, but preferred only for rows of up to {most} bytes"))
        }
        Preference::RowsUpTo(most) if demand.rows > most.into() => {
            Err(format!("eligible, but preferred only for up to {most} rows"))
        }
        Preference::RowsOrRowBytesUpTo(rows, bytes)
            if demand.rows > rows.into() && row_bytes > bytes.into() =>
        {
            Err(format!(
                "eligible, but preferred only for up to {rows} rows, or rows of up to {bytes} bytes"
            ))
        }
        _ => Ok(()),
    }
}

/// What runs a problem, and what was passed over.
pub(super) struct Choice {
    pub candidate: Candidate,
    pub cut: Cut,
    /// The tiles before it in the table, and why.
    pub passed_over: Vec<(&'static str, String)>,
}

/// The first candidate that can run the problem and is preferred for it, else the first that can;
/// the one that the options ask for, if they do. Without any, each tile and why not.
pub(super) fn choose(
    candidates: impl Iterator<Item = Candidate>,
    options: &ScaledMaskedSoftmax,
    demand: &Demand,
) -> Result<Choice, Vec<(&'static str, String)>> {
    let mut passed_over = Vec::new();
    let mut fallback = None;
    for candidate in candidates {
        let tile = candidate.tile;
        let wanted = options.tile.unwrap_or(tile.name);
        let reason = if wanted != tile.name {
            format!("the options ask for {wanted}")
        } else {
            match (eligible(candidate, demand), preferred(tile, demand)) {
                (Ok(cut), Ok(())) => return Ok(Choice { candidate, cut, passed_over }),
                (Ok(cut), Err(reason)) => {
                    let place = passed_over.len();
                    fallback.get_or_insert((candidate, cut, place));
                    reason
                }
                (Err(reason), _) => reason,
            }
        };
        passed_over.push((tile.name, reason));
    }
    let Some((candidate, cut, place)) = fallback else { return Err(passed_over) };
    passed_over.truncate(place);
    Ok(Choice { candidate, cut, passed_over })
}
