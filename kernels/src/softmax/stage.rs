//! Shared memory in which a block keeps the stretches of a row between its two passes.

use super::{
    mask::MaskKind,
    problem::SoftmaxForward,
    row::{Held, Stretch},
    scale::Scale,
    walk::Walk,
};
use crate::{numbers::Element, reduction};
use core::marker::PhantomData;
use cuda_std::{
    bulk_copy, fence, mbarrier, shared,
    thread::{sync_threads, thread_idx_x},
};

/// Stretches that a block can keep, at most: each has a barrier.
pub const MAX_SLOTS: u32 = 32;

/// Where the barriers begin in shared memory, behind what the reductions use.
const BARRIERS: u32 = reduction::cluster::SHARED_BYTES;

/// Where the slots begin in shared memory.
pub const SLOTS: u32 = (BARRIERS + 8 * MAX_SLOTS).next_multiple_of(128);

/// Whether a kernel keeps stretches at all.
pub trait Stage: Copy + 'static {
    /// It does.
    const KEEPS: bool;
}

/// Every stretch is loaded twice.
#[derive(Clone, Copy)]
pub struct Unstaged;

/// Stretches are kept as long as there are slots; what does not fit is loaded twice. From sm_90.
#[derive(Clone, Copy)]
pub struct Staged;

impl Stage for Unstaged {
    const KEEPS: bool = false;
}
impl Stage for Staged {
    const KEEPS: bool = true;
}

/// A block's slots, each of which holds a stretch of one tensor or of several.
#[derive(Clone, Copy)]
pub struct Slots<G> {
    count: u32,
    bytes: u32,
    stage: PhantomData<G>,
}

impl<G: Stage> Slots<G> {
    /// As many slots as the problem says, of `bytes` bytes.
    #[inline(always)]
    pub fn of(problem: &SoftmaxForward, bytes: u32) -> Self {
        Slots { count: problem.slots, bytes, stage: PhantomData }
    }

    /// Is the stretch that is the `slot`-th with anything visible kept?
    #[inline(always)]
    pub fn keeps(self, slot: u32) -> bool {
        G::KEEPS && slot < self.count
    }

    /// The slot's address.
    #[inline(always)]
    pub fn at(self, slot: u32) -> u32 {
        shared::dynamic() + SLOTS + slot * self.bytes
    }

    #[inline(always)]
    fn barrier(self, slot: u32) -> u32 {
        shared::dynamic() + BARRIERS + 8 * slot
    }

    /// One thread begins to fill the slots with the stretches along `walk` that meet `visible`:
    /// `copies` gets each, its slot, and the slot's barrier, and returns the bytes it copies.
    ///
    /// # Safety
    /// All threads of the block must call together, once; shared memory holds the slots.
    #[inline(always)]
    pub unsafe fn fill(
        self,
        mut walk: Walk,
        visible: (i64, i64),
        expect: impl Fn(Walk) -> u32,
        copy: impl Fn(Walk, u32, u32),
    ) {
        if !G::KEEPS {
            return;
        }
        if thread_idx_x() == 0 {
            let mut slot = 0;
            while slot < self.count {
                mbarrier::init(self.barrier(slot), 1);
                slot += 1;
            }
            fence::proxy_async();
            slot = 0;
            while slot < self.count && walk.is_on_row() {
                if walk.meets(visible.0, visible.1) {
                    mbarrier::arrive_expect_tx(self.barrier(slot), expect(walk));
                    copy(walk, self.at(slot), self.barrier(slot));
                    slot += 1;
                }
                walk = walk.next();
            }
        }
        // The barriers exist for all from here on.
        sync_threads();
    }

    /// Waits until the slot is filled.
    ///
    /// # Safety
    /// A stretch was copied there by [`Slots::fill`].
    #[inline(always)]
    pub unsafe fn wait(self, slot: u32) {
        mbarrier::wait(self.barrier(slot), 0);
    }
}

impl<E: Element> Stretch<E> {
    /// Bytes that [`Stretch::copy`] copies.
    #[inline(always)]
    pub fn copied_bytes(&self) -> u32 {
        self.range_read().1 as u32 * size_of::<E>() as u32
    }

    /// Begins to copy the vectors that may be visible of a tensor whose column 0 is at `from`, to
    /// shared memory at `to`, and to report to `barrier`.
    ///
    /// # Safety
    /// As for [`Stretch::of`] and [`bulk_copy::load`]; the tensor lies on the same 16-byte grid
    /// as x.
    #[inline(always)]
    pub unsafe fn copy(&self, from: *const E, to: u32, barrier: u32) {
        let (first, bytes) = (self.range_read().0, self.copied_bytes());
        if bytes > 0 {
            let to = to + (first + self.lead) as u32 * size_of::<E>() as u32;
            bulk_copy::load(to, from.offset(first as isize).cast(), bytes, barrier);
        }
    }

    /// [`Stretch::load`] from shared memory at `at`, where [`Stretch::copy`] has put the vectors.
    /// What is hidden is hidden there, too, so that [`Stretch::take_again`] need not look at
    /// masks.
    ///
    /// # Safety
    /// As for [`Stretch::of`]; the copy has been waited for.
    #[inline(always)]
    pub unsafe fn take<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        at: u32,
    ) -> Held<E, VECTORS> {
        let mut held = self.held::<VECTORS, ALIGNED>(scale, at);
        self.hide::<K, VECTORS, ALIGNED>(problem, scale, &mut held);
        if K::BYTES || scale.is_special || !self.is_all_visible::<VECTORS>() {
            unroll!(v in VECTORS => {
                if self.is_read::<ALIGNED>(self.column(v)) {
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
    ) -> Held<E, VECTORS> {
        let mut held = self.held::<VECTORS, ALIGNED>(scale, at);
        if !ALIGNED {
            self.load_edges::<K, VECTORS>(problem, scale, &mut held);
        }
        held
    }

    /// [`Stretch::load_gradient`] from shared memory at `at`, where [`Stretch::copy`] has put the
    /// vectors; the edges from global memory.
    ///
    /// # Safety
    /// As for [`Stretch::of`]; the copy has been waited for.
    #[inline(always)]
    pub unsafe fn take_gradient<const VECTORS: usize, const ALIGNED: bool>(
        &self,
        from: *const E,
        at: u32,
    ) -> Held<E, VECTORS> {
        Held {
            vectors: self.take_vectors::<VECTORS, ALIGNED>(at, E::ZERO_VECTOR),
            edges: self.load_gradient_edges::<ALIGNED>(from),
        }
    }

    /// What was copied to shared memory at `at`. The rest is hidden, as edges are.
    #[inline(always)]
    unsafe fn held<const VECTORS: usize, const ALIGNED: bool>(
        &self,
        scale: Scale<E::Accumulator>,
        at: u32,
    ) -> Held<E, VECTORS> {
        let hidden = E::replace(E::ZERO_VECTOR, !0, scale.hidden);
        let vectors = self.take_vectors::<VECTORS, ALIGNED>(at, hidden);
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
    ) -> [E::Vector; VECTORS] {
        let mut vectors = [otherwise; VECTORS];
        unroll!(v in VECTORS => {
            if self.is_read::<ALIGNED>(self.column(v)) {
                vectors[v] = shared::load(self.slot(at, v));
            }
        });
        vectors
    }

    /// The address of this thread's `v`-th vector in the slot at `at`.
    #[inline(always)]
    fn slot(&self, at: u32, v: usize) -> u32 {
        at + 16 * (v as u32 * self.threads + self.thread)
    }
}
