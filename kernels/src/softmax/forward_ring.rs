//! Scaled masked softmax, forward, of rows too long for a multiprocessor, one after the other
//! through the shared memory of a cluster. From sm_90.
//!
//! The same function as [`super::forward`], in the same two passes as [`super::forward_staged`].
//!
//! - Tiling: as there; but the grid has no more clusters than run at once, and each takes rows in
//!   turn.
//! - Staging: the loads of the next row begin while this one is still being written: a slot whose
//!   stretch has been written is filled anew ([`super::ring`]). So memory is never idle, neither
//!   while a row's blocks wait for each other nor while a cluster would be replaced by the next.
//! - First pass ahead: rows of f32 take the whole ring, so that nothing is loaded while one is summed.
//!   So what has arrived of the next row is added to its sums while this one is being written.
//! - Registers: a row that is longer than all slots stays in registers for another stretch, which is
//!   asked for in the L2 cache ahead. The rest is loaded again.
//! - In place: loads run ahead of stores by whole rows, so y may be x, of which rows do not overlap.
//! - Shared memory: [`super::ring::SLOTS`] bytes, and a slot of 16 VECTORS bytes a thread for as many
//!   stretches as fit: one block has a multiprocessor.
//! - Roofline: memory. x is read once if there are enough slots.

use super::{
    forward_staged::{Summed, first_pass, second_pass, two_passes},
    long_row::LongRow,
    mask::MaskKind,
    problem::SoftmaxForward,
    ring::Ring,
    row_threads::{Cluster, RowThreads},
    scale::Scale,
    shared_masks::SharedMasks,
};
use crate::numbers::Element;

/// The kernel's body; [`super::entries`] has its instances.
///
/// # Safety
/// As for [`super::forward::forward`], but for the length of rows; shared memory holds the
/// problem's slots, and the grid has no more clusters than the problem has rows.
#[inline(always)]
pub unsafe fn forward_ring<E: Element, K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
    problem: &SoftmaxForward,
) {
    let scale = Scale::of::<K, E>(problem);
    let mut at = Cluster::here(problem, true);
    let mut ring = Ring::<E, K, VECTORS, ALIGNED>::begin(problem, at);
    if Ring::<E, K, VECTORS, ALIGNED>::SUMS_AHEAD {
        sum_ahead(problem, scale, at, ring);
        return;
    }
    while at.dealt_row() < problem.rows {
        let row = LongRow::of::<K, VECTORS>(problem, at, at.dealt_row());
        let masks = SharedMasks::NONE;
        two_passes::<E, K, Cluster, _, VECTORS, ALIGNED, _>(problem, &row, scale, &mut ring, masks);
        ring.next_row();
        at = at.next();
    }
}

/// The rows from `at`'s on, of which each one's sums are begun while the one before is written.
///
/// # Safety
/// As for [`forward_ring`], with a ring that has begun.
#[inline(always)]
unsafe fn sum_ahead<E: Element, K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
    problem: &SoftmaxForward,
    scale: Scale<E::Accumulator>,
    mut at: Cluster,
    mut ring: Ring<E, K, VECTORS, ALIGNED>,
) {
    // Nothing is read to find a row, of which there may be none.
    let row_at = |at: Cluster| LongRow::of::<K, VECTORS>(problem, at, at.dealt_row());
    let mut row = row_at(at);
    let mut begun = Summed::nothing(row.walk);
    let no_marks = [[0; 2]; VECTORS];
    while at.dealt_row() < problem.rows {
        at = at.next();
        let is_last = at.dealt_row() >= problem.rows;
        let next = row_at(at);
        let mut of_next = Summed::nothing(next.walk);
        let masks = SharedMasks::NONE;
        let of_row = first_pass::<E, K, Cluster, _, VECTORS, ALIGNED, _>(
            problem, &row, scale, &mut ring, masks, begun,
        );
        let between = |ring: &Ring<E, K, VECTORS, ALIGNED>| {
            if !is_last && of_next.is_at_full() && ring.has_of_next(of_next.seen()) {
                ring.wait_for_next(of_next.seen());
                let slot = ring.at_of_next(of_next.seen());
                of_next.add_full::<K, Cluster, VECTORS, ALIGNED>(
                    problem, &next, scale, slot, no_marks,
                );
            }
        };
        second_pass::<E, K, Cluster, _, VECTORS, ALIGNED>(
            problem, &row, scale, &mut ring, of_row, between,
        );
        ring.next_row();
        (row, begun) = (next, of_next);
    }
}
