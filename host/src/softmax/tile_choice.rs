//! A row of the table of tiles as a candidate for a problem.

use super::{
    cut::{Cut, Demand, cut},
    launch::Entry,
    tuning::TunedMask,
};
use crate::{Dtype, choice};
use kernels::tiles::{Preference, SoftmaxTile};

/// A row of the table, and the entry of it that a problem would take.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub tile: &'static SoftmaxTile,
    pub entry: Entry,
    /// The entry takes rows that share masks in turn.
    pub in_turns: bool,
}

/// Of the element types in a variant's kernels.
pub(super) fn dtype_index(dtype: Dtype) -> Option<usize> {
    [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64].iter().position(|&known| known == dtype)
}

impl choice::Candidate for Candidate {
    type Demand = Demand;
    type Cut = Cut;

    fn tile(&self) -> &'static str {
        self.tile.name
    }

    fn cut(&self, demand: &Demand) -> Result<Cut, String> {
        cut(self.tile, self.entry.arch(), self.in_turns, demand)
    }

    fn preferred(&self, demand: &Demand) -> Result<(), String> {
        let row_bytes = demand.columns.saturating_mul(demand.dtype.size() as u64);
        let (most, such) = match (self.tile.preference, demand.mask) {
            (Preference::Always, _) => return Ok(()),
            (Preference::RowBytesUpTo(most), _) => (most, ""),
            (Preference::RowBytesByMaskUpTo(most, ..), TunedMask::None) => (most, " without masks"),
            (Preference::RowBytesByMaskUpTo(_, most, _), TunedMask::Range) => {
                (most, " with a visible range")
            }
            (Preference::RowBytesByMaskUpTo(_, _, most), _) => (most, " with masks of elements"),
        };
        if row_bytes > most.into() {
            return Err(format!(
                "eligible, but preferred only for rows of up to {most} bytes{such}"
            ));
        }
        Ok(())
    }
}
