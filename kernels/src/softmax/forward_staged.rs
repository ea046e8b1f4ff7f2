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
//! - Shared memory: [`super::stage::SLOTS`] bytes, and a slot of 16 VECTORS bytes a thread for each
//!   stretch that is kept.
//! - Roofline: memory. x is read once if there are enough slots.

use super::{
    forward::{normalizer, store_lse},
    mask::{MaskKind, RowMask},
    problem::{RowOffsets, SoftmaxForward, output_offset},
    row::{Stretch, lead, x_of_row},
    row_threads::RowThreads,
    scale::Scale,
    stage::Slots,
    walk::Walk,
};
use crate::{
    numbers::{Accumulator, Element},
    reduction::{Part, Statistics},
};
use cuda_std::thread::{block_dim_x, thread_idx_x};

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
    let at = T::here(problem);
    let row = at.row();
    let offsets = RowOffsets::of(problem, row);
    let mask = RowMask::of::<K, E>(problem, &offsets);
    let scale = Scale::of::<K, E>(problem);
    let (visible, place) = ((mask.start, mask.end), (thread_idx_x(), block_dim_x()));
    let stretch_of = |walk: Walk| {
        let (begin, length) = (walk.begin(), walk.length());
        Stretch::<E>::of::<ALIGNED>(problem, &offsets, &mask, place, begin, length)
    };
    let slot_bytes = block_dim_x() * 16 * VECTORS as u32;
    let stretch_columns = (block_dim_x() as usize * VECTORS * E::LANES) as i64;
    let lead = if ALIGNED { 0 } else { lead(x_of_row::<E>(problem, &offsets)) };
    let begin = Walk::of(at.block(), stretch_columns, lead, problem.columns as i64);

    // Copy.
    let slots = Slots::of(problem, slot_bytes);
    slots.fill(
        begin,
        visible,
        |walk| stretch_of(walk).copied_bytes(),
        |walk, to, barrier| {
            let stretch = stretch_of(walk);
            stretch.copy(stretch.x_at(0), to, barrier);
        },
    );

    let y = problem.y.cast::<E>().offset(output_offset(problem, row) as isize);

    // First pass: maximum and sum, over the stretches that see anything.
    let (mut walk, mut slot) = (begin, 0);
    let mut of_lane = Statistics::<E::Accumulator>::EMPTY;
    while walk.is_on_row() {
        if walk.meets(visible.0, visible.1) {
            let stretch = stretch_of(walk);
            let held = if slots.keeps(slot) {
                slots.wait(slot);
                stretch.take::<K, VECTORS, ALIGNED>(problem, scale, slots.at(slot))
            } else {
                stretch.load::<K, VECTORS, ALIGNED>(problem, scale)
            };
            of_lane = stretch.accumulate::<K, VECTORS, ALIGNED>(problem, scale, &held, of_lane);
            slot += 1;
        } else {
            // Zeros depend on nothing: they are on their way while the row is still loading.
            let y = y.offset(walk.begin() as isize);
            stretch_of(walk).store_constant::<VECTORS, ALIGNED>(y, E::Accumulator::ZERO);
        }
        walk = walk.next();
    }
    let of_warp = of_lane.merge_lanes(scale.coefficient, at.lanes());
    let of_row = at.merge(of_warp, scale.coefficient);

    // Second pass.
    let (reference, factor) = (of_row.reference(), normalizer(of_row, mask.outside_bank));
    (walk, slot) = (begin, 0);
    while walk.is_on_row() {
        let (stretch, y) = (stretch_of(walk), y.offset(walk.begin() as isize));
        if walk.meets(visible.0, visible.1) {
            let held = if slots.keeps(slot) {
                stretch.take_again::<K, VECTORS, ALIGNED>(problem, scale, slots.at(slot))
            } else {
                stretch.load::<K, VECTORS, ALIGNED>(problem, scale)
            };
            stretch.store::<K, VECTORS, ALIGNED>(
                problem,
                scale,
                held,
                y,
                (reference, factor),
                false,
            );
            slot += 1;
        } else if factor.is_nan() {
            // A row that is NaN is so everywhere.
            stretch.store_constant::<VECTORS, ALIGNED>(y, factor);
        }
        walk = walk.next();
    }
    if at.thread() == 0 {
        store_lse(problem, row, of_row, scale, mask.outside_bank);
    }
}
