//! Scaled masked softmax, backward, of rows too long for registers, through shared memory. From sm_90.
//!
//! The same function as [`super::backward`], in the two passes of [`super::forward_staged`]: the
//! first sums up, the second writes dX. A slot holds a stretch of both inputs.
//!
//! - Tiling, staging, shared memory: as in the forward, with slots of twice the size. Gradients
//!   that do not lie on the 16-byte grid where the other input does are not staged.
//! - Roofline: memory: three transfers if there are enough slots.

use super::{
    gradient::Saved,
    long_row::LongRow,
    mask::InStretches,
    problem::{SoftmaxBackward, output_offset},
    row_threads::RowThreads,
    stage::{Slots, Stage},
    walk::Walk,
};
use crate::{
    numbers::{Accumulator, Element},
    reduction::Part,
};
use cuda_std::thread::block_dim_x;

/// The kernel's body; [`super::entries`] has its instances.
///
/// # Safety
/// As for [`super::forward_staged::forward_staged`], the gradient included.
#[inline(always)]
pub unsafe fn backward_staged<
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
    let gradient_of = |walk: Walk| gradient.offset(walk.begin() as isize);

    // Copy.
    let stretch_bytes = block_dim_x() * 16 * VECTORS as u32;
    let slots = Slots::of::<T>(rows, 2 * stretch_bytes);
    slots.fill(row.walk, |walk, to, barrier| {
        let stretch = row.stretch(walk);
        let bytes = stretch.copy(stretch.x_at(0), to, barrier);
        if on_grid {
            return bytes + stretch.copy(gradient_of(walk), to + stretch_bytes, barrier);
        }
        bytes
    });
    let gradient_at = |slot: u32| slots.at(slot) + stretch_bytes;

    // First pass: the weighted sum, over the stretches that see anything.
    let (mut walk, mut slot) = (row.walk, 0);
    let mut of_lane = S::Sums::<E::Accumulator>::EMPTY;
    loop {
        while walk.is_full() && slots.keeps(slot) && on_grid {
            slots.wait(slot);
            let (stretch, from) = (row.stretch(walk), gradient_of(walk));
            let (at, gradient_at) = (slots.at(slot), gradient_at(slot));
            let bytes = stretch.load_bytes::<S::Mask, VECTORS, ALIGNED>(true);
            let marks = stretch.marks::<S::Mask, VECTORS>(rows, bytes);
            let held = stretch
                .take::<InStretches<S::Mask>, VECTORS, ALIGNED>(rows, scale, at, marks, true);
            let gradient = stretch.take_gradient::<VECTORS, ALIGNED>(from, gradient_at, true);
            of_lane = stretch.accumulate_gradient::<S, InStretches<S::Mask>, VECTORS, ALIGNED>(
                rows, scale, &held, &gradient, of_lane,
            );
            (walk, slot) = (walk.next(), slot + 1);
        }
        if !walk.is_on_row() {
            break;
        }
        if walk.is_seen() {
            let (stretch, from) = (row.stretch(walk), gradient_of(walk));
            let held = if slots.keeps(slot) {
                slots.wait(slot);
                let (at, bytes) =
                    (slots.at(slot), stretch.load_bytes::<S::Mask, VECTORS, ALIGNED>(false));
                let marks = stretch.marks::<S::Mask, VECTORS>(rows, bytes);
                stretch
                    .take::<InStretches<S::Mask>, VECTORS, ALIGNED>(rows, scale, at, marks, false)
            } else {
                stretch.load::<InStretches<S::Mask>, VECTORS, ALIGNED>(rows, scale)
            };
            let gradient = if slots.keeps(slot) && on_grid {
                stretch.take_gradient::<VECTORS, ALIGNED>(from, gradient_at(slot), false)
            } else {
                stretch.load_gradient::<VECTORS, ALIGNED>(from, on_grid)
            };
            of_lane = stretch.accumulate_gradient::<S, InStretches<S::Mask>, VECTORS, ALIGNED>(
                rows, scale, &held, &gradient, of_lane,
            );
            slot += 1;
        }
        walk = walk.next();
    }
    let of_warp = of_lane.merge_lanes(scale.coefficient, row.at.lanes());
    let of_row = S::row(row.at.merge(of_warp, scale.coefficient));

    // Second pass: every column is written.
    let dx = rows.y.cast::<E>().offset(output_offset(rows, row.row) as isize);
    (walk, slot) = (row.walk, 0);
    loop {
        while walk.is_full() && slots.keeps(slot) && on_grid {
            let (stretch, from) = (row.stretch(walk), gradient_of(walk));
            let (at, gradient_at) = (slots.at(slot), gradient_at(slot));
            let held =
                stretch.take_again::<InStretches<S::Mask>, VECTORS, ALIGNED>(rows, scale, at, true);
            let gradient = stretch.take_gradient::<VECTORS, ALIGNED>(from, gradient_at, true);
            let dx = dx.offset(walk.begin() as isize);
            stretch.store_gradient::<S, VECTORS, ALIGNED>(
                rows, scale, held, gradient, dx, of_row, true,
            );
            (walk, slot) = (walk.next(), slot + 1);
        }
        if !walk.is_on_row() {
            break;
        }
        let (stretch, dx) = (row.stretch(walk), dx.offset(walk.begin() as isize));
        if walk.is_seen() {
            let from = gradient_of(walk);
            let held = if slots.keeps(slot) {
                let at = slots.at(slot);
                stretch.take_again::<InStretches<S::Mask>, VECTORS, ALIGNED>(rows, scale, at, false)
            } else {
                stretch.load::<InStretches<S::Mask>, VECTORS, ALIGNED>(rows, scale)
            };
            let gradient = if slots.keeps(slot) && on_grid {
                stretch.take_gradient::<VECTORS, ALIGNED>(from, gradient_at(slot), false)
            } else {
                stretch.load_gradient::<VECTORS, ALIGNED>(from, on_grid)
            };
            stretch.store_gradient::<S, VECTORS, ALIGNED>(
                rows, scale, held, gradient, dx, of_row, false,
            );
            slot += 1;
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
