//! Scaled masked softmax, backward, of rows too long to stay on chip.
//!
//! The same function as [`super::backward`], in the two passes of [`super::forward_streamed`]: the
//! first sums up, the second loads both inputs again and writes dX.
//!
//! - Tiling, registers, shared memory: as in the forward.
//! - Roofline: memory: five transfers instead of three.

use super::{
    gradient::Saved,
    mask::RowMask,
    problem::{RowOffsets, SoftmaxBackward, gradient_offset, output_offset},
    row::{Stretch, lead, x_of_row},
    row_threads::RowThreads,
    walk::Walk,
};
use crate::{
    numbers::{Accumulator, Element},
    reduction::Part,
};
use cuda_std::thread::{block_dim_x, thread_idx_x};

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
    let at = T::here(rows);
    let row = at.row();
    let offsets = RowOffsets::of(rows, row);
    let mask = RowMask::of::<S::Mask, E>(rows, &offsets);
    let scale = S::scale::<E>(rows);
    let (visible, place) = ((mask.start, mask.end), (thread_idx_x(), block_dim_x()));
    let stretch_of = |walk: Walk| {
        let (begin, length) = (walk.begin(), walk.length());
        Stretch::<E>::of::<ALIGNED>(rows, &offsets, &mask, place, begin, length)
    };
    let gradient = problem.gradient.cast::<E>().offset(gradient_offset(problem, row) as isize);
    let gradient_of = |walk: Walk| gradient.offset(walk.begin() as isize);
    let stretch_columns = (block_dim_x() as usize * VECTORS * E::LANES) as i64;
    let lead = if ALIGNED { 0 } else { lead(x_of_row::<E>(rows, &offsets)) };
    let begin = Walk::of(at.block(), stretch_columns, lead, rows.columns as i64);
    let distance = x_of_row::<E>(rows, &offsets).addr().wrapping_sub(gradient.addr());
    let on_grid = ALIGNED || distance.is_multiple_of(16);

    // First pass: the weighted sum, over the stretches that see anything.
    let mut walk = begin;
    let mut of_lane = S::Sums::<E::Accumulator>::EMPTY;
    while walk.is_on_row() {
        if walk.meets(visible.0, visible.1) {
            let stretch = stretch_of(walk);
            let held = stretch.load::<S::Mask, VECTORS, ALIGNED>(rows, scale);
            let gradient = stretch.load_gradient::<VECTORS, ALIGNED>(gradient_of(walk), on_grid);
            of_lane = stretch
                .accumulate_gradient::<S, VECTORS, ALIGNED>(rows, scale, &held, &gradient, of_lane);
        }
        walk = walk.next();
    }
    let of_warp = of_lane.merge_lanes(scale.coefficient, at.lanes());
    let of_row = S::row(at.merge(of_warp, scale.coefficient));

    // Second pass: every column is written.
    let dx = rows.y.cast::<E>().offset(output_offset(rows, row) as isize);
    walk = begin;
    while walk.is_on_row() {
        let (stretch, dx) = (stretch_of(walk), dx.offset(walk.begin() as isize));
        if walk.meets(visible.0, visible.1) {
            let held = stretch.load::<S::Mask, VECTORS, ALIGNED>(rows, scale);
            let gradient = stretch.load_gradient::<VECTORS, ALIGNED>(gradient_of(walk), on_grid);
            stretch.store_gradient::<S, VECTORS, ALIGNED>(rows, scale, held, gradient, dx, of_row);
        } else {
            stretch.store_constant::<VECTORS, ALIGNED>(dx, E::Accumulator::ZERO);
        }
        walk = walk.next();
    }
}
