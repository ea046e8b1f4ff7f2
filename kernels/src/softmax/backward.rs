//! Scaled masked softmax, backward, of rows that stay in registers.
//!
//! `dX[r, j] = scale * P[r, j] (dP[r, j] - sum_k P[r, k] dP[r, k])` where visible, else 0. P is
//! stored, or computed anew from the forward's input, under the same masks.
//!
//! - Shapes: P or x, dP and dX are `rows` rows of `columns` elements of type E at free strides. dX
//!   may be one of the others, in place.
//! - Tiling: as in [`super::forward`]; a thread holds VECTORS vectors of each of the two inputs.
//! - Registers: 8 a pair of vectors; what is made of them is computed twice. Shared memory: as in
//!   the forward.
//! - Roofline: memory: three transfers. The yardstick is a copy of the same bytes.

use super::{
    gradient::Saved,
    mask::RowMask,
    problem::{RowOffsets, SoftmaxBackward, gradient_offset, output_offset},
    row::Stretch,
    row_threads::RowThreads,
};
use crate::{numbers::Element, reduction::Part};

/// The kernel's body; [`super::entries`] has its instances.
///
/// # Safety
/// As for [`super::forward::forward`], the gradient included.
#[inline(always)]
pub unsafe fn backward<
    E: Element,
    S: Saved,
    T: RowThreads,
    const VECTORS: usize,
    const ALIGNED: bool,
>(
    problem: &SoftmaxBackward,
) {
    // Lanes without a row go along, for the sake of the shuffles, on a row that sees nothing.
    let rows = &problem.rows;
    let at = T::here(rows, false);
    let exists = at.row() < rows.rows;
    let row = if exists { at.row() } else { 0 };
    let offsets = RowOffsets::of(rows, row);
    let mut mask = RowMask::of::<S::Mask, E>(rows, &offsets);
    if !exists {
        mask.hide_all();
    }
    let scale = S::scale::<E>(rows);
    let place = (at.thread(), at.threads());

    // Load.
    let columns = rows.columns as i64;
    let stretch = Stretch::<E>::of::<ALIGNED>(rows, &offsets, &mask, place, 0, columns);
    let from = problem.gradient.cast::<E>().offset(gradient_offset(problem, row) as isize);
    let gradient = stretch.load_gradient::<VECTORS, ALIGNED>(from, stretch.is_on_grid(from));
    let held = stretch.load::<S::Mask, VECTORS, ALIGNED>(rows, scale);

    // The weighted sum: of the lane, the row's lanes in this warp, the row.
    let of_lane = stretch.accumulate_gradient::<S, S::Mask, VECTORS, ALIGNED>(
        rows,
        scale,
        &held,
        &gradient,
        Part::EMPTY,
    );
    let of_warp = of_lane.merge_lanes(scale.coefficient, at.lanes());
    let of_row = S::row(at.merge(of_warp, scale.coefficient));

    // Store.
    if exists {
        let dx = rows.y.cast::<E>().offset(output_offset(rows, row) as isize);
        stretch
            .store_gradient::<S, VECTORS, ALIGNED>(rows, scale, held, gradient, dx, of_row, false);
    }
}
