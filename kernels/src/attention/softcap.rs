//! Softcap, by hand: the hardware's own tanh is good to 2^-11 only.

use super::{problem::AttentionForward, row_elements::RowElements};
use core::f32::consts::LOG2_E;
use cuda_std::{
    math,
    warp::{self, FULL_MASK},
};

/// Below it a polynomial will do.
const SMALL: f32 = 0.75;

/// Makes scores `softcap * tanh(factor * score / softcap)`.
///
/// # Safety
/// Convergent: the whole warp. There is a softcap.
#[inline(always)]
pub unsafe fn cap<const M: usize>(
    problem: &AttentionForward,
    scores: &mut [impl RowElements; M],
    factor: f32,
) {
    let AttentionForward { softcap, softcap_inverse: inverse, .. } = *problem;
    if warp::vote_any(FULL_MASK, !are_small(scores, factor * inverse)) {
        change_all(scores, |score| {
            let (score, x) = (score * factor, score * factor * inverse);
            // Both, so that there is no branch.
            let (small, large) = (score * tanh_over(x), softcap * tanh(x));
            if x.abs() < SMALL { small } else { large }
        });
    } else {
        change_all(scores, |score| {
            let score = score * factor;
            score * tanh_over(score * inverse)
        });
    }
}

/// Whether a lane's scores times `factor` are all small, by the sum of their fourth powers: it may say
/// no where they are.
#[inline(always)]
fn are_small<const M: usize>(scores: &[impl RowElements; M], factor: f32) -> bool {
    // Two at a time, so that a chain of dependent instructions is half as long.
    let mut sums = [0.0; 2];
    unroll!(m in M, up to 2 => {
        scores[m].for_each(|_, i, score| {
            let square = score * score;
            sums[i % 2] = math::fma(square, square, sums[i % 2]);
        });
    });
    let square = factor * factor;
    (sums[0] + sums[1]) * square * square < SMALL * SMALL * SMALL * SMALL
}

#[inline(always)]
fn change_all<const M: usize>(scores: &mut [impl RowElements; M], change: impl Fn(f32) -> f32) {
    unroll!(m in M, up to 2 => {
        scores[m].map(|_, _, score| change(score));
    });
}

/// tanh(x) / x up to [`SMALL`], to a relative 3.3e-8: the minimax polynomial of this degree that is 1
/// at 0.
#[inline(always)]
fn tanh_over(x: f32) -> f32 {
    let square = x * x;
    let mut sum = math::fma(square, -4.769_499e-3, 1.966_492_5e-2);
    sum = math::fma(square, sum, -5.339_026_4e-2);
    sum = math::fma(square, sum, 1.332_652_1e-1);
    sum = math::fma(square, sum, -3.333_307e-1);
    math::fma(square, sum, 1.0)
}

/// tanh(x) for other x, by an exponential: near 0 it would cancel.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    let power = math::exp2(x * (2.0 * LOG2_E));
    math::fma(-2.0, math::rcp(power + 1.0), 1.0)
}
