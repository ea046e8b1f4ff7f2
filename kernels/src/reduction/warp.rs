//! A row's maximum and sum across the lanes of a warp.

use crate::numbers::Accumulator;
use cuda_std::warp;

/// All lanes of a warp.
const ALL_LANES: u32 = !0;

/// The maximum over each group of `lanes` neighbouring lanes, in all of them. NaN is passed over.
///
/// # Safety
/// All lanes of the warp must call together, with the same `lanes`: a power of two up to 32.
#[inline(always)]
pub unsafe fn reduce_max<A: Accumulator>(mut value: A, lanes: u32) -> A {
    let mut distance = lanes / 2;
    while distance > 0 {
        value = value.max(warp::shuffle_xor(ALL_LANES, value, distance));
        distance /= 2;
    }
    value
}

/// The sum over each group of `lanes` neighbouring lanes, in all of them.
///
/// # Safety
/// As for [`reduce_max`].
#[inline(always)]
pub unsafe fn reduce_sum<A: Accumulator>(mut value: A, lanes: u32) -> A {
    let mut distance = lanes / 2;
    while distance > 0 {
        value = value + warp::shuffle_xor(ALL_LANES, value, distance);
        distance /= 2;
    }
    value
}
