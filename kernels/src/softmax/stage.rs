//! Shared memory in which a block keeps the stretches of a row between its two passes.

use super::{problem::SoftmaxForward, walk::Walk};
use crate::reduction;
use cuda_std::{
    fence, mbarrier, shared,
    thread::{sync_threads, thread_idx_x},
};

/// Stretches that a block can keep, at most: each has a barrier.
pub const MAX_SLOTS: u32 = 32;

/// Where the barriers begin in shared memory, behind what the reductions use.
const BARRIERS: u32 = reduction::cluster::SHARED_BYTES;

/// Where the slots begin in shared memory.
pub const SLOTS: u32 = (BARRIERS + 8 * MAX_SLOTS).next_multiple_of(128);

/// A block's slots, each of which holds a stretch of one tensor or of several.
#[derive(Clone, Copy)]
pub struct Slots {
    count: u32,
    bytes: u32,
}

impl Slots {
    /// As many slots as the problem says, of `bytes` bytes.
    #[inline(always)]
    pub fn of(problem: &SoftmaxForward, bytes: u32) -> Self {
        Slots { count: problem.slots, bytes }
    }

    /// Is the stretch that is the `slot`-th with anything visible kept?
    #[inline(always)]
    pub fn keeps(self, slot: u32) -> bool {
        slot < self.count
    }

    /// The slot's address.
    #[inline(always)]
    pub fn at(self, slot: u32) -> u32 {
        shared::dynamic() + SLOTS + slot * self.bytes
    }

    #[inline(always)]
    fn barrier(self, slot: u32) -> u32 {
        shared::dynamic() + BARRIERS + 8 * slot
    }

    /// One thread begins to fill the slots with the stretches along `walk` that see anything: `copy`
    /// begins to copy one to a slot, reporting to a barrier, and returns the bytes.
    ///
    /// # Safety
    /// All threads of the block must call together, once; shared memory holds the slots.
    #[inline(always)]
    pub unsafe fn fill(self, mut walk: Walk, copy: impl Fn(Walk, u32, u32) -> u32) {
        if thread_idx_x() == 0 {
            let mut slot = 0;
            while slot < self.count {
                mbarrier::init(self.barrier(slot), 1);
                slot += 1;
            }
            fence::proxy_async();
            slot = 0;
            while slot < self.count && walk.is_on_row() {
                if walk.is_seen() {
                    // The phase cannot end before this thread has arrived.
                    let bytes = copy(walk, self.at(slot), self.barrier(slot));
                    mbarrier::arrive_expect_tx(self.barrier(slot), bytes);
                    slot += 1;
                }
                walk = walk.next();
            }
        }
        // The barriers exist for all from here on.
        sync_threads();
    }

    /// Waits until the slot is filled.
    ///
    /// # Safety
    /// A stretch was copied there by [`Slots::fill`].
    #[inline(always)]
    pub unsafe fn wait(self, slot: u32) {
        mbarrier::wait(self.barrier(slot), 0);
    }
}
