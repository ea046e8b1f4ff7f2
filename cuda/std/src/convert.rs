//! Between f32 and the bits of f16 and bf16. To 16 bits rounds to nearest, ties to even; a NaN
//! becomes 0x7fff.
//!
//! Packed pairs have the first value in the low half, as two values lie in memory.

/// The value of an f16.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    dual! {
        ptx: asm!(
            reg32 -> f32: "cvt.f32.f16 {}, {};", in(reg16) bits, options(pure, nomem, nostack),
        ),
        emulator: half::f16::from_bits(bits).to_f32(),
    }
}

/// The value of a bf16: its bits are the upper half of an f32's.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// Rounds to an f16.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    dual! {
        ptx: asm!(
            reg16 -> u16: "cvt.rn.f16.f32 {}, {};", in(reg32) x, options(pure, nomem, nostack),
        ),
        emulator: if x.is_nan() { 0x7fff } else { half::f16::from_f32(x).to_bits() },
    }
}

/// Rounds to a bf16.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    dual! {
        ptx: {
            // The instruction is sm_80's.
            #[cfg(cuda_arch = "sm_70")]
            let bits = round_to_bf16(x);
            #[cfg(not(cuda_arch = "sm_70"))]
            let bits = asm!(
                reg16 -> u16: "cvt.rn.bf16.f32 {}, {};", in(reg32) x, options(pure, nomem, nostack),
            );
            bits
        },
        emulator: round_to_bf16(x),
    }
}

/// Rounds by adding a little less than half of the last place kept, or half of it if that place
/// is odd: the carry does the rest, up to infinity.
#[inline(always)]
#[cfg_attr(not(cuda_arch = "sm_70"), allow(dead_code))]
fn round_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff).wrapping_add(bits >> 16 & 1) >> 16;
    if x.is_nan() { 0x7fff } else { rounded as u16 }
}

/// The values of two f16.
#[inline(always)]
pub fn unpack_f16x2(pair: u32) -> [f32; 2] {
    [f16_to_f32(pair as u16), f16_to_f32((pair >> 16) as u16)]
}

/// The values of two bf16.
#[inline(always)]
pub fn unpack_bf16x2(pair: u32) -> [f32; 2] {
    [f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000)]
}

macro_rules! packs {
    ($($(#[$doc:meta])* $name:ident, $one:ident, $code:literal;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(low: f32, high: f32) -> u32 {
            // The instruction, sm_80's, has the upper half first.
            #[cfg(all(target_arch = "nvptx64", not(cuda_arch = "sm_70")))]
            // SAFETY: touches no memory.
            return unsafe {
                asm!(
                    reg32 -> u32: concat!($code, " {}, {}, {};"),
                    in(reg32) high, in(reg32) low, options(pure, nomem, nostack),
                )
            };
            #[cfg(not(all(target_arch = "nvptx64", not(cuda_arch = "sm_70"))))]
            return $one(low) as u32 | ($one(high) as u32) << 16;
        }
    )*};
}

packs! {
    /// Rounds two values to f16.
    pack_f16x2, f32_to_f16, "cvt.rn.f16x2.f32";
    /// Rounds two values to bf16.
    pack_bf16x2, f32_to_bf16, "cvt.rn.bf16x2.f32";
}

macro_rules! maxima {
    ($($(#[$doc:meta])* $name:ident, $unpack:ident, $pack:ident, $code:literal;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(a: u32, b: u32) -> u32 {
            #[cfg(all(target_arch = "nvptx64", not(cuda_arch = "sm_70")))]
            // SAFETY: touches no memory.
            return unsafe {
                asm!(
                    reg32 -> u32: concat!($code, " {}, {}, {};"),
                    in(reg32) a, in(reg32) b, options(pure, nomem, nostack),
                )
            };
            #[cfg(not(all(target_arch = "nvptx64", not(cuda_arch = "sm_70"))))]
            {
                let (a, b) = ($unpack(a), $unpack(b));
                $pack(a[0].max(b[0]), a[1].max(b[1]))
            }
        }
    )*};
}

maxima! {
    /// The larger of two pairs of f16, lane by lane; a number rather than NaN.
    max_f16x2, unpack_f16x2, pack_f16x2, "max.f16x2";
    /// The larger of two pairs of bf16, lane by lane; a number rather than NaN.
    max_bf16x2, unpack_bf16x2, pack_bf16x2, "max.bf16x2";
}
