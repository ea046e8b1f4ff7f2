//! Shared memory for rows that a block takes in turn: the next row is copied while one is at work.

use super::{
    long_row::LongRow,
    problem::SoftmaxForward,
    row_threads::RowThreads,
    stage::{Slots, Stage},
};
use crate::{numbers::Element, reduction::cluster::SHARED_BYTES_IN_TURNS};
use core::ops::Range;
use cuda_std::{mbarrier, thread::sync_threads};

/// A block's slots, as the row sees them that the block has come to. They are taken in turn, by the
/// stretches of row after row that are kept; each row has as many of them.
pub struct SlotsInTurns<'a, E, T, const ALIGNED: bool> {
    slots: Slots,
    /// Stretches that a row keeps, at most.
    kept: u32,
    /// The slot of the row's first stretch, and the parity of its phase.
    first: (u32, u32),
    /// Stretches that the row keeps.
    seen: u32,
    /// The row.
    row: LongRow<'a, E, T, ALIGNED>,
    /// Rows that come after it.
    left: u32,
}

impl<'a, E: Element, T: RowThreads, const ALIGNED: bool> SlotsInTurns<'a, E, T, ALIGNED> {
    /// The slots when `row` begins, the first of `turns` rows. They begin to be filled with it.
    ///
    /// # Safety
    /// All threads of the block must call together, once; shared memory holds the problem's slots, of
    /// `bytes` bytes, and the problem's tensors are valid for the rows.
    #[inline(always)]
    pub unsafe fn begin(
        problem: &SoftmaxForward,
        row: LongRow<'a, E, T, ALIGNED>,
        turns: u32,
        bytes: u32,
    ) -> Self {
        let count = problem.slots + problem.slots_ahead;
        let slots = Slots::behind(SHARED_BYTES_IN_TURNS, count, bytes);
        let (kept, left) = (problem.slots, turns - 1);
        let slots = SlotsInTurns { slots, kept, first: (0, 0), seen: 0, row, left };
        slots.slots.make_barriers();
        slots.copy(&slots.row, slots.first, 0..kept);
        // The barriers exist for all from here on.
        sync_threads();
        slots
    }

    /// The address behind the slots.
    #[inline(always)]
    pub fn end(&self) -> u32 {
        self.slots.at(self.slots.count)
    }

    /// The block goes on to its next row. What found no slot before is copied now.
    ///
    /// # Safety
    /// All threads of the block must call together, with the row that comes next.
    #[inline(always)]
    pub unsafe fn next_row(&mut self, row: LongRow<'a, E, T, ALIGNED>) {
        let ahead = self.slots.count - self.seen;
        if ahead < self.seen {
            // Everybody is done with the row.
            sync_threads();
            self.copy_ahead(&row, ahead..self.seen);
        }
        self.first = self.next_first();
        (self.row, self.left) = (row, self.left - 1);
    }

    /// The slot of the next row's first stretch.
    #[inline(always)]
    fn next_first(&self) -> (u32, u32) {
        self.slots.nth_from(self.first, self.seen)
    }

    /// Begins to copy stretches of the next row, those of the numbers `range`, to slots that everybody is
    /// done with.
    #[inline(always)]
    unsafe fn copy_ahead(&self, row: &LongRow<'a, E, T, ALIGNED>, range: Range<u32>) {
        self.copy(row, self.next_first(), range);
    }

    /// Begins to copy stretches of a row, as far as it has them, to its slots, which begin with `first`.
    #[inline(always)]
    unsafe fn copy(&self, row: &LongRow<'a, E, T, ALIGNED>, first: (u32, u32), range: Range<u32>) {
        self.slots.copy(row.walk, first, range, |walk, to, barrier| row.copy(walk, to, barrier));
    }
}

impl<E: Element, T: RowThreads, const ALIGNED: bool> Stage for SlotsInTurns<'_, E, T, ALIGNED> {
    #[inline(always)]
    fn keeps(&self, nth: u32) -> bool {
        nth < self.kept
    }

    #[inline(always)]
    fn holds(&self, _: u32) -> bool {
        false
    }

    #[inline(always)]
    fn at(&self, nth: u32) -> u32 {
        self.slots.at(self.slots.nth_from(self.first, nth).0)
    }

    #[inline(always)]
    unsafe fn wait(&self, nth: u32) {
        let (slot, parity) = self.slots.nth_from(self.first, nth);
        mbarrier::wait(self.slots.barrier(slot), parity);
    }

    /// Everybody is done with the row before: its slots take the next one.
    #[inline(always)]
    unsafe fn summed(&mut self, stretches: u32) {
        self.seen = if stretches < self.kept { stretches } else { self.kept };
        let free = self.slots.count - self.seen;
        if self.left > 0 {
            let next = self.row.next_in_turn();
            self.copy_ahead(&next, 0..if free < self.seen { free } else { self.seen });
        }
    }

    #[inline(always)]
    unsafe fn free(&mut self, _: u32) {}
}
