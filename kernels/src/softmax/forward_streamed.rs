//! Scaled masked softmax, forward, of rows too long to stay on chip.
//!
//! The same function as [`super::forward`], in two passes: the first finds the row's maximum and
//! sum (online softmax, each thread on its own), the second loads x and its masks again and writes
//! y.
//!
//! - Tiling: the row's block walks over it in stretches of VECTORS vectors a thread. 64-bit columns
//!   between stretches, 32-bit within.
//! - Registers and shared memory: as in [`super::forward`].
//! - Roofline: memory: three transfers instead of two, so at most two thirds of a copy's speed from
//!   memory; more where the row still lies in the L2 cache.

use super::{
    forward::{normalizer, store_lse},
    mask::{MaskKind, RowMask},
    problem::{RowOffsets, SoftmaxForward, output_offset},
    row::{Stretch, lead, x_of_row},
    row_threads::RowThreads,
    scale::Scale,
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
/// As for [`super::forward::forward`], but for the length of rows.
#[inline(always)]
pub unsafe fn forward_streamed<
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
    let stretch_columns = (block_dim_x() as usize * VECTORS * E::LANES) as i64;
    let lead = if ALIGNED { 0 } else { lead(x_of_row::<E>(problem, &offsets)) };
    let begin = Walk::of(at.block(), stretch_columns, lead, problem.columns as i64);

    // First pass: maximum and sum, over the stretches that see anything.
    let mut walk = begin;
    let mut of_lane = Statistics::<E::Accumulator>::EMPTY;
    while walk.is_on_row() {
        if walk.meets(visible.0, visible.1) {
            let stretch = stretch_of(walk);
            let held = stretch.load::<K, VECTORS, ALIGNED>(problem, scale);
            of_lane = stretch.accumulate::<K, VECTORS, ALIGNED>(problem, scale, &held, of_lane);
        }
        walk = walk.next();
    }
    let of_warp = of_lane.merge_lanes(scale.coefficient, at.lanes());
    let of_row = at.merge(of_warp, scale.coefficient);

    // Second pass: every column is written.
    let y = problem.y.cast::<E>().offset(output_offset(problem, row) as isize);
    let (reference, factor) = (of_row.reference(), normalizer(of_row, mask.outside_bank));
    walk = begin;
    while walk.is_on_row() {
        let (stretch, y) = (stretch_of(walk), y.offset(walk.begin() as isize));
        if walk.meets(visible.0, visible.1) {
            let held = stretch.load::<K, VECTORS, ALIGNED>(problem, scale);
            stretch.store::<K, VECTORS, ALIGNED>(
                problem,
                scale,
                held,
                y,
                (reference, factor),
                false,
            );
        } else {
            stretch.store_constant::<VECTORS, ALIGNED>(y, factor * E::Accumulator::ZERO);
        }
        walk = walk.next();
    }
    if at.thread() == 0 {
        store_lse(problem, row, of_row, scale, mask.outside_bank);
    }
}
