//! Masks that rows share which a block takes in turn: read once, kept as a bit for each element.

use super::{
    long_row::LongRow, mask::MaskKind, problem::SoftmaxForward, row::HiddenMarks,
    row_threads::RowThreads, stage::Stage,
};
use crate::{marks, numbers::Element};
use cuda_std::{
    shared,
    thread::{block_dim_x, thread_idx_x},
};

/// What byte masks hide of the full stretches that a block keeps, in shared memory: a byte for each
/// vector, which only the thread that holds the vector writes and reads. Without `KEPT` there is but one
/// turn, and nothing is kept.
#[derive(Clone, Copy)]
pub struct SharedMasks<const KEPT: bool> {
    at: u32,
}

impl SharedMasks<false> {
    /// Of one row.
    pub const NONE: Self = SharedMasks { at: 0 };
}

impl SharedMasks<true> {
    /// Reads those of `row`, to keep them in shared memory from `at` on, aligned to 4, where each of the
    /// stretches that `stage` keeps has 4 bytes a thread.
    ///
    /// # Safety
    /// The problem's tensors must be valid for the row, of up to four vectors a thread.
    #[inline(always)]
    pub unsafe fn read<
        E: Element,
        K: MaskKind,
        T: RowThreads,
        const VECTORS: usize,
        const ALIGNED: bool,
    >(
        problem: &SoftmaxForward,
        row: &LongRow<E, T, ALIGNED>,
        stage: &impl Stage,
        at: u32,
    ) -> Self {
        let masks = SharedMasks { at };
        let (mut walk, mut nth) = (row.walk, 0);
        // Two stretches are on their way while one is at work.
        let mut bytes = row.bytes_of_full::<K, VECTORS>(walk);
        let mut next = row.bytes_of_full::<K, VECTORS>(walk.next());
        while walk.is_on_row() && stage.keeps(nth) {
            let after = row.bytes_of_full::<K, VECTORS>(walk.next().next());
            if walk.is_full() {
                let marks = row.stretch(walk).marks::<K, VECTORS>(problem, bytes);
                let [bits, _] = marks::to_bits(marks);
                shared::store(masks.of_stretch(nth), bits);
            }
            nth += u32::from(walk.is_seen());
            (bytes, next, walk) = (next, after, walk.next());
        }
        masks
    }
}

impl<const KEPT: bool> SharedMasks<KEPT> {
    /// Where this thread's are of the `nth` stretch.
    #[inline(always)]
    fn of_stretch(self, nth: u32) -> u32 {
        self.at + 4 * (nth * block_dim_x() + thread_idx_x())
    }

    /// What is hidden of this thread's vectors in the `nth` stretch.
    ///
    /// # Safety
    /// It is full, and of up to four vectors a thread.
    #[inline(always)]
    pub unsafe fn recall<const VECTORS: usize>(self, nth: u32) -> HiddenMarks<VECTORS> {
        marks::from_bits([shared::load(self.of_stretch(nth)), 0])
    }
}
