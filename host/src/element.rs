//! The types that tensors hold.

use half::{bf16, f16};
use std::fmt;

/// A tensor's element type, as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dtype {
    /// 16-bit float, IEEE 754 binary16.
    F16,
    /// 16-bit float with the range of f32.
    Bf16,
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// Unsigned byte: masks.
    U8,
    /// Signed 32-bit integer: lengths and indices.
    I32,
    /// 64-bit integer: seeds of random numbers.
    I64,
}

impl Dtype {
    /// Bytes of one element, which are also its alignment.
    pub const fn size(self) -> usize {
        match self {
            Dtype::U8 => 1,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 | Dtype::I32 => 4,
            Dtype::F64 | Dtype::I64 => 8,
        }
    }

    /// Whether an operation can compute on this type.
    pub const fn is_float(self) -> bool {
        matches!(self, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64)
    }

    /// The name Rust gives the type.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::U8 => "u8",
            Dtype::I32 => "i32",
            Dtype::I64 => "i64",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A type that a tensor can hold: plain bytes, on every device alike.
///
/// # Safety
/// Every pattern of `DTYPE.size()` bytes is a value, and the type's size and alignment are that.
pub unsafe trait Scalar: Copy + Send + Sync + fmt::Debug + PartialEq + 'static {
    /// The type as a value.
    const DTYPE: Dtype;
}

/// A floating-point type that operations compute on.
pub trait Element: Scalar {
    /// The nearest value of this type, ties to even.
    fn from_f64(value: f64) -> Self;

    /// The same number, exactly.
    fn to_f64(self) -> f64;
}

macro_rules! scalar {
    ($($T:ty, $dtype:ident;)*) => {$(
        // SAFETY: a plain number without invalid bit patterns or padding.
        unsafe impl Scalar for $T {
            const DTYPE: Dtype = Dtype::$dtype;
        }

        const _: () = assert!(size_of::<$T>() == Dtype::$dtype.size());
    )*};
}

scalar! {
    f16, F16;
    bf16, Bf16;
    f32, F32;
    f64, F64;
    u8, U8;
    i32, I32;
    i64, I64;
}

macro_rules! element {
    ($($T:ty)*) => {$(
        impl Element for $T {
            fn from_f64(value: f64) -> Self {
                <$T>::from_f64(value)
            }

            fn to_f64(self) -> f64 {
                <$T>::to_f64(self)
            }
        }
    )*};
}

element!(f16 bf16);

impl Element for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Element for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }
}
