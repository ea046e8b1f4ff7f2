//! Softcap, by hand: the hardware's own tanh is good to 2^-11 only.

use super::{adjust::scale, problem::AttentionForward, row_elements::RowElements};
use core::f32::consts::LOG2_E;
use cuda_std::{
    hint, math,
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
    // Where it is beyond all numbers, 0 is to stay 0.
    scale(scores, (factor * problem.softcap_inverse).clamp(-f32::MAX, f32::MAX));
    // Its multiples are not kept in registers from one block of keys to the next.
    let softcap = hint::opaque(problem.softcap);
    // Half of the fragments at a time, or there would not be registers for what is on its way.
    unroll!(half in 2 => {
        if warp::vote_any(FULL_MASK, !are_small(scores, half)) {
            change_half(scores, half, |x| {
                // Both, so that there is no branch.
                let (small, large) = (small(x, softcap), large(x, softcap));
                if x.abs() < SMALL { small } else { large }
            });
        } else {
            change_half(scores, half, |x| small(x, softcap));
        }
    });
}

/// Whether all scores of a lane in every second fragment from fragment `half` on are small, or not
/// numbers.
#[inline(always)]
fn are_small<const M: usize>(scores: &[impl RowElements; M], half: usize) -> bool {
    let mut max = 0.0f32;
    unroll!(m in M, up to 2 => {
        scores[m].for_each(|_, i, score| {
            if i / 2 % 2 == half {
                max = max.max(score.abs());
            }
        });
    });
    max < SMALL
}

/// Changes these scores.
#[inline(always)]
fn change_half<const M: usize>(
    scores: &mut [impl RowElements; M],
    half: usize,
    change: impl Fn(f32) -> f32,
) {
    unroll!(m in M, up to 2 => {
        scores[m].map(|_, i, score| if i / 2 % 2 == half { change(score) } else { score });
    });
}

/// softcap tanh(x) up to [`SMALL`], to a relative 3.3e-8 before it is rounded: x times the minimax
/// polynomial of this degree for tanh(x) / x that is 1 at 0.
#[inline(always)]
fn small(x: f32, softcap: f32) -> f32 {
    let square = x * x;
    let mut sum = math::fma(square, softcap * -4.769_499e-3, softcap * 1.966_492_5e-2);
    sum = math::fma(square, sum, softcap * -5.339_026_4e-2);
    sum = math::fma(square, sum, softcap * 1.332_652_1e-1);
    sum = math::fma(square, sum, softcap * -3.333_307e-1);
    x * math::fma(square, sum, softcap)
}

/// softcap tanh(x) for other x, by an exponential: near 0 it would cancel.
#[inline(always)]
fn large(x: f32, softcap: f32) -> f32 {
    let power = math::exp2(x * (2.0 * LOG2_E));
    math::fma(-2.0 * softcap, math::rcp(power + 1.0), softcap)
}
