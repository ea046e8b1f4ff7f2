//! A row's statistics across the warps of a block, through shared memory.

use super::Statistics;
use crate::numbers::Accumulator;
use cuda_std::{
    shared,
    thread::{block_dim_x, sync_threads, thread_idx_x},
    warp::lane_id,
};

/// Bytes of shared memory that [`merge`] uses, for any block: a maximum and a sum for each of 32
/// warps, of 8 bytes each.
pub const SHARED_BYTES: u32 = 32 * 16;

/// Merges the statistics of the block's warps, which are given to each of their lanes.
///
/// # Safety
/// All threads of the block must call together, full warps only. `scratch` is the address of
/// [`SHARED_BYTES`] of shared memory, aligned to 8, used once between two block barriers.
#[inline(always)]
pub unsafe fn merge<A: Accumulator>(
    of_warp: Statistics<A>,
    coefficient: A,
    scratch: u32,
) -> Statistics<A> {
    let (lane, warp, warps) = (lane_id(), thread_idx_x() / 32, block_dim_x() / 32);
    if lane == 0 {
        shared::store(scratch + 16 * warp, of_warp.max);
        shared::store(scratch + 16 * warp + 8, of_warp.sum);
    }
    sync_threads();
    let mut part = Statistics::EMPTY;
    if lane < warps {
        part.max = shared::load(scratch + 16 * lane);
        part.sum = shared::load(scratch + 16 * lane + 8);
    }
    part.merge_lanes(coefficient, 32)
}
