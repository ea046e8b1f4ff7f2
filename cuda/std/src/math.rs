//! Elementary functions. Those of f32 are the hardware's approximations, and count subnormal
//! arguments and results as zero (`ftz`), but for [`fma`] and [`tanh`].

mod double;

pub use double::{exp_f64, fma_f64, ln_f64};

/// 2^x, to 2 ulp (`ex2.approx.ftz`).
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    dual! { ptx: crate::intrinsics::ex2_approx_ftz(x), emulator: flush(flush(x).exp2()) }
}

/// The binary logarithm (`lg2.approx.ftz`): to 2^-22, absolutely for x from 0.5 to 2, relatively
/// elsewhere.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    dual! { ptx: crate::intrinsics::lg2_approx_ftz(x), emulator: flush(x).log2() }
}

/// 1/x, to 1 ulp (`rcp.approx.ftz`).
#[inline(always)]
pub fn rcp(x: f32) -> f32 {
    dual! { ptx: crate::intrinsics::rcp_approx_ftz(x), emulator: flush(flush(x).recip()) }
}

/// a * b + c, rounded once.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    dual! { ptx: crate::intrinsics::fma_f32(a, b, c), emulator: a.mul_add(b, c) }
}

/// The hyperbolic tangent, to a relative error of 2^-11 (`tanh.approx`). From sm_75: kernels
/// compiled for sm_70 cannot use it.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    dual! {
        ptx: asm!(
            reg32 -> f32: "tanh.approx.f32 {}, {};", in(reg32) x, options(pure, nomem, nostack),
        ),
        emulator: x.tanh(),
    }
}

/// Zero, of the same sign, in place of a subnormal number.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}
