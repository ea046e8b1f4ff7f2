//! Stretches of a row that are kept in shared memory: copied there in bulk, taken, taken again.

use super::{
    mask::MaskKind,
    problem::SoftmaxForward,
    row::{Held, HiddenMarks, Stretch, hidden_vector},
    scale::Scale,
};
use crate::numbers::{Accumulator, Element};
use cuda_std::{bulk_copy, cache::Policy, shared};

impl<E: Element> Stretch<E> {
    /// Begins to copy the vectors that may be visible of a tensor whose column 0 is at `from`, to
    /// shared memory at `to`, and to report to `barrier`. Returns the bytes.
    ///
    /// # Safety
    /// As for [`Stretch::of`] and [`bulk_copy::load`]; the tensor lies on the same 16-byte grid
    /// as x.
    #[inline(always)]
    pub unsafe fn copy(&self, from: *const E, to: u32, barrier: u32) -> u32 {
        let (first, columns) = self.range_read();
        let size = size_of::<E>() as u32;
        let bytes = columns as u32 * size;
        if bytes > 0 {
            let to = to + (first + self.lead) as u32 * size;
            let from = from.offset(first as isize).cast();
            bulk_copy::load(to, from, bytes, barrier, Policy::evict_last());
        }
        bytes
    }

    /// [`Stretch::load`] from shared memory at `at`, where [`Stretch::copy`] has put the vectors;
    /// all of them, if the stretch is `full`; `marks` is what [`Stretch::marks`] gave. What is
    /// hidden is hidden there, too, so that [`Stretch::take_again`] need not look at masks.
    ///
    /// # Safety
    /// As for [`Stretch::of`]; the copy has been waited for.
    #[inline(always)]
    pub unsafe fn take<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        at: u32,
        marks: HiddenMarks<VECTORS>,
        full: bool,
    ) -> Held<E, VECTORS> {
        let mut held = self.held::<VECTORS, ALIGNED>(scale, at, full);
        self.hide::<K, VECTORS, ALIGNED>(problem, scale, &mut held, marks, full);
        let masks = K::BYTES && !self.bytes.is_null();
        if masks || scale.prescales || !full && !self.is_all_visible::<VECTORS>() {
            unroll!(v in VECTORS => {
                // Of a range, only what it ends in has changed.
                let changed = masks || scale.prescales || !K::SKIPS || self.is_slab_at_end(v);
                if changed && (full || self.is_read::<ALIGNED>(self.column(v))) {
                    shared::store(self.slot(at, v), held.vectors[v]);
                }
            });
        }
        held
    }

    /// What [`Stretch::take`] gave before.
    ///
    /// # Safety
    /// As for [`Stretch::take`], which the same thread has called.
    #[inline(always)]
    pub unsafe fn take_again<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        at: u32,
        full: bool,
    ) -> Held<E, VECTORS> {
        let mut held = self.held::<VECTORS, ALIGNED>(scale, at, full);
        if !ALIGNED && !full {
            self.load_edges::<K, VECTORS>(problem, scale, &mut held);
        }
        held
    }

    /// [`Stretch::load_gradient`] from shared memory at `at`, where [`Stretch::copy`] has put the
    /// vectors, all of them if the stretch is `full`; the edges from global memory.
    ///
    /// # Safety
    /// As for [`Stretch::of`]; the copy has been waited for.
    #[inline(always)]
    pub unsafe fn take_gradient<const VECTORS: usize, const ALIGNED: bool>(
        &self,
        from: *const E,
        at: u32,
        full: bool,
    ) -> Held<E, VECTORS> {
        let vectors = self.take_vectors::<VECTORS, ALIGNED>(at, E::ZERO_VECTOR, full);
        let mut edges = [E::Accumulator::ZERO; 2];
        if !full {
            edges = self.load_gradient_edges::<ALIGNED>(from);
        }
        Held { vectors, edges }
    }

    /// What was copied to shared memory at `at`. The rest is hidden, as edges are.
    #[inline(always)]
    unsafe fn held<const VECTORS: usize, const ALIGNED: bool>(
        &self,
        scale: Scale<E::Accumulator>,
        at: u32,
        full: bool,
    ) -> Held<E, VECTORS> {
        let hidden = hidden_vector::<E>(scale);
        let vectors = self.take_vectors::<VECTORS, ALIGNED>(at, hidden, full);
        Held { vectors, edges: [scale.hidden; 2] }
    }

    /// The vectors that were copied to shared memory at `at`, `otherwise` in place of others.
    ///
    /// # Safety
    /// The copy has been waited for.
    #[inline(always)]
    unsafe fn take_vectors<const VECTORS: usize, const ALIGNED: bool>(
        &self,
        at: u32,
        otherwise: E::Vector,
        full: bool,
    ) -> [E::Vector; VECTORS] {
        let mut vectors = [otherwise; VECTORS];
        // Of most stretches all vectors are there: then nothing needs to be asked of each.
        if full {
            unroll!(v in VECTORS => {
                vectors[v] = shared::load(self.slot(at, v));
            });
        } else {
            unroll!(v in VECTORS => {
                if self.is_read::<ALIGNED>(self.column(v)) {
                    vectors[v] = shared::load(self.slot(at, v));
                }
            });
        }
        vectors
    }

    /// The address of this thread's `v`-th vector in the slot at `at`.
    #[inline(always)]
    fn slot(&self, at: u32, v: usize) -> u32 {
        at + 16 * (v as u32 * self.threads + self.thread)
    }
}
