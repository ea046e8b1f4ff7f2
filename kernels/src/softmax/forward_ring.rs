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
//! - Registers: a row that is longer than all slots stays in registers for another stretch, which is
//!   asked for in the L2 cache ahead. The rest is loaded again.
//! - In place: loads run ahead of stores by whole rows, so y may be x, of which rows do not overlap.
//! - Shared memory: [`super::ring::SLOTS`] bytes, and a slot of 16 VECTORS bytes a thread for as many
//!   stretches as fit: one block has a multiprocessor.
//! - Roofline: memory. x is read once if there are enough slots.

use super::{
    forward_staged::two_passes,
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
    while at.dealt_row() < problem.rows {
        let row = LongRow::of::<K, VECTORS>(problem, at, at.dealt_row());
        let masks = SharedMasks::NONE;
        two_passes::<E, K, Cluster, _, VECTORS, ALIGNED, _>(problem, &row, scale, &mut ring, masks);
        ring.next_row();
        at = at.next();
    }
}
