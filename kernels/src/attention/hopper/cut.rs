//! What a block and a warpgroup have of the problem; the layout of shared memory.

use super::ring::{Detour, Ring};
use crate::attention::row_facts::{ROW_FACTS_BYTES, RowFacts};
use cuda_std::shared;

/// How the kernel is cut: `WARPGROUPS` consumers of 64 rows, rows of q and k of `PANELS` panels,
/// `SCORES` registers for the scores of a block of keys and `OUTPUT` for the output. `KEEPS_Q`: q
/// stays in registers.
///
/// A *panel* is 64 neighbouring elements of all rows of a tile: rows of 128 bytes, which lie one after
/// the other as the 128-byte swizzle has them.
pub struct Cut<
    const WARPGROUPS: u32,
    const PANELS: usize,
    const SCORES: usize,
    const OUTPUT: usize,
    const KEEPS_Q: bool,
>;

/// Elements of a row in a panel.
pub const PANEL: u32 = 64;

/// Bytes of a row in a panel.
pub const PANEL_ROW: u32 = 128;

/// Rows of a consumer.
pub const CONSUMER_ROWS: u32 = 64;

/// Rows of a warp.
pub const WARP_ROWS: u32 = 16;

/// Warps of a warpgroup.
pub const WARPS: u32 = CONSUMER_ROWS / WARP_ROWS;

/// The widest head dimension at which the output has a place of its own in shared memory. Beyond, it
/// takes q's, for want of room, and the next tile's q is not there before it is stored.
pub const APART_UP_TO: u32 = 2 * PANEL;

/// The rings as one of the parties sees them.
#[derive(Clone, Copy)]
pub struct Rings {
    /// Of a tile's queries.
    pub q: Ring,
    /// Of blocks of keys.
    pub k: Ring,
    /// Of blocks of values.
    pub v: Ring,
    /// Of values that are not all to be multiplied.
    pub detour: Detour,
    /// Of marks of blocks of scores, and biases.
    pub marks: Ring,
}

impl<
    const WARPGROUPS: u32,
    const PANELS: usize,
    const SCORES: usize,
    const OUTPUT: usize,
    const KEEPS_Q: bool,
> Cut<WARPGROUPS, PANELS, SCORES, OUTPUT, KEEPS_Q>
{
    /// Rows of a tile.
    pub const ROWS: u32 = CONSUMER_ROWS * WARPGROUPS;
    /// Keys of a block of keys.
    pub const KEYS: u32 = 2 * SCORES as u32;
    /// Panels of v and o.
    pub const VALUE_PANELS: u32 = 2 * OUTPUT as u32 / PANEL;
    /// Warpgroups ahead of the consumers with masks: of the producer and the markers. One, where the tensor
    /// cores' instructions take more registers than so many threads begin with.
    pub const WARPGROUPS_AHEAD: u32 = if OUTPUT > 64 { 1 } else { 2 };
    /// The markers, a warp each: several are needed to have enough loads and multiplications under way.
    pub const MARKERS: u32 = WARPS * Self::WARPGROUPS_AHEAD - 1;
    /// Their threads.
    pub const MARKERS_THREADS: u32 = 32 * Self::MARKERS;
    /// Warps of the consumers.
    pub const CONSUMER_WARPS: u32 = WARPS * WARPGROUPS;

    /// The output takes q's place in shared memory.
    pub const REPLACES_Q: bool = PANELS as u32 * PANEL > APART_UP_TO;
    /// Blocks of keys, and of values, in shared memory: where they are small there is room for more.
    const STAGES: u32 = if PANELS == 1 { 3 } else { 2 };
    /// Tiles of q in shared memory: where it stays there, the next comes while this one is read, if
    /// there is room.
    const Q_STAGES: u32 = if KEEPS_Q || PANELS > 1 { 1 } else { 2 };
    /// Bytes of a tile of q.
    const Q_BYTES: u32 = PANELS as u32 * Self::ROWS * PANEL_ROW;
    /// Bytes of a block of keys.
    const K_BYTES: u32 = PANELS as u32 * Self::KEYS * PANEL_ROW;
    /// Bytes of its values.
    const V_BYTES: u32 = Self::VALUE_PANELS * Self::KEYS * PANEL_ROW;
    /// Where the first block of keys begins, behind q.
    const K: u32 = Self::Q_STAGES * Self::Q_BYTES;
    /// Where the first block of values begins.
    const V: u32 = Self::K + Self::STAGES * Self::K_BYTES;
    /// Where warps put their output.
    const O: u32 = Self::V + Self::STAGES * Self::V_BYTES;
    /// Bytes of a warp's output.
    const WARP_O_BYTES: u32 = Self::VALUE_PANELS * WARP_ROWS * PANEL_ROW;
    /// Where the barriers begin.
    const BARRIERS: u32 =
        Self::O + if Self::REPLACES_Q { 0 } else { Self::CONSUMER_WARPS * Self::WARP_O_BYTES };
    /// Bytes of shared memory.
    pub const SHARED_BYTES: u32 =
        Self::BARRIERS + (Self::Q_STAGES + 2 * Self::STAGES) * Ring::BARRIERS + Detour::BARRIERS;
    /// Bytes of the facts of a tile's rows.
    const FACTS_BYTES: u32 = Self::ROWS * ROW_FACTS_BYTES;
    /// Where with masks, behind the rest and the facts of consumers and markers, marks begin.
    const MARKS: u32 = (Self::SHARED_BYTES + 2 * Self::FACTS_BYTES).next_multiple_of(PANEL_ROW);
    /// Marks of so many blocks of scores in shared memory.
    const MARKS_STAGES: u32 = 2;
    /// Bytes of shared memory with masks.
    pub const SHARED_BYTES_WITH_MASKS: u32 =
        Self::MARKS + Self::MARKS_STAGES * (Self::MARKS_BYTES + Ring::BARRIERS);

    /// The rings before anything is in them.
    #[inline(always)]
    pub fn rings() -> Rings {
        let base = shared::dynamic();
        let q = base + Self::BARRIERS;
        let k = q + Self::Q_STAGES * Ring::BARRIERS;
        let v = k + Self::STAGES * Ring::BARRIERS;
        Rings {
            q: Ring::new((base, Self::Q_STAGES), Self::Q_BYTES, q),
            k: Ring::new((base + Self::K, Self::STAGES), Self::K_BYTES, k),
            v: Ring::new((base + Self::V, Self::STAGES), Self::V_BYTES, v),
            detour: Detour::new(v + Self::STAGES * Ring::BARRIERS),
            marks: Ring::new(
                (base + Self::MARKS, Self::MARKS_STAGES),
                Self::MARKS_BYTES,
                base + Self::MARKS + Self::MARKS_STAGES * Self::MARKS_BYTES,
            ),
        }
    }

    /// Where the facts of the rows of warp `warp` of the consumers are.
    #[inline(always)]
    pub fn row_facts(warp: u32) -> RowFacts {
        let before = Self::SHARED_BYTES + warp * WARP_ROWS * ROW_FACTS_BYTES;
        RowFacts { at: shared::dynamic() + before }
    }

    /// Where the markers have the facts of the tile's rows.
    #[inline(always)]
    pub fn row_facts_of_markers() -> RowFacts {
        RowFacts { at: shared::dynamic() + Self::SHARED_BYTES + Self::FACTS_BYTES }
    }

    /// Where warp `warp` of the consumers puts its output: the first panel, and from one to the next.
    #[inline(always)]
    pub fn staging(warp: u32) -> (u32, u32) {
        let rows = WARP_ROWS * PANEL_ROW;
        if Self::REPLACES_Q {
            // Its own rows of q.
            (shared::dynamic() + warp * rows, Self::ROWS * PANEL_ROW)
        } else {
            (shared::dynamic() + Self::O + warp * Self::WARP_O_BYTES, rows)
        }
    }
}
