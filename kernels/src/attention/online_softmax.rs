//! Softmax of rows whose scores come a block of keys at a time.
//!
//! A warp's rows are 16 for each fragment; a lane has elements of rows `lane / 4` and
//! `lane / 4 + 8` of each, as the fragments of matrix products have them. Sums are a lane's own
//! until the end, maxima those of the whole row.

use cuda_std::{
    hint, math,
    warp::{self, FULL_MASK},
};

/// A fragment of 16 x 8 accumulators: elements 0 and 1 of the first row, 2 and 3 of the second.
pub type Fragment = [f32; 4];

/// Exponents may grow by so much before everything is rescaled to a new maximum. Probabilities
/// relative to the old one are then at most 2^8, which is far from the limits of f16, and as exact.
const LAG: f32 = 8.0;

/// How scores become exponents of 2: `(score - maximum) * coefficient`.
#[derive(Clone, Copy)]
pub struct Exponents {
    /// What a difference of 1 between scores is in the exponents of e.
    pub unit: f32,
    /// The same in the exponents of 2. Positive.
    pub coefficient: f32,
    /// Differences come before products: scores may be so large that times the coefficient they
    /// overflow.
    pub difference_first: bool,
}

/// What is known of the rows so far: exponentials are relative to `reference`.
#[derive(Clone, Copy)]
pub struct OnlineSoftmax<const M: usize> {
    /// The maximum of each row, at some time; -inf as long as nothing is visible.
    max: [[f32; 2]; M],
    /// The lane's part of the sum of exponentials.
    sum: [[f32; 2]; M],
}

impl<const M: usize> OnlineSoftmax<M> {
    /// Of rows that have seen nothing.
    pub const EMPTY: Self = OnlineSoftmax { max: [[f32::NEG_INFINITY; 2]; M], sum: [[0.0; 2]; M] };

    /// Takes in a block of scores, -inf where hidden, and leaves their exponentials in their place.
    /// The output, which has the exponentials of earlier blocks in it, is rescaled if need be.
    ///
    /// # Safety
    /// Convergent: the whole warp.
    #[inline(always)]
    pub unsafe fn take<const KEYS: usize, const COLUMNS: usize>(
        &mut self,
        scores: &mut [[Fragment; KEYS]; M],
        output: &mut [[Fragment; COLUMNS]; M],
        exponents: Exponents,
    ) {
        let coefficient = exponents.coefficient;
        let mut max = self.max;
        let mut grows = false;
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                max[m][h] = row_max(&scores[m], h, max[m][h]);
                grows |= (max[m][h] - self.max[m][h]) * coefficient > LAG;
            });
        });
        if warp::vote_any(FULL_MASK, grows) {
            unroll!(m in M, up to 2 => {
                let mut factor = [0.0; 2];
                unroll!(h in 2 => {
                    factor[h] =
                        math::exp2((self.max[m][h] - finite(max[m][h])) * coefficient);
                    self.sum[m][h] *= factor[h];
                });
                rescale(&mut output[m], factor);
            });
            self.max = max;
        }
        let mut references = [[0.0; 2]; M];
        unroll!(m in M, up to 2 => {
            references[m] = [finite(self.max[m][0]), finite(self.max[m][1])];
        });
        if exponents.difference_first {
            unroll!(m in M, up to 2 => {
                subtract(&mut scores[m], references[m]);
                references[m] = [0.0; 2];
            });
        }
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let reference = references[m][h] * coefficient;
                self.sum[m][h] += exponentiate(&mut scores[m], h, coefficient, reference);
            });
        });
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
unsafe fn row_max<const KEYS: usize>(scores: &[Fragment; KEYS], h: usize, max: f32) -> f32 {
    // Two at a time, so that a chain of dependent instructions is half as long.
    let mut of_lane = [f32::NEG_INFINITY; 2];
    unroll!(n in KEYS, up to 16 => {
        of_lane[0] = of_lane[0].max(scores[n][2 * h]);
        of_lane[1] = of_lane[1].max(scores[n][2 * h + 1]);
    });
    let of_lane = of_lane[0].max(of_lane[1]);
    let of_pair = of_lane.max(warp::shuffle_xor(FULL_MASK, of_lane, 1));
    max.max(of_pair.max(warp::shuffle_xor(FULL_MASK, of_pair, 2)))
}

/// Rescales the rows of a lane.
#[inline(always)]
fn rescale<const COLUMNS: usize>(output: &mut [Fragment; COLUMNS], factor: [f32; 2]) {
    unroll!(n in COLUMNS, up to 32 => {
        unroll!(i in 4 => {
            output[n][i] *= factor[i / 2];
        });
    });
}

#[inline(always)]
fn subtract<const KEYS: usize>(scores: &mut [Fragment; KEYS], references: [f32; 2]) {
    unroll!(n in KEYS, up to 16 => {
        unroll!(i in 4 => {
            scores[n][i] -= references[i / 2];
        });
    });
}

/// Turns a row's scores into exponentials, and sums them up.
#[inline(always)]
fn exponentiate<const KEYS: usize>(
    scores: &mut [Fragment; KEYS],
    h: usize,
    coefficient: f32,
    reference: f32,
) -> f32 {
    let mut sum = [0.0; 2];
    unroll!(n in KEYS, up to 16 => {
        unroll!(e in 2 => {
            let score = scores[n][2 * h + e];
            let exponential = math::exp2(math::fma(score, coefficient, -reference));
            scores[n][2 * h + e] = exponential;
            sum[e] += exponential;
        });
    });
    sum[0] + sum[1]
}
