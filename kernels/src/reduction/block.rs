//! What is known of a row across the warps of a block, through shared memory.

use super::part::{self, Part};
use cuda_std::{
    thread::{block_dim_x, sync_threads, thread_idx_x},
    warp::lane_id,
};

/// Bytes of shared memory that [`merge`] uses, for any block: a slot for each of 32 warps.
pub const SHARED_BYTES: u32 = 32 * part::SLOT_BYTES;

/// Merges the parts of the block's warps, which are given to each of their lanes.
///
/// # Safety
/// All threads of the block must call together, full warps only. `scratch` is the address of
/// [`SHARED_BYTES`] of shared memory, aligned to 8, used once between two block barriers.
#[inline(always)]
pub unsafe fn merge<P: Part>(of_warp: P, coefficient: P::Number, scratch: u32) -> P {
    if lane_id() == 0 {
        part::store(of_warp, scratch, thread_idx_x() / 32);
    }
    sync_threads();
    part::merge_stored(coefficient, scratch, block_dim_x() / 32)
}
