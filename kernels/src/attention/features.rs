//! What an instance of a kernel knows of attention, and what that means for its scores' scale.

use super::{online_softmax::Exponents, problem::AttentionForward};
use core::f32::consts::LOG2_E;
use cuda_std::global;

/// Which features an instance of a kernel knows, beside visible ranges, packed sequences, lengths and
/// shared K/V heads.
pub trait Features: Copy + 'static {
    /// Boolean masks, biases and ALiBi.
    const MASKS: bool;
    /// These, and softcap, dropout, rows off the 16-byte grid.
    const ALL: bool;
    /// There are registers for masks or biases of the next block of keys.
    const AHEAD: bool = Self::MASKS && !Self::ALL;
}

/// What any attention has.
#[derive(Clone, Copy)]
pub struct Plain;

/// What scores have of their own, too.
#[derive(Clone, Copy)]
pub struct Masked;

/// All features.
#[derive(Clone, Copy)]
pub struct Full;

impl Features for Plain {
    const MASKS: bool = false;
    const ALL: bool = false;
}
impl Features for Masked {
    const MASKS: bool = true;
    const ALL: bool = false;
}
impl Features for Full {
    const MASKS: bool = true;
    const ALL: bool = true;
}

/// What products of q and k are multiplied by, and how what comes of it becomes exponents.
///
/// Without softcap and bias the scale's magnitude becomes part of the coefficient.
///
/// # Safety
/// The problem's scale must be valid.
#[inline(always)]
pub unsafe fn scaling<F: Features>(problem: &AttentionForward) -> (f32, Exponents) {
    let scale = if problem.scale_pointer.is_null() {
        problem.scale
    } else {
        global::load_cached(problem.scale_pointer)
    };
    let magnitude = if scale < 0.0 { -scale } else { scale };
    let is_special = !(magnitude > 0.0 && magnitude <= f32::MAX);
    let adds = F::MASKS
        && (problem.softcap != 0.0 || !problem.bias.is_null() || !problem.slopes.is_null());
    if is_special || adds {
        return (scale, Exponents { unit: 1.0, coefficient: LOG2_E });
    }
    let sign = if scale < 0.0 { -1.0 } else { 1.0 };
    let coefficient = if magnitude > f32::MAX / LOG2_E { f32::MAX } else { magnitude * LOG2_E };
    (sign, Exponents { unit: magnitude, coefficient })
}
