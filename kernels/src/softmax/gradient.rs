//! The gradients of what a thread holds of a row: their weighted sum, and what becomes of them.
//!
//! With probabilities P and their gradients dP, `dX = scale * P (dP - sum_j P_j dP_j)`. Where P is
//! exactly 0 nothing flows: dP counts as 0 there, whatever it holds.

use super::{
    mask::{MaskKind, Ranged},
    problem::SoftmaxForward,
    row::{Held, Stretch, outside},
    scale::Scale,
    scores::store_vector,
};
use crate::{
    numbers::{Accumulator, Element},
    reduction::{Part, Statistics, Sum, WeightedStatistics},
};
use cuda_std::hint;

/// What the forward left behind, of which P is made.
pub trait Saved: Copy + 'static {
    /// The masks that still hide something.
    type Mask: MaskKind;
    /// What a thread sums up.
    type Sums<A: Accumulator>: Part<Number = A>;
    /// Scores, of which P is computed anew. Else P itself.
    const SCORES: bool;

    /// How a score becomes a weight.
    ///
    /// # Safety
    /// As for [`Scale::of`].
    unsafe fn scale<E: Element>(problem: &SoftmaxForward) -> Scale<E::Accumulator>;
    /// Sums of which the maximum is at least `max`.
    fn raised_to<A: Accumulator>(sums: Self::Sums<A>, max: A, coefficient: A) -> Self::Sums<A>;
    /// The maximum so far.
    fn max<A: Accumulator>(sums: Self::Sums<A>) -> A;
    /// Adds a weight and its gradient.
    fn add<A: Accumulator>(sums: Self::Sums<A>, weight: A, gradient: A) -> Self::Sums<A>;
    /// What the second pass needs of the sums of a whole row.
    fn row<A: Accumulator>(sums: Self::Sums<A>) -> RowGradient<A>;
}

/// P is stored. Its masks hide by its being 0; only the visible range is still of use.
#[derive(Clone, Copy)]
pub struct Probabilities;

/// The forward's input is stored, and P computed from it as the forward does, under the same
/// masks.
#[derive(Clone, Copy)]
pub struct Scores<K>(K);

/// What is known of a whole row.
#[derive(Clone, Copy)]
pub struct RowGradient<A> {
    /// What weights are relative to.
    reference: A,
    /// What a weight is multiplied by to become a probability.
    factor: A,
    /// `sum_j P_j dP_j`.
    mean: A,
}

impl Saved for Probabilities {
    type Mask = Ranged;
    type Sums<A: Accumulator> = Sum<A>;
    const SCORES: bool = false;

    #[inline(always)]
    unsafe fn scale<E: Element>(problem: &SoftmaxForward) -> Scale<E::Accumulator> {
        Scale::of_probabilities(problem)
    }
    #[inline(always)]
    fn raised_to<A: Accumulator>(sums: Sum<A>, _: A, _: A) -> Sum<A> {
        sums
    }
    #[inline(always)]
    fn max<A: Accumulator>(_: Sum<A>) -> A {
        A::ZERO
    }
    #[inline(always)]
    fn add<A: Accumulator>(sums: Sum<A>, weight: A, gradient: A) -> Sum<A> {
        Sum(weight.mul_add(gradient, sums.0))
    }
    #[inline(always)]
    fn row<A: Accumulator>(sums: Sum<A>) -> RowGradient<A> {
        RowGradient { reference: A::ZERO, factor: A::ZERO, mean: sums.0 }
    }
}

impl<K: MaskKind> Saved for Scores<K> {
    type Mask = K;
    type Sums<A: Accumulator> = WeightedStatistics<A>;
    const SCORES: bool = true;

    #[inline(always)]
    unsafe fn scale<E: Element>(problem: &SoftmaxForward) -> Scale<E::Accumulator> {
        Scale::of::<K, E>(problem)
    }
    #[inline(always)]
    fn raised_to<A: Accumulator>(
        sums: WeightedStatistics<A>,
        max: A,
        coefficient: A,
    ) -> WeightedStatistics<A> {
        sums.raised_to(max, coefficient)
    }
    #[inline(always)]
    fn max<A: Accumulator>(sums: WeightedStatistics<A>) -> A {
        sums.scores.max
    }
    #[inline(always)]
    fn add<A: Accumulator>(
        sums: WeightedStatistics<A>,
        weight: A,
        gradient: A,
    ) -> WeightedStatistics<A> {
        let WeightedStatistics { scores: Statistics { max, sum }, weighted } = sums;
        WeightedStatistics {
            scores: Statistics { max, sum: sum + weight },
            weighted: weight.mul_add(gradient, weighted),
        }
    }
    #[inline(always)]
    fn row<A: Accumulator>(sums: WeightedStatistics<A>) -> RowGradient<A> {
        let Statistics { sum, .. } = sums.scores;
        let factor = if sum == A::ZERO { A::ZERO } else { sum.reciprocal() };
        RowGradient { reference: sums.scores.reference(), factor, mean: sums.weighted * factor }
    }
}

/// `gradient`, or 0 where the weight is 0.
#[inline(always)]
fn where_weighted<A: Accumulator>(weight: A, gradient: A) -> A {
    if weight == A::ZERO { A::ZERO } else { gradient }
}

impl<E: Element> Stretch<E> {
    /// Loads the gradients of what this thread holds, as far as it may be visible; the stretch's
    /// column 0 is at `from`, on x's grid if `on_grid`.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn load_gradient<const VECTORS: usize, const ALIGNED: bool>(
        &self,
        from: *const E,
        on_grid: bool,
    ) -> Held<E, VECTORS> {
        let mut held = Held {
            vectors: [E::ZERO_VECTOR; VECTORS],
            edges: self.load_gradient_edges::<ALIGNED>(from),
        };
        if ALIGNED || on_grid {
            held.vectors = self.load_vectors::<VECTORS, ALIGNED>(from, E::ZERO_VECTOR);
        } else {
            unroll!(v in VECTORS => {
                let column = self.column(v);
                if self.is_read::<ALIGNED>(column) {
                    let mut lanes = E::splat(E::Accumulator::ZERO);
                    unroll!(lane in E::LANES => {
                        lanes[lane] = E::load(from.offset(column as isize).add(lane)).widen();
                    });
                    held.vectors[v] = E::pack(lanes);
                }
            });
        }
        held
    }

    /// The gradients of this thread's edge elements.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn load_gradient_edges<const ALIGNED: bool>(
        &self,
        from: *const E,
    ) -> [E::Accumulator; 2] {
        let mut edges = [E::Accumulator::ZERO; 2];
        if !ALIGNED {
            let ((start, end), columns) = (self.visible, self.edge_columns());
            unroll!(i in 2 => {
                let column = columns[i];
                if column >= 0 && column >= start && column < end {
                    edges[i] = E::load(from.offset(column as isize)).widen();
                }
            });
        }
        edges
    }

    /// The scores of the `v`-th vector that is held, or its probabilities.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    unsafe fn scores_or_probabilities<S: Saved, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        held: &Held<E, VECTORS>,
        v: usize,
    ) -> E::Lanes {
        if S::SCORES {
            self.scores::<S::Mask, VECTORS, ALIGNED>(problem, scale, held, v, self.column(v))
        } else {
            E::unpack(held.vectors[v])
        }
    }

    /// As [`Stretch::scores_or_probabilities`], of the `i`-th edge element.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    unsafe fn edge_score_or_probability<S: Saved, const VECTORS: usize>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        held: &Held<E, VECTORS>,
        i: usize,
        column: i32,
    ) -> E::Accumulator {
        if S::SCORES {
            self.edge_score::<S::Mask, VECTORS>(problem, scale, held, i, column)
        } else {
            held.edges[i]
        }
    }

    /// Adds what this thread holds to the sums of what it has seen.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn accumulate_gradient<
        S: Saved,
        K: MaskKind,
        const VECTORS: usize,
        const ALIGNED: bool,
    >(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        held: &Held<E, VECTORS>,
        gradient: &Held<E, VECTORS>,
        mut seen: S::Sums<E::Accumulator>,
    ) -> S::Sums<E::Accumulator> {
        unroll!(v in VECTORS => {
            if !K::SKIPS || self.is_slab_visible(v) {
                let mut lanes =
                    self.scores_or_probabilities::<S, VECTORS, ALIGNED>(problem, scale, held, v);
                let gradients = E::unpack(gradient.vectors[v]);
                if S::SCORES {
                    let mut max = S::max(seen);
                    unroll!(lane in E::LANES => {
                        max = max.max(lanes[lane]);
                    });
                    seen = S::raised_to(seen, max, scale.coefficient);
                    let reference = Statistics { max, sum: max }.reference();
                    unroll!(lane in E::LANES => {
                        lanes[lane] = scale.exponential(lanes[lane], reference);
                    });
                }
                unroll!(lane in E::LANES => {
                    seen = S::add(seen, lanes[lane], where_weighted(lanes[lane], gradients[lane]));
                });
            }
        });
        if !ALIGNED {
            let edges = self.edge_columns();
            unroll!(i in 2 => {
                let mut weight = self
                    .edge_score_or_probability::<S, VECTORS>(problem, scale, held, i, edges[i]);
                if S::SCORES {
                    let max = S::max(seen).max(weight);
                    seen = S::raised_to(seen, max, scale.coefficient);
                    weight = scale.exponential(weight, Statistics { max, sum: max }.reference());
                }
                seen = S::add(seen, weight, where_weighted(weight, gradient.edges[i]));
            });
        }
        seen
    }

    /// Stores dX of what this thread holds, over all columns of the stretch, which in the output
    /// begin at `dx`. In a `full` stretch all vectors are whole and visible.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[expect(clippy::too_many_arguments, reason = "two inputs, and what is known of the row")]
    #[inline(always)]
    pub unsafe fn store_gradient<S: Saved, const VECTORS: usize, const ALIGNED: bool>(
        mut self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        mut held: Held<E, VECTORS>,
        mut gradient: Held<E, VECTORS>,
        dx: *mut E,
        of_row: RowGradient<E::Accumulator>,
        full: bool,
    ) {
        let on_grid = ALIGNED || self.is_on_grid(dx);
        let (start, end) = self.visible;
        // Computed anew, as in the forward, to save registers.
        self.thread = hint::opaque(self.thread);
        unroll!(v in VECTORS => {
            held.vectors[v] = hint::opaque(held.vectors[v]);
            gradient.vectors[v] = hint::opaque(gradient.vectors[v]);
        });
        let back = |weight: E::Accumulator, gradient: E::Accumulator| {
            let difference = where_weighted(weight, gradient) - of_row.mean;
            let factor = if S::SCORES { of_row.factor * scale.given } else { scale.given };
            weight * difference * factor
        };
        unroll!(v in VECTORS => {
            let column = self.column(v);
            if full || self.is_whole::<ALIGNED>(column) {
                let mut lanes =
                    self.scores_or_probabilities::<S, VECTORS, ALIGNED>(problem, scale, &held, v);
                let gradients = E::unpack(gradient.vectors[v]);
                unroll!(lane in E::LANES => {
                    let weight = if S::SCORES {
                        scale.exponential(lanes[lane], of_row.reference)
                    } else {
                        lanes[lane]
                    };
                    lanes[lane] = back(weight, gradients[lane]);
                });
                // What is invisible is 0 even where the row is NaN.
                if !full && (column < start || column + E::LANES as i32 > end) {
                    let hidden = outside::<E>(column, start, end);
                    unroll!(lane in E::LANES => {
                        if hidden >> lane & 1 != 0 {
                            lanes[lane] = E::Accumulator::ZERO;
                        }
                    });
                }
                store_vector::<E>(dx.offset(column as isize), on_grid, lanes);
            }
        });
        if !ALIGNED && !full {
            let edges = self.edge_columns();
            unroll!(i in 2 => {
                let column = edges[i];
                if column >= 0 {
                    let mut weight = self
                        .edge_score_or_probability::<S, VECTORS>(problem, scale, &held, i, column);
                    if S::SCORES {
                        weight = scale.exponential(weight, of_row.reference);
                    }
                    let is_visible = column >= start && column < end;
                    let gradient = back(weight, gradient.edges[i]);
                    let gradient = if is_visible { gradient } else { E::Accumulator::ZERO };
                    E::store(dx.offset(column as isize), E::narrow(gradient));
                }
            });
        }
    }
}
