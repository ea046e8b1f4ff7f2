//! Element types of tensors, and what they are computed in.

use crate::marks;
use core::ops::{Add, Index, IndexMut, Mul, Sub};
use cuda_std::{Value, convert, global, hint, math, warp::Word};
use half::{bf16, f16};

/// What a row is computed in: f32, or f64 for f64 tensors.
pub trait Accumulator:
    Word + Value + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// Zero.
    const ZERO: Self;
    /// The score of what is masked.
    const NEG_INFINITY: Self;
    /// What a row gets whose result is undefined.
    const NAN: Self;
    /// The largest finite number.
    const MAX: Self;
    /// 1 / ln(base) of the exponential that is computed: scores are multiplied by it once a row.
    const LOG_BASE_E: f64;
    /// ln(base).
    const LN_BASE: Self;
    /// Half the smallest exponent of a normal number, as a power of 2: a number below it times any other
    /// is at most its inverse.
    const TINY: f64;

    /// Rounded to this type.
    fn from_f64(x: f64) -> Self;
    /// Widened from f32.
    fn from_f32(x: f32) -> Self;
    /// The larger one; a number rather than NaN.
    fn max(self, other: Self) -> Self;
    /// `self * factor + addend`, rounded once.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// base to the power of `self`: 2 for f32, which is what the hardware has, e for f64.
    fn exp_base(self) -> Self;
    /// The logarithm to that base.
    fn log_base(self) -> Self;
    /// 1 / self.
    fn reciprocal(self) -> Self;
    /// Is it NaN?
    fn is_nan(self) -> bool;
}

impl Accumulator for f32 {
    const ZERO: Self = 0.0;
    const NEG_INFINITY: Self = f32::NEG_INFINITY;
    const NAN: Self = f32::NAN;
    const MAX: Self = f32::MAX;
    const LOG_BASE_E: f64 = core::f64::consts::LOG2_E;
    const LN_BASE: Self = core::f32::consts::LN_2;
    const TINY: f64 = 5.421010862427522e-20;

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        f32::max(self, other)
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        math::fma(self, factor, addend)
    }
    #[inline(always)]
    fn exp_base(self) -> Self {
        math::exp2(self)
    }
    #[inline(always)]
    fn log_base(self) -> Self {
        math::log2(self)
    }
    #[inline(always)]
    fn reciprocal(self) -> Self {
        math::rcp(self)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
}

impl Accumulator for f64 {
    const ZERO: Self = 0.0;
    const NEG_INFINITY: Self = f64::NEG_INFINITY;
    const NAN: Self = f64::NAN;
    const MAX: Self = f64::MAX;
    const LOG_BASE_E: f64 = 1.0;
    const LN_BASE: Self = 1.0;
    const TINY: f64 = 7.458340731200207e-155;

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x as f64
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        f64::max(self, other)
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        math::fma_f64(self, factor, addend)
    }
    #[inline(always)]
    fn exp_base(self) -> Self {
        math::exp_f64(self)
    }
    #[inline(always)]
    fn log_base(self) -> Self {
        math::ln_f64(self)
    }
    #[inline(always)]
    fn reciprocal(self) -> Self {
        1.0 / self
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
}

/// An element type, and 16-byte vectors of it.
pub trait Element: Copy + 'static {
    /// What it is computed in.
    type Accumulator: Accumulator;
    /// 16 bytes, as one load or store moves them.
    type Vector: Value + hint::Registers;
    /// The elements of a vector, widened: an array of [`Element::LANES`] accumulators.
    type Lanes: Copy + Index<usize, Output = Self::Accumulator> + IndexMut<usize>;
    /// A byte for each lane, as one load moves them.
    type MaskBytes: Value;

    /// Elements in a vector.
    const LANES: usize;
    /// The difference of two finite elements may be infinite.
    const DIFFERENCES_OVERFLOW: bool;
    /// An output is rounded so much that a factor may be folded into the exponent before: log2(factor)
    /// is good to some 2^-19.
    const FOLDS: bool;
    /// The vector of zeros.
    const ZERO_VECTOR: Self::Vector;
    /// Mask bytes of 0.
    const NO_BYTES: Self::MaskBytes;

    /// The same number in every lane.
    fn splat(value: Self::Accumulator) -> Self::Lanes;
    /// Widens a vector, exactly.
    fn unpack(vector: Self::Vector) -> Self::Lanes;
    /// Rounds to a vector, to nearest even.
    fn pack(lanes: Self::Lanes) -> Self::Vector;
    /// Widens an element, exactly.
    fn widen(self) -> Self::Accumulator;
    /// Rounds to an element, to nearest even.
    fn narrow(value: Self::Accumulator) -> Self;
    /// The larger of each pair of lanes; a number rather than NaN.
    fn max(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Puts `value` into the lanes that are marked.
    fn replace(vector: Self::Vector, marks: [u32; 2], value: Self::Accumulator) -> Self::Vector;
    /// Lane 0 in the lowest byte.
    fn mask_words(bytes: Self::MaskBytes) -> [u32; 2];

    /// Loads one element.
    ///
    /// # Safety
    /// `from` must be valid for reads and aligned.
    unsafe fn load(from: *const Self) -> Self;
    /// Stores one element.
    ///
    /// # Safety
    /// `to` must be valid for writes and aligned.
    unsafe fn store(to: *mut Self, value: Self);
}

macro_rules! sixteen_bits {
    (
        $T:ident, $overflow:literal,
        $unpack:ident, $pack:ident, $widen:ident, $narrow:ident, $max:ident
    ) => {
        impl Element for $T {
            type Accumulator = f32;
            type Vector = [u32; 4];
            type Lanes = [f32; 8];
            type MaskBytes = [u32; 2];
            const LANES: usize = 8;
            const DIFFERENCES_OVERFLOW: bool = $overflow;
            const FOLDS: bool = true;
            const ZERO_VECTOR: [u32; 4] = [0; 4];
            const NO_BYTES: [u32; 2] = [0; 2];

            #[inline(always)]
            fn splat(value: f32) -> [f32; 8] {
                [value; 8]
            }
            #[inline(always)]
            fn unpack([a, b, c, d]: [u32; 4]) -> [f32; 8] {
                let [a, b, c, d] = [
                    convert::$unpack(a),
                    convert::$unpack(b),
                    convert::$unpack(c),
                    convert::$unpack(d),
                ];
                [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]
            }
            #[inline(always)]
            fn pack([a, b, c, d, e, f, g, h]: [f32; 8]) -> [u32; 4] {
                [
                    convert::$pack(a, b),
                    convert::$pack(c, d),
                    convert::$pack(e, f),
                    convert::$pack(g, h),
                ]
            }
            #[inline(always)]
            fn widen(self) -> f32 {
                convert::$widen(self.to_bits())
            }
            #[inline(always)]
            fn narrow(value: f32) -> Self {
                $T::from_bits(convert::$narrow(value))
            }
            #[inline(always)]
            fn max(a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
                [
                    convert::$max(a[0], b[0]),
                    convert::$max(a[1], b[1]),
                    convert::$max(a[2], b[2]),
                    convert::$max(a[3], b[3]),
                ]
            }
            #[inline(always)]
            fn replace(vector: [u32; 4], marks: [u32; 2], value: f32) -> [u32; 4] {
                let pair = convert::$pack(value, value);
                let [low, high] = marks;
                let ([a, b], [c, d]) = (marks::halves(low), marks::halves(high));
                let replaced = [a, b, c, d];
                let mut result = vector;
                unroll!(i in 4 => {
                    result[i] = vector[i] & !replaced[i] | pair & replaced[i];
                });
                result
            }
            #[inline(always)]
            fn mask_words(words: [u32; 2]) -> [u32; 2] {
                words
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn load(from: *const Self) -> Self {
                $T::from_bits(global::load(from.cast::<u16>()))
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn store(to: *mut Self, value: Self) {
                global::store(to.cast::<u16>(), value.to_bits());
            }
        }
    };
}

sixteen_bits!(f16, false, unpack_f16x2, pack_f16x2, f16_to_f32, f32_to_f16, max_f16x2);
sixteen_bits!(bf16, true, unpack_bf16x2, pack_bf16x2, bf16_to_f32, f32_to_bf16, max_bf16x2);

macro_rules! full_width {
    ($T:ident, $lanes:literal, $MaskBytes:ty) => {
        impl Element for $T {
            type Accumulator = $T;
            type Vector = [$T; $lanes];
            type Lanes = [$T; $lanes];
            type MaskBytes = $MaskBytes;
            const LANES: usize = $lanes;
            const DIFFERENCES_OVERFLOW: bool = true;
            const FOLDS: bool = false;
            const ZERO_VECTOR: [$T; $lanes] = [0.0; $lanes];
            const NO_BYTES: $MaskBytes = 0;

            #[inline(always)]
            fn splat(value: $T) -> [$T; $lanes] {
                [value; $lanes]
            }
            #[inline(always)]
            fn unpack(vector: [$T; $lanes]) -> [$T; $lanes] {
                vector
            }
            #[inline(always)]
            fn pack(lanes: [$T; $lanes]) -> [$T; $lanes] {
                lanes
            }
            #[inline(always)]
            fn widen(self) -> $T {
                self
            }
            #[inline(always)]
            fn narrow(value: $T) -> $T {
                value
            }
            #[inline(always)]
            fn max(mut a: [$T; $lanes], b: [$T; $lanes]) -> [$T; $lanes] {
                unroll!(lane in $lanes => {
                    a[lane] = $T::max(a[lane], b[lane]);
                });
                a
            }
            #[inline(always)]
            fn replace(mut vector: [$T; $lanes], marks: [u32; 2], value: $T) -> [$T; $lanes] {
                unroll!(lane in $lanes => {
                    if marks[0] >> (8 * lane + 7) & 1 != 0 {
                        vector[lane] = value;
                    }
                });
                vector
            }
            #[inline(always)]
            fn mask_words(bytes: $MaskBytes) -> [u32; 2] {
                [bytes as u32, 0]
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn load(from: *const Self) -> Self {
                global::load(from)
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn store(to: *mut Self, value: Self) {
                global::store(to, value);
            }
        }
    };
}

full_width!(f32, 4, u32);
full_width!(f64, 2, u16);
