//! What a block and a warp have of the problem; the layout of shared memory.

use super::{facts::FACTS_BYTES, swizzle::Swizzle};
use crate::attention::{features::Features, row_facts::ROW_FACTS_BYTES};

/// How the kernel is cut, for elements of `BYTES` bytes: `M` fragments of 16 rows a warp, `WARPS`
/// warps, rows of q and k of `DEPTH` steps of two chunks, of v and o of `8 * COLUMNS` elements, blocks
/// of `8 * KEYS` keys.
pub struct Cut<
    const BYTES: u32,
    const M: usize,
    const WARPS: usize,
    const DEPTH: usize,
    const COLUMNS: usize,
    const KEYS: usize,
>;

/// Blocks of keys in shared memory: one is computed with, the next is on its way.
pub const STAGES: u32 = 2;

impl<
    const BYTES: u32,
    const M: usize,
    const WARPS: usize,
    const DEPTH: usize,
    const COLUMNS: usize,
    const KEYS: usize,
> Cut<BYTES, M, WARPS, DEPTH, COLUMNS, KEYS>
{
    /// Rows of a warp.
    pub const WARP_ROWS: u32 = 16 * M as u32;
    /// Rows of a block.
    pub const ROWS: u32 = Self::WARP_ROWS * WARPS as u32;
    /// Keys of a block of keys.
    pub const KEY_COUNT: u32 = 8 * KEYS as u32;
    /// Threads of a block.
    pub const THREADS: u32 = 32 * WARPS as u32;
    /// The layout of q.
    pub const DEEP: Swizzle = Swizzle { chunks: 2 * DEPTH as u32, of_keys: false };
    /// The layout of k.
    pub const DEEP_KEYS: Swizzle = Swizzle { of_keys: true, ..Self::DEEP };
    /// The layout of o.
    pub const WIDE: Swizzle = Swizzle { chunks: COLUMNS as u32 * BYTES / 2, of_keys: false };
    /// The layout of v.
    pub const WIDE_KEYS: Swizzle = Swizzle { of_keys: true, ..Self::WIDE };
    /// Where the first block of keys begins, behind q.
    pub const K: u32 = Self::ROWS * Self::DEEP.row_bytes();
    /// Where its values begin.
    pub const V: u32 = Self::K + Self::KEY_COUNT * Self::DEEP.row_bytes();
    /// From one stage to the next.
    pub const STAGE: u32 = Self::V - Self::K + Self::KEY_COUNT * Self::WIDE.row_bytes();
    /// Where the facts are, behind the last stage.
    pub const FACTS: u32 = Self::K + STAGES * Self::STAGE;
    /// Bytes of shared memory.
    pub const SHARED_BYTES: u32 = Self::FACTS + FACTS_BYTES;
    /// The same with masks.
    pub const SHARED_BYTES_WITH_MASKS: u32 = Self::SHARED_BYTES + Self::ROWS * ROW_FACTS_BYTES;
    /// q's fragments stay in registers, if there are enough beside output, scores, and with masks
    /// what is loaded ahead.
    #[inline(always)]
    pub const fn keeps_q<F: Features>() -> bool {
        let ahead = if F::MASKS { KEYS / 2 } else { 0 };
        BYTES == 2 && 4 * M * (DEPTH + COLUMNS + KEYS + ahead) <= 160
    }
}
