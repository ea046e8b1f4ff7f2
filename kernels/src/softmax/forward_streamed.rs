//! Scaled masked softmax, forward, of rows too long to stay in registers.
//!
//! The same function as [`super::forward`], in two passes: the first finds the row's maximum and
//! sum (online softmax, each thread on its own), the second reads x and its masks again and writes
//! y. Three transfers instead of two, so at most two thirds of a copy's speed from memory; more
//! where the row still lies in the L2 cache.
//!
//! - Tiling: the row's threads (a block or a cluster) walk over it in stretches of VECTORS vectors
//!   each. 64-bit columns between stretches, 32-bit within.
//! - Registers and shared memory: as in [`super::forward`].

use super::{
    forward::{normalizer, store_lse},
    mask::{MaskKind, RowMask},
    problem::{RowOffsets, SoftmaxForward, output_offset},
    row::Stretch,
    row_threads::RowThreads,
    scale::Scale,
};
use crate::{numbers::Element, reduction::Statistics};

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
    let scale = Scale::of::<K>(problem);
    let place = (at.thread(), at.threads());

    let columns = problem.columns as i64;
    let whole = Stretch::<E>::of::<ALIGNED>(problem, &offsets, &mask, place, 0, 0);
    // Stretches begin where vectors do, the first at the row's begin.
    let step = at.threads() as i64 * (VECTORS * E::LANES) as i64;

    // First pass: maximum and sum, over the visible stretches only.
    let mut of_lane = Statistics::<E::Accumulator>::EMPTY;
    let mut begin = 0;
    let mut length = first_length(step, whole.lead(), columns);
    while begin < columns {
        if begin < mask.end && begin + length > mask.start {
            let stretch =
                Stretch::<E>::of::<ALIGNED>(problem, &offsets, &mask, place, begin, length);
            let held = stretch.load::<K, VECTORS, ALIGNED>(problem, scale);
            of_lane = stretch.accumulate::<K, VECTORS, ALIGNED>(problem, scale, &held, of_lane);
        }
        begin += length;
        length = if columns - begin < step { columns - begin } else { step };
    }
    let of_warp = of_lane.merge_lanes(scale.coefficient, at.lanes());
    let of_row = at.merge(of_warp, scale.coefficient);

    // Second pass: every column is written, the visible ones are read again.
    let y = problem.y.cast::<E>().offset(output_offset(problem, row) as isize);
    let (reference, factor) = (of_row.reference(), normalizer(of_row, mask.outside_bank));
    begin = 0;
    length = first_length(step, whole.lead(), columns);
    while begin < columns {
        let stretch = Stretch::<E>::of::<ALIGNED>(problem, &offsets, &mask, place, begin, length);
        let held = stretch.load::<K, VECTORS, ALIGNED>(problem, scale);
        stretch.store::<K, VECTORS, ALIGNED>(
            problem,
            scale,
            held,
            y.offset(begin as isize),
            reference,
            factor,
        );
        begin += length;
        length = if columns - begin < step { columns - begin } else { step };
    }
    if at.thread() == 0 {
        store_lse(problem, row, of_row, scale, mask.outside_bank);
    }
}

/// The first stretch ends on the vector grid, `lead` elements short of a whole one.
#[inline(always)]
fn first_length(step: i64, lead: i32, columns: i64) -> i64 {
    let length = step - lead as i64;
    if length < columns { length } else { columns }
}
