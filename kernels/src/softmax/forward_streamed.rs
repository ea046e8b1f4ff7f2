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
    long_row::LongRow,
    mask::{InStretches, MaskKind},
    problem::{SoftmaxForward, output_offset},
    row::Stored,
    row_threads::RowThreads,
    scale::Scale,
};
use crate::{
    numbers::{Accumulator, Element},
    reduction::{Part, Statistics},
};

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
    let row = LongRow::<E, T, ALIGNED>::here::<K, VECTORS>(problem);
    let scale = Scale::of::<K, E>(problem);

    // First pass: maximum and sum, over the stretches that see anything.
    let mut walk = row.walk;
    let mut of_lane = Statistics::<E::Accumulator>::EMPTY;
    while walk.is_on_row() {
        if walk.is_seen() {
            let stretch = row.stretch(walk);
            let held = stretch.load::<InStretches<K>, VECTORS, ALIGNED>(problem, scale);
            of_lane = stretch
                .accumulate::<InStretches<K>, VECTORS, ALIGNED>(problem, scale, &held, of_lane);
        }
        walk = walk.next();
    }
    let of_warp = of_lane.merge_lanes(scale.coefficient, row.at.lanes());
    let of_row = row.at.merge(of_warp, scale.coefficient);

    // Second pass: every column is written.
    let y = problem.y.cast::<E>().offset(output_offset(problem, row.row) as isize);
    let factors = (of_row.reference(), normalizer(of_row, row.mask.outside_bank));
    walk = row.walk;
    while walk.is_on_row() {
        let (stretch, y) = (row.stretch(walk), y.offset(walk.begin() as isize));
        if walk.is_seen() {
            let held = stretch.load::<InStretches<K>, VECTORS, ALIGNED>(problem, scale);
            stretch.store::<InStretches<K>, VECTORS, ALIGNED>(
                problem,
                scale,
                held,
                y,
                factors,
                Stored::Whole,
            );
        } else {
            stretch.store_constant::<VECTORS, ALIGNED>(
                y,
                factors.1 * E::Accumulator::ZERO,
                walk.is_full_length(),
            );
        }
        walk = walk.next();
    }
    if row.at.thread() == 0 {
        store_lse(problem, row.row, of_row, scale, row.mask.outside_bank);
    }
}
