//! Scaled masked softmax, forward, of rows too long for registers, through shared memory. From sm_90.
//!
//! The same function as [`super::forward`], in two passes: the first finds the row's maximum and
//! sum (online softmax, each thread on its own), the second writes y. Between them the row stays
//! in shared memory, as far as there are slots for it; the rest is loaded again.
//!
//! - Tiling: the row is cut into stretches of VECTORS vectors a thread of a block, which the row's
//!   blocks (a cluster of one or more) take in turn. 64-bit columns between stretches, 32-bit within.
//! - Staging: one thread copies all the stretches to shared memory in bulk, at the start. So the
//!   loads of a whole row are in flight together and take no registers, and several blocks on a
//!   multiprocessor overlap one's loads with another's passes.
//! - Rows that share all their masks (those of all heads) are taken in turn by the same blocks, which
//!   read the masks once and keep a bit of them for each element ([`super::shared_masks`]).
//! - Shared memory: [`super::stage::slots_of`] bytes, and a slot of 16 VECTORS bytes a thread for each
//!   stretch that is kept; in turns [`super::stage::SLOTS_IN_TURNS`], slots for stretches of the next
//!   row, and 4 bytes a thread for each stretch that is kept.
//! - Roofline: memory. x is read once if there are enough slots.

use super::{
    forward::{normalizer, store_lse},
    long_row::LongRow,
    mask::{InStretches, MaskKind},
    problem::{SoftmaxForward, output_offset},
    row::{Held, HiddenMarks, Stored},
    row_threads::RowThreads,
    scale::Scale,
    shared_masks::SharedMasks,
    slots_in_turns::SlotsInTurns,
    stage::{Slots, Stage},
    walk::Walk,
};
use crate::{
    numbers::{Accumulator, Element},
    reduction::{Part, Statistics},
};
use cuda_std::thread::block_dim_x;

/// The kernel's body; [`super::entries`] has its instances.
///
/// # Safety
/// As for [`super::forward::forward`], but for the length of rows; shared memory holds the
/// problem's slots.
#[inline(always)]
pub unsafe fn forward_staged<
    E: Element,
    K: MaskKind,
    T: RowThreads,
    const VECTORS: usize,
    const ALIGNED: bool,
>(
    problem: &SoftmaxForward,
) {
    let at = T::here(problem, K::IN_TURNS);
    let scale = Scale::of::<K, E>(problem);
    let slot_bytes = block_dim_x() * 16 * VECTORS as u32;
    if !K::IN_TURNS {
        let row = LongRow::<E, T, ALIGNED>::of::<K, VECTORS>(problem, at, at.row());
        let mut slots = Slots::of::<T>(problem, slot_bytes);
        slots.fill(row.walk, |walk, to, barrier| row.copy(walk, to, barrier));
        let masks = SharedMasks::NONE;
        two_passes::<E, K, T, _, VECTORS, ALIGNED, _>(problem, &row, scale, &mut slots, masks);
        return;
    }

    let (first, turns) = problem.rows_of_group(at.row());
    let mut row = LongRow::<E, T, ALIGNED>::of::<K, VECTORS>(problem, at, first);
    let mut slots = SlotsInTurns::begin(problem, row, turns, slot_bytes);
    // They arrive while the first row does.
    let masks = SharedMasks::read::<E, K, T, VECTORS, ALIGNED>(problem, &row, &slots, slots.end());
    let mut turn = 0;
    loop {
        two_passes::<E, K, T, _, VECTORS, ALIGNED, _>(problem, &row, scale, &mut slots, masks);
        turn += 1;
        if turn == turns {
            return;
        }
        row = row.next_in_turn();
        slots.next_row(row);
    }
}

/// Both passes over a row, of which `slots` are being filled.
///
/// # Safety
/// All threads of the row must call together; the problem's tensors must be valid for it.
#[inline(always)]
pub(super) unsafe fn two_passes<
    E: Element,
    K: MaskKind,
    T: RowThreads,
    S: Stage,
    const VECTORS: usize,
    const ALIGNED: bool,
    const KEPT: bool,
>(
    problem: &SoftmaxForward,
    row: &LongRow<E, T, ALIGNED>,
    scale: Scale<E::Accumulator>,
    slots: &mut S,
    masks: SharedMasks<KEPT>,
) {
    let begun = Summed::nothing(row.walk);
    let summed =
        first_pass::<E, K, T, _, VECTORS, ALIGNED, _>(problem, row, scale, slots, masks, begun);
    second_pass::<E, K, T, _, VECTORS, ALIGNED>(problem, row, scale, slots, summed, |_| {});
}

/// How far the first pass over a row has come, on one thread.
#[derive(Clone, Copy)]
pub(super) struct Summed<E: Element> {
    /// The first stretch that is left.
    walk: Walk,
    /// Of those before it, how many see anything.
    seen: u32,
    /// Maximum and sum of these.
    of_lane: Statistics<E::Accumulator>,
}

impl<E: Element> Summed<E> {
    /// Of a row whose first stretch is `walk`'s.
    #[inline(always)]
    pub fn nothing(walk: Walk) -> Self {
        Summed { walk, seen: 0, of_lane: Statistics::EMPTY }
    }

    /// How many stretches that see anything are added.
    #[inline(always)]
    pub fn seen(&self) -> u32 {
        self.seen
    }

    /// Is the stretch that comes next full?
    #[inline(always)]
    pub fn is_at_full(&self) -> bool {
        self.walk.is_full()
    }

    /// Adds the stretch that comes next, which is full, and has been copied to shared memory at `at`;
    /// `marks` is what masks hide of it.
    ///
    /// # Safety
    /// The problem's tensors must be valid for the row; the copy has been waited for.
    #[inline(always)]
    pub unsafe fn add_full<
        K: MaskKind,
        T: RowThreads,
        const VECTORS: usize,
        const ALIGNED: bool,
    >(
        &mut self,
        problem: &SoftmaxForward,
        row: &LongRow<E, T, ALIGNED>,
        scale: Scale<E::Accumulator>,
        at: u32,
        marks: HiddenMarks<VECTORS>,
    ) {
        let stretch = row.stretch(self.walk);
        let held =
            stretch.take::<InStretches<K>, VECTORS, ALIGNED>(problem, scale, at, marks, true);
        self.of_lane = stretch.accumulate::<InStretches<K>, VECTORS, ALIGNED>(
            problem,
            scale,
            &held,
            self.of_lane,
        );
        (self.walk, self.seen) = (self.walk.next(), self.seen + 1);
    }
}

/// Full stretches are taken apart: but that takes more registers than there are for f64 with an
/// additive mask.
const fn takes_full_apart<E: Element, K: MaskKind>() -> bool {
    !K::ADDITIVE || E::LANES > 2
}

/// What the first pass over a row leaves for the second.
#[derive(Clone, Copy)]
pub(super) struct OfRow<E: Element, const VECTORS: usize> {
    /// The row's maximum and sum.
    statistics: Statistics<E::Accumulator>,
    /// The first stretch that is not kept, if it is held.
    first_unkept: Held<E, VECTORS>,
}

/// The first pass over a row, from `summed` on: its maximum and sum, over the stretches that see
/// anything. Those that see nothing become zeros.
///
/// # Safety
/// As for [`two_passes`].
#[inline(always)]
pub(super) unsafe fn first_pass<
    E: Element,
    K: MaskKind,
    T: RowThreads,
    S: Stage,
    const VECTORS: usize,
    const ALIGNED: bool,
    const KEPT: bool,
>(
    problem: &SoftmaxForward,
    row: &LongRow<E, T, ALIGNED>,
    scale: Scale<E::Accumulator>,
    slots: &mut S,
    masks: SharedMasks<KEPT>,
    mut summed: Summed<E>,
) -> OfRow<E, VECTORS> {
    // Zeros depend on nothing: they are on their way while the row is still loading.
    if K::RANGE {
        let (y, mut walk) = (y_of_row(problem, row), row.walk);
        while walk.is_on_row() {
            if !walk.is_seen() {
                let y = y.offset(walk.begin() as isize);
                let (stretch, full) = (row.stretch(walk), walk.is_full_length());
                stretch.store_constant::<VECTORS, ALIGNED>(y, E::Accumulator::ZERO, full);
            }
            walk = walk.next();
        }
    }

    let mut first_unkept = Held::<E, VECTORS>::NOTHING;
    loop {
        // Masks come from memory: they are on their way while those before are at work, unless
        // additive ones leave no registers for that.
        let ahead = !K::ADDITIVE && !KEPT;
        let mut bytes_ahead = [[0; 2]; VECTORS];
        if ahead {
            bytes_ahead = row.bytes_of_full::<K, VECTORS>(summed.walk);
        }
        while takes_full_apart::<E, K>() && summed.walk.is_full() && slots.keeps(summed.seen) {
            let marks = if KEPT {
                masks.recall(summed.seen)
            } else {
                let mut bytes = bytes_ahead;
                if ahead {
                    bytes_ahead = row.bytes_of_full::<K, VECTORS>(summed.walk.next());
                } else {
                    bytes = row.bytes_of_full::<K, VECTORS>(summed.walk);
                }
                row.stretch(summed.walk).marks::<K, VECTORS>(problem, bytes)
            };
            slots.wait(summed.seen);
            let at = slots.at(summed.seen);
            summed.add_full::<K, T, VECTORS, ALIGNED>(problem, row, scale, at, marks);
        }
        if !summed.walk.is_on_row() {
            break;
        }
        if summed.walk.is_seen() {
            let (stretch, slot) = (row.stretch(summed.walk), summed.seen);
            let held = if slots.keeps(slot) {
                let bytes = stretch.load_bytes::<K, VECTORS, ALIGNED>(false);
                slots.wait(slot);
                let at = slots.at(slot);
                let marks = stretch.marks::<K, VECTORS>(problem, bytes);
                stretch.take::<K, VECTORS, ALIGNED>(problem, scale, at, marks, false)
            } else {
                let loaded = stretch.load::<K, VECTORS, ALIGNED>(problem, scale);
                if slots.holds(slot) {
                    first_unkept = loaded;
                }
                loaded
            };
            summed.of_lane =
                stretch.accumulate::<K, VECTORS, ALIGNED>(problem, scale, &held, summed.of_lane);
            summed.seen += 1;
        }
        summed.walk = summed.walk.next();
    }
    let of_warp = summed.of_lane.merge_lanes(scale.coefficient, row.at.lanes());
    let statistics = row.at.merge(of_warp, scale.coefficient);
    slots.summed(summed.seen);
    OfRow { statistics, first_unkept }
}

/// The second pass over a row: writes y and the log-sum-exp. After each stretch that sees anything
/// comes `between`.
///
/// # Safety
/// As for [`two_passes`].
#[inline(always)]
pub(super) unsafe fn second_pass<
    E: Element,
    K: MaskKind,
    T: RowThreads,
    S: Stage,
    const VECTORS: usize,
    const ALIGNED: bool,
>(
    problem: &SoftmaxForward,
    row: &LongRow<E, T, ALIGNED>,
    scale: Scale<E::Accumulator>,
    slots: &mut S,
    of_row: OfRow<E, VECTORS>,
    mut between: impl FnMut(&S),
) {
    let OfRow { statistics, first_unkept } = of_row;
    let y = y_of_row(problem, row);
    let factors = (statistics.reference(), normalizer(statistics, row.mask.outside_bank));
    let (mut walk, mut slot) = (row.walk, 0);
    loop {
        while takes_full_apart::<E, K>() && walk.is_full() && slots.keeps(slot) {
            let (stretch, at) = (row.stretch(walk), slots.at(slot));
            let held =
                stretch.take_again::<InStretches<K>, VECTORS, ALIGNED>(problem, scale, at, true);
            let (y, stored) = (y.offset(walk.begin() as isize), Stored::Full);
            stretch.store::<InStretches<K>, VECTORS, ALIGNED>(
                problem, scale, held, y, factors, stored,
            );
            slots.free(slot);
            between(slots);
            (walk, slot) = (walk.next(), slot + 1);
        }
        if !walk.is_on_row() {
            break;
        }
        let (stretch, y) = (row.stretch(walk), y.offset(walk.begin() as isize));
        if walk.is_seen() {
            let held = if slots.keeps(slot) {
                stretch.take_again::<K, VECTORS, ALIGNED>(problem, scale, slots.at(slot), false)
            } else if slots.holds(slot) {
                first_unkept
            } else {
                stretch.load::<K, VECTORS, ALIGNED>(problem, scale)
            };
            let stored = Stored::Whole;
            stretch.store::<K, VECTORS, ALIGNED>(problem, scale, held, y, factors, stored);
            if slots.keeps(slot) {
                slots.free(slot);
            }
            between(slots);
            slot += 1;
        } else if factors.1.is_nan() {
            // A row that is NaN is so everywhere.
            stretch.store_constant::<VECTORS, ALIGNED>(y, factors.1, walk.is_full_length());
        }
        walk = walk.next();
    }
    if row.at.thread() == 0 {
        store_lse(problem, row.row, statistics, scale, row.mask.outside_bank);
    }
}

/// Where the row's output begins.
#[inline(always)]
unsafe fn y_of_row<E: Element, T, const ALIGNED: bool>(
    problem: &SoftmaxForward,
    row: &LongRow<E, T, ALIGNED>,
) -> *mut E {
    problem.y.cast::<E>().offset(output_offset(problem, row.row) as isize)
}
