//! Which tile of the table runs a problem, and why.

use super::{
    cut::{Cut, Demand, cut},
    launch::Entry,
    tuning::TunedMask,
};
use crate::Dtype;
use kernels::tiles::{Preference, SoftmaxTile};

/// A row of the table, and the entry of it that a problem would take.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub tile: &'static SoftmaxTile,
    pub entry: Entry,
}

/// Of the element types in a variant's kernels.
pub(super) fn dtype_index(dtype: Dtype) -> Option<usize> {
    [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64].iter().position(|&known| known == dtype)
}

/// Is the tile preferred for the problem? If not, why.
fn preferred(tile: &SoftmaxTile, demand: &Demand) -> Result<(), String> {
    let row_bytes = demand.columns.saturating_mul(demand.dtype.size() as u64);
    let (most, such) = match (tile.preference, demand.mask) {
        (Preference::Always, _) => return Ok(()),
        (Preference::RowBytesUpTo(most), _) => (most, ""),
        (Preference::RowBytesByMaskUpTo(most, ..), TunedMask::None) => (most, " without masks"),
        (Preference::RowBytesByMaskUpTo(_, most, _), TunedMask::Range) => {
            (most, " with a visible range")
        }
        (Preference::RowBytesByMaskUpTo(_, _, most), _) => (most, " with masks of elements"),
    };
    if row_bytes > most.into() {
        return Err(format!("eligible, but preferred only for rows of up to {most} bytes{such}"));
    }
    Ok(())
}

/// What runs a problem, and what was passed over.
pub(super) struct Choice {
    pub candidate: Candidate,
    pub cut: Cut,
    /// The tiles before it in the table, and why.
    pub passed_over: Vec<(&'static str, String)>,
}

/// Who wants a tile, and which.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wish {
    Options(&'static str),
    Tuning(&'static str),
}

/// The first candidate that can run the problem and is preferred for it, else the first that can;
/// the one that is wished for, if there is a wish. Without any, each tile and why not.
pub(super) fn choose(
    candidates: impl Iterator<Item = Candidate>,
    wish: Option<Wish>,
    demand: &Demand,
) -> Result<Choice, Vec<(&'static str, String)>> {
    let mut passed_over = Vec::new();
    let mut fallback = None;
    for candidate in candidates {
        let tile = candidate.tile;
        let reason = match wish {
            Some(Wish::Options(wanted)) if wanted != tile.name => {
                format!("the options ask for {wanted}")
            }
            Some(Wish::Tuning(wanted)) if wanted != tile.name => {
                format!("the tuning file prefers {wanted}")
            }
            _ => match (cut(tile, candidate.entry.arch(), demand), preferred(tile, demand)) {
                (Ok(cut), Ok(())) => return Ok(Choice { candidate, cut, passed_over }),
                (Ok(cut), Err(reason)) => {
                    let place = passed_over.len();
                    fallback.get_or_insert((candidate, cut, place));
                    reason
                }
                (Err(reason), _) => reason,
            },
        };
        passed_over.push((tile.name, reason));
    }
    let Some((candidate, cut, place)) = fallback else { return Err(passed_over) };
    passed_over.truncate(place);
    Ok(Choice { candidate, cut, passed_over })
}
