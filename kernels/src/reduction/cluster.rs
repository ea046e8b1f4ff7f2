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

/// Bytes of shared memory that [`merge`] uses, if it is called once.
pub const SHARED_BYTES: u32 = BARRIER + 16;

/// Bytes of shared memory that [`merge`] uses, if it is called any number of times.
pub const SHARED_BYTES_IN_TURNS: u32 = 2 * SHARED_BYTES;

/// Makes the barriers of a block's `shared_bytes`, and tells the other blocks that this one has
/// begun: until then its shared memory does not exist for them. [`merge`] waits for it.
///
/// # Safety
/// All threads of the cluster must call together, once, with [`merge`]'s `scratch`, of
/// [`SHARED_BYTES`] or [`SHARED_BYTES_IN_TURNS`].
#[inline(always)]
pub unsafe fn begin(scratch: u32, shared_bytes: u32) {
    if thread_idx_x() == 0 {
        let mut barrier = BARRIER;
        while barrier < shared_bytes {
            mbarrier::init(scratch + barrier, 1);
            barrier += SHARED_BYTES;
        }
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
/// Turns use two scratches alternately. Of two turns of the same scratch there is one in between,
/// at which every warp of a block comes to a barrier before the block sends its part; and a block
/// goes on to the second of them when it has the parts of all blocks from in between. So nobody
/// still reads what the first has left when the second overwrites it, in its own block or another.
///
/// # Safety
/// All threads of the cluster must call together, full warps only, after [`begin`], with `turn` 0,
/// 1, 2 and so on. `scratch` is the address of [`SHARED_BYTES`] of shared memory if there is but
/// one turn, else of [`SHARED_BYTES_IN_TURNS`], aligned to 8 and the same in each block.
#[inline(always)]
pub unsafe fn merge<P: Part>(of_warp: P, coefficient: P::Number, scratch: u32, turn: u32) -> P {
    let scratch = scratch + turn % 2 * SHARED_BYTES;
    let of_block = block::merge(of_warp, coefficient, scratch, 0);
    if turn == 0 {
        cluster::wait();
    }
    let (blocks, thread, slots) = (cluster::block_count(), thread_idx_x(), scratch + OF_BLOCKS);
    let barrier = scratch + BARRIER;
    if thread == 0 {
        mbarrier::arrive_expect_tx(barrier, blocks * part::sent_bytes::<P>());
    }
    if thread < blocks {
        part::send_to_block(of_block, slots, cluster::block_rank(), barrier, thread);
    }
    mbarrier::wait(barrier, turn / 2 % 2);
    part::merge_stored(coefficient, slots, blocks)
}
