//! The products of 16-bit elements.

use crate::numbers::Element;
use cuda_std::{convert, mma};
use half::{bf16, f16};

/// An element type of 16 bits that tensor cores multiply.
pub trait Half: Element<Accumulator = f32> {
    /// a b + c, of 16 x 16 by 16 x 8.
    ///
    /// # Safety
    /// Convergent: the whole warp.
    unsafe fn multiply(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4];
    /// Rounds two numbers; the first goes to the low half.
    fn pair(low: f32, high: f32) -> u32;
    /// Widens two elements; the first is in the low half.
    fn widen_pair(pair: u32) -> [f32; 2];
}

macro_rules! halves {
    ($($T:ident: $multiply:ident, $pair:ident, $widen:ident;)*) => {$(
        impl Half for $T {
            #[inline(always)]
            #[track_caller]
            unsafe fn multiply(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
                mma::$multiply(a, b, c)
            }
            #[inline(always)]
            fn pair(low: f32, high: f32) -> u32 {
                convert::$pair(low, high)
            }
            #[inline(always)]
            fn widen_pair(pair: u32) -> [f32; 2] {
                convert::$widen(pair)
            }
        }
    )*};
}

halves! {
    f16: m16n8k16_f16, pack_f16x2, unpack_f16x2;
    bf16: m16n8k16_bf16, pack_bf16x2, unpack_bf16x2;
}
