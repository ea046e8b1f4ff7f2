//! Scaled masked softmax, forward, of rows that stay in registers.
//!
//! `y[r, j] = exp(s[r, j] - lse[r])` where visible, else 0, with `s = x * scale + additive mask` and
//! `lse[r] = ln sum_j exp(s[r, j])`. A row that sees nothing is 0 and its lse -inf.
//!
//! - Shapes: x and y are `rows` rows of `columns` elements of type E at free strides; lse has one
//!   number a row.
//! - Tiling: the row's threads (a power of two of a warp's lanes, a block, a cluster) hold VECTORS
//!   vectors of 16 bytes each, so that x is read once and y written once.
//! - Rows that share all their masks (those of all heads) are taken in turn by the same threads, which
//!   read the masks once and keep what they hide.
//! - Registers: the inputs stay as they are, 4 registers a vector; scores and exponentials are
//!   computed twice, for the sum and for the output, which is cheaper than to hold them twice as
//!   wide. Shared memory: 768 bytes a block where warps merge, 1168 in a cluster.
//! - Roofline: memory. Bytes moved are x, y and the masks, once; the yardstick is a device-to-device
//!   copy of the same bytes.

use super::{
    mask::{MaskKind, RowMask},
    problem::{RowOffsets, SoftmaxForward, output_offset, row_offset},
    row::{Stored, Stretch},
    row_threads::RowThreads,
    scale::Scale,
};
use crate::{
    marks,
    numbers::{Accumulator, Element},
    reduction::{Part, Statistics},
};
use cuda_std::{global, hint};

/// The kernel's body; [`super::entries`] has its instances.
///
/// # Safety
/// `problem`'s tensors must be valid for its shape, and the launch as `tiles` describes: rows fit
/// in the threads' registers, and with `ALIGNED` every row begins on a 16-byte boundary and is a
/// multiple of 16 bytes long.
#[inline(always)]
pub unsafe fn forward<
    E: Element,
    K: MaskKind,
    T: RowThreads,
    const VECTORS: usize,
    const ALIGNED: bool,
>(
    problem: &SoftmaxForward,
) {
    // Rows that share all masks are taken in turn, and their masks read once.
    // Lanes without a row go along, for the sake of the shuffles, on a row that sees nothing.
    let mut at = T::here(problem, K::IN_TURNS);
    let (first, turns) = if K::IN_TURNS { problem.rows_of_group(at.row()) } else { (at.row(), 1) };
    let exists = first < problem.rows;
    let first = if exists { first } else { 0 };
    let offsets = RowOffsets::of(problem, first);
    let mut mask = RowMask::of::<K, E>(problem, &offsets);
    if !exists {
        mask.hide_all();
    }
    let scale = Scale::of::<K, E>(problem);
    let place = (at.thread(), at.threads());

    // Load.
    let mut stretch =
        Stretch::<E>::of::<ALIGNED>(problem, &offsets, &mask, place, 0, problem.columns as i64);
    let (mut held, marks) = stretch.load_and_mark::<K, VECTORS, ALIGNED>(problem, scale);
    let hidden = marks::to_bits(marks);

    let y_of_row = |row| problem.y.cast::<E>().offset(output_offset(problem, row) as isize);
    if K::SKIPS && exists {
        stretch.store_unseen::<VECTORS, ALIGNED>(y_of_row(first));
    }

    let mut turn = 0;
    loop {
        let row = first + turn;
        // Maximum and sum: of the lane, the row's lanes in this warp, the row.
        let of_lane =
            stretch.accumulate::<K, VECTORS, ALIGNED>(problem, scale, &held, Statistics::EMPTY);
        let of_warp = of_lane.merge_lanes(scale.coefficient, at.lanes());
        let of_row = at.merge(of_warp, scale.coefficient);

        // Store.
        if exists {
            let y = y_of_row(row);
            let factors = (of_row.reference(), normalizer(of_row, mask.outside_bank));
            // A row that is NaN is so everywhere.
            let stored = if K::SKIPS && !factors.1.is_nan() { Stored::Seen } else { Stored::Whole };
            stretch.store::<K, VECTORS, ALIGNED>(problem, scale, held, y, factors, stored);
            if at.thread() == 0 {
                store_lse(problem, row, of_row, scale, mask.outside_bank);
            }
        }

        turn += 1;
        if turn == turns {
            break;
        }
        at = at.next();
        stretch = stretch.moved_by(problem.dimensions[0].x);
        let marks = marks::from_bits(hint::opaque(hidden));
        held = stretch.load_marked::<K, VECTORS, ALIGNED>(problem, scale, marks);
    }
}

/// What exponentials relative to the row's maximum are multiplied by: 1 / sum; 0 for a row that
/// sees nothing.
#[inline(always)]
pub fn normalizer<A: Accumulator>(of_row: Statistics<A>, outside_bank: bool) -> A {
    if outside_bank {
        A::NAN
    } else if of_row.sum == A::ZERO {
        A::ZERO
    } else {
        of_row.sum.reciprocal()
    }
}

/// Stores the row's log-sum-exp, if the problem wants it.
///
/// # Safety
/// The problem's lse must be null or valid for the row.
#[inline(always)]
pub unsafe fn store_lse<A: Accumulator>(
    problem: &SoftmaxForward,
    row: u32,
    of_row: Statistics<A>,
    scale: Scale<A>,
    outside_bank: bool,
) {
    if problem.lse.is_null() {
        return;
    }
    let lse = if outside_bank {
        A::NAN
    } else if of_row.sum == A::ZERO {
        A::NEG_INFINITY
    } else {
        of_row.reference() * (scale.coefficient * A::LN_BASE) + of_row.sum.log_base() * A::LN_BASE
    };
    let offset = row_offset(problem, hint::opaque(row), |i| problem.dimensions[i].lse);
    global::store(problem.lse.cast::<A>().offset(offset as isize), lse);
}
