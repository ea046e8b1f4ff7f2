//! Shared memory as a ring of slots, through which the rows of a cluster pass one after the other.

use super::{
    long_row::LongRow,
    mask::MaskKind,
    problem::SoftmaxForward,
    row_threads::{Cluster, RowThreads},
    stage::{MAX_SLOTS, Slots, Stage, slots_behind},
    walk::Walk,
};
use crate::{numbers::Element, reduction::cluster::SHARED_BYTES_IN_TURNS};
use core::marker::PhantomData;
use cuda_std::{
    bulk_copy, fence, mbarrier, shared,
    thread::{block_dim_x, sync_threads, thread_idx_x},
    warp::{lane_id, sync_warp},
};

/// Where the barriers begin at which warps say that they are done with a slot.
const DONE: u32 = SHARED_BYTES_IN_TURNS;
/// Where they end, and those of the slots begin.
const DONE_END: u32 = DONE + 8 * MAX_SLOTS;

/// Where the slots begin in shared memory.
pub const SLOTS: u32 = slots_behind(DONE_END);

/// A block's slots, as the row sees them that the block has come to. They are taken in turn, by the
/// stretches of row after row that are kept; a row keeps no more than there are.
///
/// One thread copies, and runs ahead: into a slot with which all warps are done goes the next
/// stretch, of the next row if this one has no other. So when a row begins, slots are full of it, or
/// being filled, as far as it goes. The other warps wait for no more than what they read.
pub struct Ring<'a, E, K, const VECTORS: usize, const ALIGNED: bool> {
    slots: Slots,
    /// The slot of the row's first stretch, and the parity of its phase.
    first: (u32, u32),
    /// Stretches that the row keeps, once its first pass has come to an end.
    seen: u32,
    /// Stretches of the row that are done with.
    freed: u32,
    ahead: Ahead<'a, E, K, VECTORS, ALIGNED>,
}

impl<'a, E: Element, K: MaskKind, const VECTORS: usize, const ALIGNED: bool>
    Ring<'a, E, K, VECTORS, ALIGNED>
{
    /// Registers are left for a stretch: the block has all of a multiprocessor, but additive masks and
    /// f64 take many.
    const HOLDS: bool = E::LANES > 2 && !K::ADDITIVE;

    /// The next row's sums are begun while this one is written. Only of f32, of which rows that are long
    /// enough for a ring take it all: of shorter ones most of the next row is there anyway, and waiting
    /// for it keeps slots from being filled. Only without masks: nothing is read to find out about a row
    /// of which there may be none, and registers are left.
    pub const SUMS_AHEAD: bool = E::LANES == 4 && !K::RANGE;

    /// Stretches that are asked for after one before that is waited for while the row before it is
    /// written.
    const ASKED_SINCE: u32 = 2;

    /// The ring when `at`'s row, the cluster's first, begins.
    ///
    /// # Safety
    /// All threads of the block must call together, once; shared memory holds the problem's slots
    /// behind [`SLOTS`], and the problem's tensors are valid for the rows from `at`'s on.
    #[inline(always)]
    pub unsafe fn begin(problem: &'a SoftmaxForward, at: Cluster) -> Self {
        let bytes = block_dim_x() * 16 * VECTORS as u32;
        let slots = Slots::behind(DONE_END, problem.slots, bytes);
        let mut ahead = Ahead::of(problem, at);
        if thread_idx_x() < slots.count {
            mbarrier::init(done(thread_idx_x()), block_dim_x() / 32);
        }
        slots.make_barriers();
        if thread_idx_x() < slots.count {
            fence::proxy_async();
        }
        // The barriers exist for all from here on.
        sync_threads();
        if thread_idx_x() == 0 {
            let mut slot = 0;
            while slot < slots.count {
                ahead.copy(slots, slot);
                slot += 1;
            }
        }
        Ring { slots, first: (0, 0), seen: 0, freed: 0, ahead }
    }

    /// The cluster goes on to its next row.
    #[inline(always)]
    pub fn next_row(&mut self) {
        self.first = self.slot(self.seen);
        self.freed = 0;
    }

    /// Whether the next row's `nth` stretch, of those that see anything, was asked for so long ago that
    /// it is probably there.
    #[inline(always)]
    pub fn has_of_next(&self, nth: u32) -> bool {
        let asked_for = self.freed + self.slots.count - self.seen;
        self.slots.keeps(nth) && nth + Self::ASKED_SINCE < asked_for
    }

    /// Waits until the next row's `nth` stretch is there.
    ///
    /// # Safety
    /// [`Ring::has_of_next`].
    #[inline(always)]
    pub unsafe fn wait_for_next(&self, nth: u32) {
        self.wait_for(self.slot_of_next(nth));
    }

    /// The address of the next row's `nth` stretch.
    #[inline(always)]
    pub fn at_of_next(&self, nth: u32) -> u32 {
        self.slots.at(self.slot_of_next(nth).0)
    }

    /// The slot of the next row's `nth` stretch, and the parity of its phase.
    #[inline(always)]
    fn slot_of_next(&self, nth: u32) -> (u32, u32) {
        self.slots.nth_from(self.slot(self.seen), nth)
    }

    /// Waits until a slot is full, of which the parity of the phase is given too.
    #[inline(always)]
    unsafe fn wait_for(&self, (slot, parity): (u32, u32)) {
        mbarrier::wait(self.slots.barrier(slot), parity);
    }

    /// The slot of the row's `nth` stretch, and the parity of its phase.
    #[inline(always)]
    fn slot(&self, nth: u32) -> (u32, u32) {
        self.slots.nth_from(self.first, nth)
    }
}

impl<E: Element, K: MaskKind, const VECTORS: usize, const ALIGNED: bool> Stage
    for Ring<'_, E, K, VECTORS, ALIGNED>
{
    #[inline(always)]
    fn keeps(&self, nth: u32) -> bool {
        self.slots.keeps(nth)
    }

    #[inline(always)]
    fn holds(&self, nth: u32) -> bool {
        Self::HOLDS && nth == self.slots.count
    }

    #[inline(always)]
    fn at(&self, nth: u32) -> u32 {
        self.slots.at(self.slot(nth).0)
    }

    #[inline(always)]
    unsafe fn wait(&self, nth: u32) {
        self.wait_for(self.slot(nth));
    }

    #[inline(always)]
    unsafe fn summed(&mut self, stretches: u32) {
        let count = self.slots.count;
        self.seen = if stretches < count { stretches } else { count };
    }

    /// Fills the slot anew.
    #[inline(always)]
    unsafe fn free(&mut self, nth: u32) {
        let (slot, parity) = self.slot(nth);
        self.freed = nth + 1;
        sync_warp(!0);
        mbarrier::arrive_if(lane_id() == 0, done(slot));
        if thread_idx_x() == 0 {
            // What threads have stored there comes before the copy.
            mbarrier::wait(done(slot), parity);
            fence::proxy_async();
            self.ahead.copy(self.slots, slot);
        }
    }
}

/// The barrier at which warps say that they are done with the slot.
#[inline(always)]
fn done(slot: u32) -> u32 {
    shared::dynamic() + DONE + 8 * slot
}

/// What is to be copied next.
struct Ahead<'a, E, K, const VECTORS: usize, const ALIGNED: bool> {
    problem: &'a SoftmaxForward,
    row: LongRow<'a, E, Cluster, ALIGNED>,
    /// The row's stretches that are left.
    walk: Walk,
    /// Stretches of the row that have been copied.
    kept: u32,
    masks: PhantomData<K>,
}

impl<'a, E: Element, K: MaskKind, const VECTORS: usize, const ALIGNED: bool>
    Ahead<'a, E, K, VECTORS, ALIGNED>
{
    /// All that is kept of `at`'s row and those after it.
    ///
    /// # Safety
    /// The problem's tensors must be valid for the row.
    #[inline(always)]
    unsafe fn of(problem: &'a SoftmaxForward, at: Cluster) -> Self {
        let row = LongRow::of::<K, VECTORS>(problem, at, at.dealt_row());
        Ahead { problem, walk: row.walk, row, kept: 0, masks: PhantomData }
    }

    /// Asks for the next stretch of the row, if any is left, which is not kept.
    ///
    /// # Safety
    /// The problem's tensors must be valid for the row.
    #[inline(always)]
    unsafe fn prefetch(&self) {
        let mut walk = self.walk;
        while walk.is_on_row() && !walk.is_seen() {
            walk = walk.next();
        }
        if walk.is_on_row() {
            let stretch = self.row.stretch(walk);
            let (first, columns) = stretch.range_read();
            if columns > 0 {
                let bytes = columns as u32 * size_of::<E>() as u32;
                bulk_copy::prefetch(stretch.x_at(first).cast(), bytes);
            }
        }
    }

    /// Begins to copy the next stretch to `slot`, if any is left.
    ///
    /// # Safety
    /// One thread calls. Nobody else uses the slot until its barrier's phase has ended, and what was
    /// done there before is ordered before for bulk copies.
    #[inline(always)]
    unsafe fn copy(&mut self, slots: Slots, slot: u32) {
        loop {
            while self.walk.is_on_row() && slots.keeps(self.kept) {
                let walk = self.walk;
                self.walk = walk.next();
                if walk.is_seen() {
                    let barrier = slots.barrier(slot);
                    let stretch = if Ring::<E, K, VECTORS, ALIGNED>::HOLDS {
                        self.row.stretch(walk)
                    } else {
                        // Found anew, where registers are short.
                        let (at, row) = (self.row.at, self.row.row);
                        LongRow::<E, Cluster, ALIGNED>::of::<K, VECTORS>(self.problem, at, row)
                            .stretch(walk)
                    };
                    // The phase cannot end before this thread has arrived.
                    let bytes = stretch.copy(stretch.x_at(0), slots.at(slot), barrier);
                    mbarrier::arrive_expect_tx(barrier, bytes);
                    self.kept += 1;
                    if Ring::<E, K, VECTORS, ALIGNED>::HOLDS && !slots.keeps(self.kept) {
                        self.prefetch();
                    }
                    return;
                }
            }
            let at = self.row.at.next();
            if at.dealt_row() >= self.problem.rows {
                return;
            }
            *self = Ahead::of(self.problem, at);
        }
    }
}
