//! Shared memory in which a block keeps the stretches of a row between its two passes.

use super::{problem::SoftmaxForward, row_threads::RowThreads, walk::Walk};
use crate::reduction;
use core::ops::Range;
use cuda_std::{
    fence, mbarrier, shared,
    thread::{block_dim_x, sync_threads, thread_idx_x},
};

/// Stretches that a block can keep, at most: each has a barrier.
pub const MAX_SLOTS: u32 = 32;

/// Where the slots begin in shared memory, behind the barriers, which are behind what the
/// reductions use: `reductions` bytes.
pub const fn slots_behind(reductions: u32) -> u32 {
    (reductions + 8 * MAX_SLOTS).next_multiple_of(128)
}

/// Where the slots begin that are filled once, in blocks of `threads` threads, of which T has a row.
pub fn slots_of<T: RowThreads>(threads: u32) -> u32 {
    slots_behind(T::merge_bytes(threads))
}

/// Where the slots begin that are filled by rows in turn.
pub const SLOTS_IN_TURNS: u32 = slots_behind(reduction::cluster::SHARED_BYTES_IN_TURNS);

/// Where a block keeps stretches of a row between its two passes. Stretches are numbered as they
/// come; those that see nothing do not count.
pub trait Stage {
    /// Is the `nth` stretch kept? The first ones are.
    fn keeps(&self, nth: u32) -> bool;

    /// Is the `nth` stretch, which is not kept, held in registers instead? Then it is the first of
    /// those.
    fn holds(&self, nth: u32) -> bool;

    /// The address of the `nth` stretch.
    fn at(&self, nth: u32) -> u32;

    /// Waits until the `nth` stretch is there.
    ///
    /// # Safety
    /// It is kept, and not yet done with.
    unsafe fn wait(&self, nth: u32);

    /// All threads of the block have come past the first pass, in which the row had so many stretches.
    ///
    /// # Safety
    /// All threads of the block must call together, once for a row, after a barrier of the block.
    #[inline(always)]
    unsafe fn summed(&mut self, _stretches: u32) {}

    /// The `nth` stretch is done with.
    ///
    /// # Safety
    /// All threads of the block must call together, once, for one stretch after the other.
    unsafe fn free(&mut self, nth: u32);
}

/// A block's slots, each of which holds a stretch of one tensor or of several.
#[derive(Clone, Copy)]
pub struct Slots {
    pub(super) count: u32,
    bytes: u32,
    reductions: u32,
}

impl Slots {
    /// As many slots as the problem says, of `bytes` bytes, in blocks of which T has a row.
    #[inline(always)]
    pub fn of<T: RowThreads>(problem: &SoftmaxForward, bytes: u32) -> Self {
        Slots::behind(T::merge_bytes(block_dim_x()), problem.slots, bytes)
    }

    /// So many slots of `bytes` bytes, behind `reductions` bytes of shared memory.
    #[inline(always)]
    pub fn behind(reductions: u32, count: u32, bytes: u32) -> Self {
        Slots { count, bytes, reductions }
    }

    #[inline(always)]
    pub(super) fn barrier(self, slot: u32) -> u32 {
        shared::dynamic() + self.reductions + 8 * slot
    }

    /// The `nth` slot from `first` on, no more than all of them, where slots are taken in turn, and the
    /// parity of its phase; `first` is a slot with its parity.
    #[inline(always)]
    pub(super) fn nth_from(self, first: (u32, u32), nth: u32) -> (u32, u32) {
        let (slot, parity) = (first.0 + nth, first.1);
        if slot < self.count { (slot, parity) } else { (slot - self.count, parity ^ 1) }
    }

    /// Makes the barriers, each by the thread of its number, which may go on to copy to that slot, behind
    /// a fence.
    ///
    /// # Safety
    /// All threads of the block must call together, once, and a barrier of the block must follow; shared
    /// memory holds the slots, of which there are no more than lanes in a warp.
    #[inline(always)]
    pub(super) unsafe fn make_barriers(self) {
        let slot = thread_idx_x();
        if slot < self.count {
            mbarrier::init(self.barrier(slot), 1);
        }
    }

    /// Makes the barriers, and begins to fill the slots with the stretches along `walk` that see anything:
    /// `copy` begins to copy one to a slot, reporting to a barrier, and returns the bytes.
    ///
    /// # Safety
    /// All threads of the block must call together, once; shared memory holds the slots, of which there
    /// are no more than lanes in a warp.
    #[inline(always)]
    pub unsafe fn fill(self, walk: Walk, copy: impl Fn(Walk, u32, u32) -> u32) {
        self.make_barriers();
        self.copy(walk, (0, 0), 0..self.count, copy);
        // The barriers exist for all from here on.
        sync_threads();
    }

    /// Begins to copy those stretches along `walk` that see anything, and of these the ones of the numbers
    /// `range`, as far as they exist, to the slots from `first` on: each by the thread of its number, all
    /// at once. `copy` is as for [`Slots::fill`].
    ///
    /// # Safety
    /// Everybody is done with the slots; each barrier exists for the thread of its slot's number or, behind
    /// a barrier of the block, for all.
    #[inline(always)]
    pub(super) unsafe fn copy(
        self,
        walk: Walk,
        first: (u32, u32),
        range: Range<u32>,
        copy: impl Fn(Walk, u32, u32) -> u32,
    ) {
        let nth = thread_idx_x();
        if nth >= range.start && nth < range.end {
            // What threads have stored there, and the barriers, come before the copies.
            fence::proxy_async();
            let walk = walk.nth_seen(nth);
            if walk.is_on_row() && walk.is_seen() {
                let slot = self.nth_from(first, nth).0;
                // The phase cannot end before this thread has arrived.
                let bytes = copy(walk, self.at(slot), self.barrier(slot));
                mbarrier::arrive_expect_tx(self.barrier(slot), bytes);
            }
        }
    }
}

/// Slots that [`Slots::fill`] has filled, once and for all.
impl Stage for Slots {
    #[inline(always)]
    fn keeps(&self, nth: u32) -> bool {
        nth < self.count
    }

    #[inline(always)]
    fn holds(&self, _: u32) -> bool {
        false
    }

    #[inline(always)]
    fn at(&self, nth: u32) -> u32 {
        shared::dynamic() + slots_behind(self.reductions) + nth * self.bytes
    }

    #[inline(always)]
    unsafe fn wait(&self, nth: u32) {
        mbarrier::wait(self.barrier(nth), 0);
    }

    #[inline(always)]
    unsafe fn free(&mut self, _: u32) {}
}
