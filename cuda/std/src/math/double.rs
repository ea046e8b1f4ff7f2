//! exp and ln of f64, for which the hardware has no instructions.

use core::f64::consts::{LN_2, LOG2_E};

/// ln 2 - [`LN_2`].
const LN_2_REST: f64 = 2.319_046_813_846_299_6e-17;

/// a * b + c, rounded once.
#[inline(always)]
pub fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    dual! { ptx: crate::intrinsics::fma_f64(a, b, c), emulator: a.mul_add(b, c) }
}

/// 2^k, for k from -1022 to 1023.
#[inline(always)]
fn power_of_two(k: i32) -> f64 {
    f64::from_bits((k.wrapping_add(1023) as u64) << 52)
}

/// e^x, to 1 ulp; subnormal results too.
///
/// x = k ln 2 + r with |r| <= ln 2 / 2, by Cody and Waite's reduction in two steps; e^r by its
/// Taylor series to r^13 / 13!, whose remainder is below 2^-57 of the sum; times 2^k in two
/// factors, since k reaches beyond the exponents of normal numbers.
#[inline(always)]
pub fn exp_f64(x: f64) -> f64 {
    // Beyond these the result is 0 or infinite anyhow. Comparisons leave a NaN as it is.
    let x = if x < -760.0 { -760.0 } else { x };
    let x = if x > 720.0 { 720.0 } else { x };

    // Adding 1.5 * 2^52 rounds to an integer, and leaves it in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let shifted = fma_f64(x, LOG2_E, ROUND);
    let k = shifted.to_bits() as i32;
    let r = fma_f64(shifted - ROUND, -LN_2, x);
    let r = fma_f64(shifted - ROUND, -LN_2_REST, r);

    let mut sum = 1.0 / 6_227_020_800.0;
    sum = fma_f64(sum, r, 1.0 / 479_001_600.0);
    sum = fma_f64(sum, r, 1.0 / 39_916_800.0);
    sum = fma_f64(sum, r, 1.0 / 3_628_800.0);
    sum = fma_f64(sum, r, 1.0 / 362_880.0);
    sum = fma_f64(sum, r, 1.0 / 40_320.0);
    sum = fma_f64(sum, r, 1.0 / 5_040.0);
    sum = fma_f64(sum, r, 1.0 / 720.0);
    sum = fma_f64(sum, r, 1.0 / 120.0);
    sum = fma_f64(sum, r, 1.0 / 24.0);
    sum = fma_f64(sum, r, 1.0 / 6.0);
    sum = fma_f64(sum, r, 0.5);
    sum = fma_f64(sum, r, 1.0);
    sum = fma_f64(sum, r, 1.0);

    let half = k >> 1;
    sum * power_of_two(half) * power_of_two(k.wrapping_sub(half))
}

/// The natural logarithm, to 1 ulp; of subnormal numbers too.
///
/// FreeBSD's msun (e_log.c, Sun Microsystems 1993): x = 2^k (1 + f) with 1 + f between sqrt(1/2)
/// and sqrt(2); with s = f / (2 + f), ln(1 + f) = 2 atanh(s) = f - s (f - R(s^2)), R a minimax
/// polynomial in s^2 with an error below 2^-58.
#[inline(always)]
pub fn ln_f64(x: f64) -> f64 {
    // Subnormal numbers become normal.
    let subnormal = x < f64::MIN_POSITIVE;
    let scaled = if subnormal { x * 18_014_398_509_481_984.0 } else { x };

    const SQRT_HALF: u64 = 0x3fe6_a09e_0000_0000;
    const ONE: u64 = 0x3ff0_0000_0000_0000;
    let bits = scaled.to_bits().wrapping_add(ONE - SQRT_HALF);
    let k = ((bits >> 52) as i32).wrapping_sub(if subnormal { 1023 + 54 } else { 1023 }) as f64;
    let f = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(SQRT_HALF)) - 1.0;

    let s = f / (2.0 + f);
    let z = s * s;
    let mut series = 1.479_819_860_511_658_6e-1;
    series = fma_f64(series, z, 1.531_383_769_920_937_3e-1);
    series = fma_f64(series, z, 1.818_357_216_161_805e-1);
    series = fma_f64(series, z, 2.222_219_843_214_978_4e-1);
    series = fma_f64(series, z, 2.857_142_874_366_239e-1);
    series = fma_f64(series, z, 3.999_999_999_940_942e-1);
    series = fma_f64(series, z, 6.666_666_666_666_735e-1);
    let half_square = 0.5 * f * f;
    let rest = fma_f64(k, LN_2_REST, s * (half_square + z * series));
    let ln = fma_f64(k, LN_2, f - (half_square - rest));

    if x == 0.0 {
        f64::NEG_INFINITY
    } else if x < 0.0 {
        f64::NAN
    } else if x < f64::INFINITY {
        ln
    } else {
        // Infinity and NaN.
        x
    }
}
