//! What is known of a part of a row, and how parts merge (the online softmax).
//!
//! Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), equation 4: with
//! m = max(m1, m2), the sums of two parts add up as s1 e^(m1 - m) + s2 e^(m2 - m).

use super::{part::Part, warp};
use crate::numbers::Accumulator;

/// The maximum of a part of a row, and the sum of its exponentials relative to that maximum.
#[derive(Clone, Copy)]
pub struct Statistics<A> {
    /// The largest score; -inf where nothing is visible.
    pub max: A,
    /// Sum of base^((score - max) * coefficient).
    pub sum: A,
}

impl<A: Accumulator> Statistics<A> {
    /// The maximum as it is subtracted from scores: 0 where nothing is visible, so that a masked
    /// score minus it is -inf and never NaN.
    #[inline(always)]
    pub fn reference(self) -> A {
        reference(self.max)
    }

    /// What a sum relative to this part's maximum is multiplied by when it becomes part of a row
    /// whose maximum is `max`. `coefficient` turns a difference of scores into an exponent.
    #[inline(always)]
    pub fn rescale(self, max: A, coefficient: A) -> A {
        ((self.max - reference(max)) * coefficient).exp_base()
    }

    /// The same part, its sum relative to `max`, which is at least as large.
    #[inline(always)]
    pub fn raised_to(self, max: A, coefficient: A) -> Self {
        Statistics { max, sum: self.sum * self.rescale(max, coefficient) }
    }
}

impl<A: Accumulator> Part for Statistics<A> {
    type Number = A;
    const EMPTY: Self = Statistics { max: A::NEG_INFINITY, sum: A::ZERO };
    const NUMBERS: u32 = 2;

    #[inline(always)]
    unsafe fn merge_lanes(self, coefficient: A, lanes: u32) -> Self {
        let max = warp::reduce_max(self.max, lanes);
        let Statistics { max, sum } = self.raised_to(max, coefficient);
        Statistics { max, sum: warp::reduce_sum(sum, lanes) }
    }
    #[inline(always)]
    fn each(self, mut store: impl FnMut(u32, A)) {
        store(0, self.max);
        store(1, self.sum);
    }
    #[inline(always)]
    fn from_each(mut load: impl FnMut(u32) -> A) -> Self {
        Statistics { max: load(0), sum: load(1) }
    }
}

/// What the backward needs of a part of a row: its statistics, and the sum of the gradients
/// weighted by the same exponentials. Divided by the sum, that is `sum_j P_j dP_j`.
#[derive(Clone, Copy)]
pub struct WeightedStatistics<A> {
    /// Maximum and sum of the scores.
    pub scores: Statistics<A>,
    /// Sum of base^((score - max) * coefficient) * gradient.
    pub weighted: A,
}

impl<A: Accumulator> WeightedStatistics<A> {
    /// The same part, its sums relative to `max`, which is at least as large.
    #[inline(always)]
    pub fn raised_to(self, max: A, coefficient: A) -> Self {
        let factor = self.scores.rescale(max, coefficient);
        WeightedStatistics {
            scores: Statistics { max, sum: self.scores.sum * factor },
            weighted: self.weighted * factor,
        }
    }
}

impl<A: Accumulator> Part for WeightedStatistics<A> {
    type Number = A;
    const EMPTY: Self = WeightedStatistics { scores: Statistics::EMPTY, weighted: A::ZERO };
    const NUMBERS: u32 = 3;

    #[inline(always)]
    unsafe fn merge_lanes(self, coefficient: A, lanes: u32) -> Self {
        let max = warp::reduce_max(self.scores.max, lanes);
        let WeightedStatistics { scores, weighted } = self.raised_to(max, coefficient);
        WeightedStatistics {
            scores: Statistics { max, sum: warp::reduce_sum(scores.sum, lanes) },
            weighted: warp::reduce_sum(weighted, lanes),
        }
    }
    #[inline(always)]
    fn each(self, mut store: impl FnMut(u32, A)) {
        self.scores.each(&mut store);
        store(2, self.weighted);
    }
    #[inline(always)]
    fn from_each(mut load: impl FnMut(u32) -> A) -> Self {
        WeightedStatistics { scores: Statistics::from_each(&mut load), weighted: load(2) }
    }
}

/// A sum over a part of a row.
#[derive(Clone, Copy)]
pub struct Sum<A>(pub A);

impl<A: Accumulator> Part for Sum<A> {
    type Number = A;
    const EMPTY: Self = Sum(A::ZERO);
    const NUMBERS: u32 = 1;

    #[inline(always)]
    unsafe fn merge_lanes(self, _: A, lanes: u32) -> Self {
        Sum(warp::reduce_sum(self.0, lanes))
    }
    #[inline(always)]
    fn each(self, mut store: impl FnMut(u32, A)) {
        store(0, self.0);
    }
    #[inline(always)]
    fn from_each(mut load: impl FnMut(u32) -> A) -> Self {
        Sum(load(0))
    }
}

/// `max`, or 0 where nothing is visible.
#[inline(always)]
pub fn reference<A: Accumulator>(max: A) -> A {
    if max == A::NEG_INFINITY { A::ZERO } else { max }
}
