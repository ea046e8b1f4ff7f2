//! A row's statistics across the blocks of a cluster, through distributed shared memory.

use super::{Statistics, block};
use crate::numbers::Accumulator;
use cuda_std::{cluster, shared, thread::thread_idx_x, warp::lane_id};

/// Blocks in a cluster, at most.
const MAX_BLOCKS: u32 = 16;

/// Bytes of shared memory that [`merge`] uses.
pub const SHARED_BYTES: u32 = block::SHARED_BYTES + MAX_BLOCKS * 16;

/// Tells the other blocks that this one has begun: until then its shared memory does not exist
/// for them. [`merge`] waits for it.
///
/// # Safety
/// All threads of the cluster must call together, once.
#[inline(always)]
pub unsafe fn begin() {
    cluster::arrive();
}

/// Merges the statistics of the cluster's warps, which are given to each of their lanes.
///
/// Each block leaves its part with every block of the cluster, so that after the cluster barrier
/// only local memory is read and blocks may end in any order.
///
/// # Safety
/// All threads of the cluster must call together, full warps only, once, after [`begin`].
/// `scratch` is the address of [`SHARED_BYTES`] of shared memory, aligned to 8 and the same in
/// each block.
#[inline(always)]
pub unsafe fn merge<A: Accumulator>(
    of_warp: Statistics<A>,
    coefficient: A,
    scratch: u32,
) -> Statistics<A> {
    let of_block = block::merge(of_warp, coefficient, scratch);
    cluster::wait();
    let parts = scratch + block::SHARED_BYTES;
    let (rank, blocks, thread) = (cluster::block_rank(), cluster::block_count(), thread_idx_x());
    if thread < blocks {
        let mine = cluster::map_shared(parts + 16 * rank, thread);
        cluster::store(mine, of_block.max);
        cluster::store(mine + 8, of_block.sum);
    }
    cluster::sync();
    let lane = lane_id();
    let mut part = Statistics::EMPTY;
    if lane < blocks {
        part.max = shared::load(parts + 16 * lane);
        part.sum = shared::load(parts + 16 * lane + 8);
    }
    part.merge_lanes(coefficient, 32)
}
