//! Softmax of rows whose scores come a block of keys at a time.
//!
//! A warp's rows are 16 for each fragment; a lane has elements of rows `lane / 4` and
//! `lane / 4 + 8` of each, as the fragments of matrix products have them. Sums are a lane's own
//! until the end, maxima those of the whole row.

use super::row_elements::RowElements;
use cuda_std::{
    hint, math,
    warp::{self, FULL_MASK},
};

/// A fragment of 16 x 8 accumulators: elements 0 and 1 of the first row, 2 and 3 of the second.
pub type Fragment = [f32; 4];

/// Exponents may grow by so much before everything is rescaled to a new maximum. Probabilities
/// relative to the old one are then at most 2^8, which is far from the limits of f16, and as exact.
const LAG: f32 = 8.0;

/// References whose exponents are at most this large are subtracted in the same multiply-add that scales
/// a score: the rounding of their product moves exponents by less than 2^-3, those of all blocks alike.
/// Beyond, where products may overflow, differences come first.
const NEAR: f32 = (1 << 20) as f32;

/// How scores become exponents of 2: `(score - maximum) * coefficient`.
#[derive(Clone, Copy)]
pub struct Exponents {
    /// What a difference of 1 between scores is in the exponents of e.
    pub unit: f32,
    /// The same in the exponents of 2. Positive.
    pub coefficient: f32,
}

/// What exponents of 2 are relative to: `score * coefficient - offset`, after the difference is taken.
#[derive(Clone, Copy)]
struct Reference {
    /// Subtracted from scores before they are scaled.
    difference: f32,
    /// Subtracted after that.
    offset: f32,
}

impl Reference {
    #[inline(always)]
    fn of(max: f32, coefficient: f32, is_far: bool) -> Self {
        match is_far {
            true => Reference { difference: max, offset: 0.0 },
            false => Reference { difference: 0.0, offset: max * coefficient },
        }
    }
}

/// What the output of rows whose reference has been raised is to be multiplied by.
#[derive(Clone, Copy)]
#[must_use = "exponentials of earlier blocks are relative to another reference"]
pub struct Rescaling<const M: usize> {
    /// Some row of the warp has a factor other than 1.
    is_needed: bool,
    /// Of each row.
    factors: [[f32; 2]; M],
}

impl<const M: usize> Rescaling<M> {
    /// None.
    pub const NONE: Self = Rescaling { is_needed: false, factors: [[1.0; 2]; M] };

    /// Rescales the output.
    #[inline(always)]
    pub fn apply(self, output: &mut [impl RowElements; M]) {
        if self.is_needed {
            unroll!(m in M, up to 2 => {
                unroll!(h in 2 => {
                    output[m].map_row(h, |_, element| element * self.factors[m][h]);
                });
            });
        }
    }
}

/// What is known of the rows so far: exponentials are relative to `reference`.
#[derive(Clone, Copy)]
pub struct OnlineSoftmax<const M: usize> {
    /// The maximum of each row, at some time; -inf as long as nothing is visible.
    max: [[f32; 2]; M],
    /// The lane's part of the sum of exponentials.
    sum: [[f32; 2]; M],
    /// Some reference of the warp's rows is beyond [`NEAR`].
    is_far: bool,
    /// What is subtracted from scaled scores that have been [brought near](Self::bring_near).
    offset: [[f32; 2]; M],
}

impl<const M: usize> OnlineSoftmax<M> {
    /// Of rows that have seen nothing.
    pub const EMPTY: Self = OnlineSoftmax {
        max: [[f32::NEG_INFINITY; 2]; M],
        sum: [[0.0; 2]; M],
        is_far: false,
        offset: [[0.0; 2]; M],
    };

    /// Takes in a block of scores, -inf where hidden, and leaves their exponentials in their place.
    /// The output, which has the exponentials of earlier blocks in it, is rescaled if need be.
    ///
    /// # Safety
    /// Convergent: the whole warp.
    #[inline(always)]
    pub unsafe fn take(
        &mut self,
        scores: &mut [impl RowElements; M],
        output: &mut [impl RowElements; M],
        exponents: Exponents,
    ) {
        self.raise(scores, exponents).apply(output);
        self.exponentiate(scores, exponents);
    }

    /// Takes in the maxima of a block of scores, -inf where hidden: how the output, which has the
    /// exponentials of earlier blocks in it, is to be rescaled.
    ///
    /// # Safety
    /// Convergent: the whole warp.
    #[inline(always)]
    pub unsafe fn raise(
        &mut self,
        scores: &[impl RowElements; M],
        exponents: Exponents,
    ) -> Rescaling<M> {
        let coefficient = exponents.coefficient;
        let mut max = self.max;
        let mut grows = false;
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                max[m][h] = row_max(&scores[m], h, max[m][h]);
                grows |= (max[m][h] - self.max[m][h]) * coefficient > LAG;
            });
        });
        let is_needed = warp::vote_any(FULL_MASK, grows);
        let mut rescaling = Rescaling { is_needed, factors: [[1.0; 2]; M] };
        if is_needed {
            let mut is_far = false;
            unroll!(m in M, up to 2 => {
                unroll!(h in 2 => {
                    is_far |= (finite(max[m][h]) * coefficient).abs() > NEAR;
                });
            });
            let is_far = warp::vote_any(FULL_MASK, is_far);
            unroll!(m in M, up to 2 => {
                unroll!(h in 2 => {
                    let to = Reference::of(finite(max[m][h]), coefficient, is_far);
                    let factor = self.factor(m, h, to, coefficient);
                    self.sum[m][h] *= factor;
                    self.offset[m][h] = to.offset;
                    rescaling.factors[m][h] = factor;
                });
            });
            self.max = max;
            self.is_far = is_far;
        }
        rescaling
    }

    /// Are exponentials of a block of scores to be relative to the references that there are, none of
    /// which is far from 0? Then only they remain to be [taken](Self::exponentiate_near).
    ///
    /// Maxima are those of the scores' bits as integers, of which there is an instruction for three.
    /// They order what is not negative as numbers are ordered, above all that is negative: where there is
    /// nothing else, 0 bounds it.
    ///
    /// # Safety
    /// Convergent: the whole warp.
    #[inline(always)]
    pub unsafe fn keeps_near(&self, scores: &[impl RowElements; M], exponents: Exponents) -> bool {
        let mut changes = self.is_far;
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let (reference, max) = (self.max[m][h], row_max_bits(&scores[m], h));
                let bound = f32::from_bits(max.max(0) as u32);
                let growth = bound.max(reference) - reference;
                changes |= growth * exponents.coefficient > LAG;
            });
        });
        !warp::vote_any(FULL_MASK, changes)
    }

    /// What exponentials relative to a row's reference are multiplied by to be relative to another: by 0,
    /// if the row has seen nothing.
    #[inline(always)]
    fn factor(&self, m: usize, h: usize, to: Reference, coefficient: f32) -> f32 {
        let from = Reference::of(self.max[m][h], coefficient, self.is_far);
        let difference = from.difference - to.difference;
        math::exp2(math::fma(difference, coefficient, from.offset - to.offset))
    }

    /// Takes in the sums of a block of scores whose maxima have been taken in, and leaves their
    /// exponentials in their place.
    #[inline(always)]
    fn exponentiate(&mut self, scores: &mut [impl RowElements; M], exponents: Exponents) {
        let coefficient = exponents.coefficient;
        self.bring_near(scores);
        let offsets = self.offsets(coefficient);
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let offset = offsets[m][h];
                self.sum[m][h] += exponentiate_row(&mut scores[m], h, coefficient, offset);
            });
        });
    }

    /// Subtracts references that are far from 0, but for their offset.
    #[inline(always)]
    pub fn bring_near(&self, scores: &mut [impl RowElements; M]) {
        if self.is_far {
            unroll!(m in M, up to 2 => {
                unroll!(h in 2 => {
                    let difference = finite(self.max[m][h]);
                    scores[m].map_row(h, |_, score| score - difference);
                });
            });
        }
    }

    /// The same of scores that [`Self::keeps_near`] tells of, or that have been [brought
    /// near](Self::bring_near): without a branch, and the rows alternately, so that the first exponentials
    /// begin before all exponents are computed.
    #[inline(always)]
    pub fn exponentiate_near(&mut self, scores: &mut [impl RowElements; M], exponents: Exponents) {
        let coefficient = exponents.coefficient;
        unroll!(m in M, up to 2 => {
            let mut sums = [[0.0; 2]; 2];
            scores[m].map(|h, i, score| {
                let exponential = math::exp2(math::fma(score, coefficient, -self.offset[m][h]));
                let sum = &mut sums[h][i % 2];
                *sum = if i < 2 { exponential } else { *sum + exponential };
                exponential
            });
            unroll!(h in 2 => {
                self.sum[m][h] += sums[h][0] + sums[h][1];
            });
        });
    }

    /// The offsets, computed anew: in a kernel that asks here they take no registers meanwhile.
    #[inline(always)]
    fn offsets(&self, coefficient: f32) -> [[f32; 2]; M] {
        let mut offsets = [[0.0; 2]; M];
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                offsets[m][h] = if self.is_far { 0.0 } else { finite(self.max[m][h]) * coefficient };
            });
        });
        offsets
    }

    /// Has sums added up here, and not only where they are used next: until then, that would take twice
    /// the registers.
    #[inline(always)]
    pub fn settle(&mut self) {
        unroll!(m in M, up to 2 => {
            self.sum[m] = hint::opaque(self.sum[m]);
        });
    }

    /// Sums of rows, in all their lanes.
    ///
    /// # Safety
    /// Convergent: the whole warp.
    #[inline(always)]
    unsafe fn row_sum(&self, m: usize, h: usize) -> f32 {
        let sum = self.sum[m][h];
        let sum = sum + warp::shuffle_xor(FULL_MASK, sum, 1);
        sum + warp::shuffle_xor(FULL_MASK, sum, 2)
    }

    /// Of a row: the inverse of what its output is divided by, and its log-sum-exp. A row that has
    /// seen nothing gets 0 and -inf.
    ///
    /// # Safety
    /// Convergent: the whole warp.
    #[inline(always)]
    pub unsafe fn finish(&self, m: usize, h: usize, exponents: Exponents) -> (f32, f32) {
        let sum = self.row_sum(m, h);
        if sum == 0.0 {
            return (0.0, f32::NEG_INFINITY);
        }
        let of_sum = math::log2(sum) * core::f32::consts::LN_2;
        (math::rcp(sum), math::fma(finite(self.max[m][h]), exponents.unit, of_sum))
    }
}

/// The maximum as it is subtracted from scores: 0 where nothing is visible, so that a hidden score
/// minus it is -inf and never NaN.
#[inline(always)]
fn finite(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}

/// The maximum of a row's scores and `max`, in all its lanes. NaN is passed over.
#[inline(always)]
unsafe fn row_max(scores: &impl RowElements, h: usize, max: f32) -> f32 {
    // Two at a time, so that a chain of dependent instructions is half as long.
    let mut of_lane = [f32::NEG_INFINITY; 2];
    scores.for_row(h, |i, score| {
        of_lane[i % 2] = if i < 2 { score } else { of_lane[i % 2].max(score) };
    });
    let of_lane = of_lane[0].max(of_lane[1]);
    let of_pair = of_lane.max(warp::shuffle_xor(FULL_MASK, of_lane, 1));
    max.max(of_pair.max(warp::shuffle_xor(FULL_MASK, of_pair, 2)))
}

/// The maximum of the bits of a row's scores as integers, in all its lanes.
#[inline(always)]
unsafe fn row_max_bits(scores: &impl RowElements, h: usize) -> i32 {
    let mut of_lane = [i32::MIN; 2];
    scores.for_row(h, |i, score| {
        let bits = score.to_bits() as i32;
        // Pairs of neighbours: an instruction compares both with what there is.
        let so_far = &mut of_lane[i / 2 % 2];
        *so_far = if i / 2 < 2 && i % 2 == 0 { bits } else { (*so_far).max(bits) };
    });
    let of_lane = of_lane[0].max(of_lane[1]);
    let of_pair = of_lane.max(warp::shuffle_xor(FULL_MASK, of_lane, 1));
    of_pair.max(warp::shuffle_xor(FULL_MASK, of_pair, 2))
}

/// Turns a row's scores into exponentials, and sums them up.
#[inline(always)]
fn exponentiate_row(scores: &mut impl RowElements, h: usize, coefficient: f32, offset: f32) -> f32 {
    let mut sum = [0.0; 2];
    scores.map_row(h, |i, score| {
        let exponential = math::exp2(math::fma(score, coefficient, -offset));
        sum[i % 2] = if i < 2 { exponential } else { sum[i % 2] + exponential };
        exponential
    });
    sum[0] + sum[1]
}
