//! Scaled masked softmax, backward, of rows too long to stay on chip.
//!
//! The same function as [`super::backward`], in the two passes of [`super::forward_streamed`]: the
//! first sums up, the second loads both inputs again and writes dX.
//!
//! - Tiling, registers, shared memory: as in the forward.
//! - Roofline: memory: five transfers instead of three.

use super::{
    gradient::Saved,
    long_row::LongRow,
    mask::InStretches,
    problem::{SoftmaxBackward, output_offset},
    row_threads::RowThreads,
};
use crate::{
    numbers::{Accumulator, Element},
    reduction::Part,
};

/// The kernel's body; [`super::entries`] has its instances.
///
/// # Safety
/// As for [`super::forward_streamed::forward_streamed`], the gradient included.
#[inline(always)]
pub unsafe fn backward_streamed<
    E: Element,
    S: Saved,
    T: RowThreads,
    const VECTORS: usize,
    const ALIGNED: bool,
>(
    problem: &SoftmaxBackward,
) {
    let rows = &problem.rows;
    let row = LongRow::<E, T, ALIGNED>::here::<S::Mask, VECTORS>(rows);
    let scale = S::scale::<E>(rows);
    let (gradient, on_grid) = row.gradient(problem);

    // First pass: the weighted sum, over the stretches that see anything.
    let mut walk = row.walk;
    let mut of_lane = S::Sums::<E::Accumulator>::EMPTY;
    while walk.is_on_row() {
        if walk.is_seen() {
            let (stretch, gradient) = (row.stretch(walk), gradient.offset(walk.begin() as isize));
            let held = stretch.load::<InStretches<S::Mask>, VECTORS, ALIGNED>(rows, scale);
            let gradient = stretch.load_gradient::<VECTORS, ALIGNED>(gradient, on_grid);
            of_lane = stretch.accumulate_gradient::<S, InStretches<S::Mask>, VECTORS, ALIGNED>(
                rows, scale, &held, &gradient, of_lane,
            );
        }
        walk = walk.next();
    }
    let of_warp = of_lane.merge_lanes(scale.coefficient, row.at.lanes());
    let of_row = S::row(row.at.merge(of_warp, scale.coefficient));

    // Second pass: every column is written.
    let dx = rows.y.cast::<E>().offset(output_offset(rows, row.row) as isize);
    walk = row.walk;
    while walk.is_on_row() {
        let (stretch, dx) = (row.stretch(walk), dx.offset(walk.begin() as isize));
        if walk.is_seen() {
            let gradient = gradient.offset(walk.begin() as isize);
            let held = stretch.load::<InStretches<S::Mask>, VECTORS, ALIGNED>(rows, scale);
            let gradient = stretch.load_gradient::<VECTORS, ALIGNED>(gradient, on_grid);
            stretch.store_gradient::<S, VECTORS, ALIGNED>(
                rows, scale, held, gradient, dx, of_row, false,
            );
        } else {
            stretch.store_constant::<VECTORS, ALIGNED>(
                dx,
                E::Accumulator::ZERO,
                walk.is_full_length(),
            );
        }
        walk = walk.next();
    }
}
