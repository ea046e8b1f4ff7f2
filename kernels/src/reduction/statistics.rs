//! What is known of a part of a row, and how parts merge (the online softmax).
//!
//! Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), equation 4: with
//! m = max(m1, m2), the sums of two parts add up as s1 e^(m1 - m) + s2 e^(m2 - m).

use super::warp;
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
    /// Nothing seen yet.
    pub const EMPTY: Self = Statistics { max: A::NEG_INFINITY, sum: A::ZERO };

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

    /// Merges the parts held by each group of `lanes` neighbouring lanes of a warp.
    ///
    /// # Safety
    /// All lanes of the warp must call together, with the same `lanes`: a power of two up to 32.
    #[inline(always)]
    pub unsafe fn merge_lanes(self, coefficient: A, lanes: u32) -> Self {
        let max = warp::reduce_max(self.max, lanes);
        let Statistics { max, sum } = self.raised_to(max, coefficient);
        Statistics { max, sum: warp::reduce_sum(sum, lanes) }
    }
}

/// `max`, or 0 where nothing is visible.
#[inline(always)]
pub fn reference<A: Accumulator>(max: A) -> A {
    if max == A::NEG_INFINITY { A::ZERO } else { max }
}
