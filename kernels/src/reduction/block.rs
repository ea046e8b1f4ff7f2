//! What is known of a row across the warps of a block, through shared memory.

use super::part::{self, Part};
use cuda_std::{
    thread::{block_dim_x, sync_threads, thread_idx_x},
    warp::lane_id,
};

/// Bytes of shared memory that [`merge`] uses, if it is called once, in a block of `threads` threads: a
/// slot for each warp.
pub const fn shared_bytes(threads: u32) -> u32 {
    threads / 32 * part::SLOT_BYTES
}

/// The same for any block.
pub const SHARED_BYTES: u32 = shared_bytes(1024);

/// Bytes of shared memory that [`merge`] uses, if it is called any number of times.
pub const SHARED_BYTES_IN_TURNS: u32 = 2 * SHARED_BYTES;

/// Merges the parts of the block's warps, which are given to each of their lanes.
///
/// Turns use two scratches alternately: when a warp comes to the second turn of the same scratch, all
/// warps have come to the barrier of the turn in between, and so have read what the first has left.
///
/// # Safety
/// All threads of the block must call together, full warps only, with `turn` 0, 1, 2 and so on.
/// `scratch` is the address of [`shared_bytes`] of shared memory if there is but one turn, else of
/// [`SHARED_BYTES_IN_TURNS`], aligned to 8.
#[inline(always)]
pub unsafe fn merge<P: Part>(of_warp: P, coefficient: P::Number, scratch: u32, turn: u32) -> P {
    let scratch = scratch + turn % 2 * SHARED_BYTES;
    let warps = block_dim_x() / 32;
    if warps > 1 && lane_id() == 0 {
        part::store(of_warp, scratch, thread_idx_x() / 32);
    }
    sync_threads();
    if warps > 1 { part::merge_stored(coefficient, scratch, warps) } else { of_warp }
}
