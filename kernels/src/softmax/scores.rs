//! The scores of what a thread holds of a row: their statistics, and their exponentials.

use super::{
    mask::{self, MaskKind},
    problem::SoftmaxForward,
    row::{Held, Stored, Stretch},
    scale::Scale,
};
use crate::{
    numbers::{Accumulator, Element},
    reduction::Statistics,
};
use cuda_std::{global, hint};

impl<E: Element> Stretch<E> {
    /// The scores of the `v`-th vector that is held: scaled, -inf where nothing is visible.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub(super) unsafe fn scores<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        held: &Held<E, VECTORS>,
        v: usize,
        column: i32,
    ) -> E::Lanes {
        let mut lanes = E::unpack(held.vectors[v]);
        if !K::ADDITIVE || self.additive.is_null() || !self.is_read::<ALIGNED>(column) {
            return lanes;
        }
        let additive = mask::load_additive::<E, ALIGNED>(problem, self.additive, column);
        unroll!(lane in E::LANES => {
            lanes[lane] = with_additive(lanes[lane], scale, additive[lane]);
        });
        lanes
    }

    /// The score of the `i`-th edge element that is held.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub(super) unsafe fn edge_score<K: MaskKind, const VECTORS: usize>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        held: &Held<E, VECTORS>,
        i: usize,
        column: i32,
    ) -> E::Accumulator {
        let (start, end) = self.visible;
        if K::ADDITIVE && !self.additive.is_null() && column >= start && column < end {
            let additive = mask::additive_element::<E>(problem, self.additive, column);
            return with_additive(held.edges[i], scale, additive);
        }
        held.edges[i]
    }

    /// Adds what this thread holds to the statistics of what it has seen (online softmax).
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn accumulate<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        held: &Held<E, VECTORS>,
        mut seen: Statistics<E::Accumulator>,
    ) -> Statistics<E::Accumulator> {
        // Inputs are scores: their maximum can be found before they are unpacked; unless registers are
        // short, as where three blocks of many vectors share a multiprocessor.
        let max_first = !K::ADDITIVE && E::LANES > 2 && (VECTORS <= 4 || K::RANGE);
        if max_first {
            let mut max = held.vectors[0];
            if K::SKIPS {
                max = E::replace(max, [!0; 2], E::Accumulator::NEG_INFINITY);
            }
            unroll!(v in VECTORS => {
                if !K::SKIPS || self.is_slab_visible(v) {
                    max = E::max(max, held.vectors[v]);
                }
            });
            seen = seen.raised_to(seen.max.max(max_lane::<E>(max)), scale.coefficient);
        }
        unroll!(v in VECTORS => {
            if !K::SKIPS || self.is_slab_visible(v) {
                let column = self.column(v);
                let scores =
                    self.scores::<K, VECTORS, ALIGNED>(problem, scale, held, v, column);
                if !max_first {
                    let mut max = seen.max;
                    unroll!(lane in E::LANES => {
                        max = max.max(scores[lane]);
                    });
                    seen = seen.raised_to(max, scale.coefficient);
                }
                let reference = seen.reference();
                unroll!(lane in E::LANES => {
                    seen.sum = seen.sum + scale.exponential(scores[lane], reference);
                });
            }
        });
        if !ALIGNED {
            let edges = self.edge_columns();
            unroll!(i in 2 => {
                let score = self.edge_score::<K, VECTORS>(problem, scale, held, i, edges[i]);
                seen = seen.raised_to(seen.max.max(score), scale.coefficient);
                seen.sum = seen.sum + scale.exponential(score, seen.reference());
            });
        }
        seen
    }

    /// Stores zeros in the threads' vectors of which none is visible. They depend on nothing: so they
    /// are on their way while the row is still loading.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn store_unseen<const VECTORS: usize, const ALIGNED: bool>(&self, y: *mut E) {
        let on_grid = ALIGNED || self.is_on_grid(y);
        unroll!(v in VECTORS => {
            let column = self.column(v);
            if !self.is_slab_visible(v) && self.is_whole::<ALIGNED>(column) {
                let zeros = E::splat(E::Accumulator::ZERO);
                store_vector::<E>(y.offset(column as isize), on_grid, zeros);
            }
        });
    }

    /// Stores a value over all columns of the stretch, which in the output begin at `y`. A `full_length`
    /// stretch has no edges, and of no thread a vector that is not whole.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn store_constant<const VECTORS: usize, const ALIGNED: bool>(
        &self,
        y: *mut E,
        value: E::Accumulator,
        full_length: bool,
    ) {
        let on_grid = ALIGNED || self.is_on_grid(y);
        unroll!(v in VECTORS => {
            let column = self.column(v);
            if full_length || self.is_whole::<ALIGNED>(column) {
                store_vector::<E>(y.offset(column as isize), on_grid, E::splat(value));
            }
        });
        if !ALIGNED && !full_length {
            let edges = self.edge_columns();
            unroll!(i in 2 => {
                if edges[i] >= 0 {
                    E::store(y.offset(edges[i] as isize), E::narrow(value));
                }
            });
        }
    }

    /// Stores the probabilities of what this thread holds: exponentials relative to `reference`,
    /// times `factor`, in the columns of `stored`; in the output the stretch begins at `y`.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn store<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        mut self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        mut held: Held<E, VECTORS>,
        y: *mut E,
        (reference, factor): (E::Accumulator, E::Accumulator),
        stored: Stored,
    ) {
        let y_aligned = ALIGNED || self.is_on_grid(y);
        // The factor as an exponent, where its rounding does not show.
        let bias = factor.log_base();
        // Addresses and scores are computed anew: held since the sum was, they would take more
        // registers than there are.
        self.thread = hint::opaque(self.thread);
        unroll!(v in VECTORS => {
            held.vectors[v] = hint::opaque(held.vectors[v]);
        });
        unroll!(v in VECTORS => {
            let column = self.column(v);
            let seen = !K::SKIPS || self.is_slab_visible(v);
            let is_stored = stored == Stored::Full
                || self.is_whole::<ALIGNED>(column) && (seen || stored == Stored::Whole);
            if is_stored {
                // What is invisible is 0, or NaN where the row is.
                let mut lanes = E::splat(E::Accumulator::ZERO * factor);
                if seen {
                    lanes = self.scores::<K, VECTORS, ALIGNED>(problem, scale, &held, v, column);
                    unroll!(lane in E::LANES => {
                        lanes[lane] = if E::FOLDS {
                            scale.biased_exponential(lanes[lane], reference, bias)
                        } else {
                            scale.exponential(lanes[lane], reference) * factor
                        };
                    });
                }
                store_vector::<E>(y.offset(column as isize), y_aligned, lanes);
            }
        });
        if !ALIGNED && stored != Stored::Full {
            let edges = self.edge_columns();
            unroll!(i in 2 => {
                let column = edges[i];
                if column >= 0 {
                    let score = self.edge_score::<K, VECTORS>(problem, scale, &held, i, column);
                    let probability = scale.exponential(score, reference) * factor;
                    E::store(y.offset(column as isize), E::narrow(probability));
                }
            });
        }
    }
}

/// The largest lane. NaN is passed over.
#[inline(always)]
pub(super) fn max_lane<E: Element>(vector: E::Vector) -> E::Accumulator {
    let lanes = E::unpack(vector);
    let mut max = lanes[0];
    unroll!(lane in E::LANES => {
        max = max.max(lanes[lane]);
    });
    max
}

/// Stores a vector of an output; element by element unless it is on the 16-byte grid.
///
/// # Safety
/// `to` must be valid for the vector, and aligned to it if `on_grid`.
#[inline(always)]
pub(super) unsafe fn store_vector<E: Element>(to: *mut E, on_grid: bool, lanes: E::Lanes) {
    if on_grid {
        global::store(to.cast::<E::Vector>(), E::pack(lanes));
    } else {
        unroll!(lane in E::LANES => {
            E::store(to.add(lane), E::narrow(lanes[lane]));
        });
    }
}

/// The score of an input with an additive mask, rounded once: product and mask may be far larger
/// than their sum. What is hidden stays hidden, whatever garbage its mask holds.
#[inline(always)]
fn with_additive<A: Accumulator>(input: A, scale: Scale<A>, additive: A) -> A {
    if input == scale.hidden { A::NEG_INFINITY } else { input.mul_add(scale.factor, additive) }
}
