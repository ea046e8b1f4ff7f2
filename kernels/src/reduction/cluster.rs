//! What is known of a row across the blocks of a cluster, through distributed shared memory.

use super::{
    block,
    part::{self, Part},
};
use cuda_std::{cluster, thread::thread_idx_x};

/// Blocks in a cluster, at most.
const MAX_BLOCKS: u32 = 16;

/// Bytes of shared memory that [`merge`] uses.
pub const SHARED_BYTES: u32 = block::SHARED_BYTES + MAX_BLOCKS * part::SLOT_BYTES;

/// Tells the other blocks that this one has begun: until then its shared memory does not exist
/// for them. [`merge`] waits for it.
///
/// # Safety
/// All threads of the cluster must call together, once.
#[inline(always)]
pub unsafe fn begin() {
    cluster::arrive();
}

/// Merges the parts of the cluster's warps, which are given to each of their lanes.
///
/// Each block leaves its part with every block of the cluster, so that after the cluster barrier
/// only local memory is read and blocks may end in any order.
///
/// # Safety
/// All threads of the cluster must call together, full warps only, once, after [`begin`].
/// `scratch` is the address of [`SHARED_BYTES`] of shared memory, aligned to 8 and the same in
/// each block.
#[inline(always)]
pub unsafe fn merge<P: Part>(of_warp: P, coefficient: P::Number, scratch: u32) -> P {
    let of_block = block::merge(of_warp, coefficient, scratch);
    cluster::wait();
    let slots = scratch + block::SHARED_BYTES;
    let (blocks, thread) = (cluster::block_count(), thread_idx_x());
    if thread < blocks {
        part::store_to_block(of_block, slots, cluster::block_rank(), thread);
    }
    cluster::sync();
    part::merge_stored(coefficient, slots, blocks)
}
