//! A row that is too long for registers: its threads walk over it in stretches.

use super::{
    mask::{MaskKind, RowMask},
    problem::{RowOffsets, SoftmaxBackward, SoftmaxForward, gradient_offset},
    row::{MaskBytes, Stretch, lead, x_of_row},
    row_threads::RowThreads,
    walk::Walk,
};
use crate::numbers::Element;
use core::marker::PhantomData;
use cuda_std::{
    hint,
    thread::{block_dim_x, thread_idx_x},
};

/// A row, as one of its threads sees it. It is cut into stretches of VECTORS vectors a thread of a
/// block. 64-bit columns between stretches, 32-bit within.
#[derive(Clone, Copy)]
pub struct LongRow<'a, E, T, const ALIGNED: bool> {
    problem: &'a SoftmaxForward,
    /// The thread's place among those of the row.
    pub at: T,
    /// The row's number.
    pub row: u32,
    /// The thread's number in its block.
    thread: u32,
    offsets: RowOffsets,
    /// What hides parts of the row.
    pub mask: RowMask,
    /// The block's stretches from the first on.
    pub walk: Walk,
    element: PhantomData<E>,
}

impl<'a, E: Element, T: RowThreads, const ALIGNED: bool> LongRow<'a, E, T, ALIGNED> {
    /// The calling thread's row.
    ///
    /// # Safety
    /// As for [`RowThreads::here`]; the problem's tensors must be valid for the row, and with
    /// `ALIGNED` on the 16-byte grid.
    #[inline(always)]
    pub unsafe fn here<K: MaskKind, const VECTORS: usize>(problem: &'a SoftmaxForward) -> Self {
        let at = T::here(problem, false);
        Self::of::<K, VECTORS>(problem, at, at.row())
    }

    /// The row numbered `row`, on which the calling thread has the place `at`.
    ///
    /// # Safety
    /// As for [`LongRow::here`], but for [`RowThreads::here`].
    #[inline(always)]
    pub unsafe fn of<K: MaskKind, const VECTORS: usize>(
        problem: &'a SoftmaxForward,
        at: T,
        row: u32,
    ) -> Self {
        let offsets = RowOffsets::of(problem, row);
        let mask = RowMask::of::<K, E>(problem, &offsets);
        let lead = if ALIGNED { 0 } else { lead(x_of_row::<E>(problem, &offsets)) };
        let length = (block_dim_x() as usize * VECTORS * E::LANES) as i64;
        let visible = (mask.start, mask.end);
        let walk = Walk::of(at.block(), length, lead, problem.columns as i64, visible);
        let thread = thread_idx_x();
        LongRow { problem, at, row, thread, offsets, mask, walk, element: PhantomData }
    }

    /// The next of the rows that the row's threads take in turn. Both begin on the 16-byte grid.
    #[inline(always)]
    pub fn next_in_turn(mut self) -> Self {
        self.at = self.at.next();
        self.row += 1;
        // What follows from it is found anew: held from row to row, it would take more registers than
        // there are.
        self.thread = hint::opaque(self.thread);
        self.offsets.x += self.problem.dimensions[0].x;
        self
    }

    /// The stretch that `walk` has come to.
    ///
    /// # Safety
    /// The problem's tensors must be valid for the row.
    #[inline(always)]
    pub unsafe fn stretch(&self, walk: Walk) -> Stretch<E> {
        let (begin, length) = (walk.begin(), walk.length());
        let place = (self.thread, block_dim_x());
        Stretch::of::<ALIGNED>(self.problem, &self.offsets, &self.mask, place, begin, length)
    }

    /// Begins to copy x's stretch that `walk` has come to, to shared memory at `to`, and to report to
    /// `barrier`. Returns the bytes.
    ///
    /// # Safety
    /// As for [`Stretch::copy`].
    #[inline(always)]
    pub unsafe fn copy(&self, walk: Walk, to: u32, barrier: u32) -> u32 {
        let stretch = self.stretch(walk);
        stretch.copy(stretch.x_at(0), to, barrier)
    }

    /// The byte mask of the stretch that `walk` has come to, if that is full.
    ///
    /// # Safety
    /// As for [`LongRow::stretch`].
    #[inline(always)]
    pub unsafe fn bytes_of_full<K: MaskKind, const VECTORS: usize>(
        &self,
        walk: Walk,
    ) -> MaskBytes<VECTORS> {
        if K::BYTES && walk.is_full() {
            self.stretch(walk).load_bytes::<K, VECTORS, ALIGNED>(true)
        } else {
            [[0; 2]; VECTORS]
        }
    }

    /// Where the row's gradient begins, and whether that lies on the 16-byte grid where x does.
    ///
    /// # Safety
    /// `problem` has this row's problem, and its gradient must be valid for the row.
    #[inline(always)]
    pub unsafe fn gradient(&self, problem: &SoftmaxBackward) -> (*const E, bool) {
        let gradient = problem.gradient.cast::<E>();
        let gradient = gradient.offset(gradient_offset(problem, self.row) as isize);
        let x = x_of_row::<E>(self.problem, &self.offsets);
        let distance = x.addr().wrapping_sub(gradient.addr());
        (gradient, ALIGNED || distance.is_multiple_of(16))
    }
}
