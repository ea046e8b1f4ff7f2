//! What is known of a row across the blocks of a cluster, through distributed shared memory.

use super::{
    block,
    part::{self, Part},
};
use cuda_std::{cluster, fence, mbarrier, thread::thread_idx_x};

/// Blocks in a cluster, at most.
const MAX_BLOCKS: u32 = 16;

/// Where the parts of the blocks begin, behind those of the warps.
const OF_BLOCKS: u32 = block::SHARED_BYTES;
/// Where the barrier is that knows when they are there.
const BARRIER: u32 = OF_BLOCKS + MAX_BLOCKS * part::SLOT_BYTES;

/// Bytes of shared memory that [`merge`] uses.
pub const SHARED_BYTES: u32 = BARRIER + 16;

/// Makes the block's barrier, and tells the other blocks that this one has begun: until then its
/// shared memory does not exist for them. [`merge`] waits for it.
///
/// # Safety
/// All threads of the cluster must call together, once, with [`merge`]'s `scratch`.
#[inline(always)]
pub unsafe fn begin(scratch: u32) {
    if thread_idx_x() == 0 {
        mbarrier::init(scratch + BARRIER, 1);
        fence::mbarrier_init();
    }
    cluster::arrive_relaxed();
}

/// Merges the parts of the cluster's warps, which are given to each of their lanes.
///
/// Each block leaves its part with every block of the cluster, by stores that report to the
/// receiver's barrier: so nobody waits for more than what it reads. A block has all that was sent
/// to it when it ends.
///
/// # Safety
/// All threads of the cluster must call together, full warps only, once, after [`begin`].
/// `scratch` is the address of [`SHARED_BYTES`] of shared memory, aligned to 8 and the same in
/// each block.
#[inline(always)]
pub unsafe fn merge<P: Part>(of_warp: P, coefficient: P::Number, scratch: u32) -> P {
    let of_block = block::merge(of_warp, coefficient, scratch);
    cluster::wait();
    let (blocks, thread, slots) = (cluster::block_count(), thread_idx_x(), scratch + OF_BLOCKS);
    let barrier = scratch + BARRIER;
    if thread == 0 {
        mbarrier::arrive_expect_tx(barrier, blocks * part::sent_bytes::<P>());
    }
    if thread < blocks {
        part::send_to_block(of_block, slots, cluster::block_rank(), barrier, thread);
    }
    mbarrier::wait(barrier, 0);
    part::merge_stored(coefficient, slots, blocks)
}
