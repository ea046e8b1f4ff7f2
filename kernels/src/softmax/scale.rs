//! From inputs to exponents.

use super::{mask::MaskKind, problem::SoftmaxForward};
use crate::numbers::Accumulator;
use cuda_std::global;

/// score = x * factor (+ additive mask); exponent = (score - max) * coefficient.
///
/// Without an additive mask the score is half the input, with the scale's sign, and the scale's
/// magnitude waits until the maximum has been subtracted: no product overflows before, and no
/// difference of halves does.
#[derive(Clone, Copy)]
pub struct Scale<A> {
    /// What an input is multiplied by.
    pub factor: A,
    /// What a difference of scores is multiplied by.
    pub coefficient: A,
    /// The input whose score is -inf: it stands for what is hidden.
    pub hidden: A,
    /// The scale is 0, infinite or NaN: inputs are multiplied by it, once and for all, before
    /// anything is hidden, and the factor is 1.
    pub is_special: bool,
    /// The scale.
    pub given: A,
}

impl<A: Accumulator> Scale<A> {
    /// Reads the problem's scale.
    ///
    /// # Safety
    /// The problem's scale must be valid.
    #[inline(always)]
    pub unsafe fn of<K: MaskKind>(problem: &SoftmaxForward) -> Self {
        let given = given(problem);
        let unit = A::from_f64(A::LOG_BASE_E);
        let is_negative = given < A::ZERO;
        let magnitude = if is_negative { A::ZERO - given } else { given };
        let is_special = !(magnitude > A::ZERO && magnitude <= A::MAX);
        let signed = |x: f64| A::from_f64(if is_negative && !is_special { -x } else { x });
        let (factor, coefficient) = if is_special {
            (signed(1.0), unit)
        } else if K::ADDITIVE {
            (given, unit)
        } else {
            (signed(0.5), at_most_max(magnitude * (unit + unit)))
        };
        Scale { factor, coefficient, hidden: signed(f64::NEG_INFINITY), is_special, given }
    }

    /// Reads the problem's scale where x are probabilities: what is hidden of them is 0.
    ///
    /// # Safety
    /// As for [`Scale::of`].
    #[inline(always)]
    pub unsafe fn of_probabilities(problem: &SoftmaxForward) -> Self {
        let one = A::from_f64(1.0);
        let given = given(problem);
        Scale { factor: one, coefficient: one, hidden: A::ZERO, is_special: false, given }
    }

    /// The exponential of a score, relative to that of `reference`.
    #[inline(always)]
    pub fn exponential(&self, score: A, reference: A) -> A {
        ((score - reference) * self.coefficient).exp_base()
    }
}

/// The scale as a number or from device memory.
///
/// # Safety
/// The problem's scale must be valid.
#[inline(always)]
unsafe fn given<A: Accumulator>(problem: &SoftmaxForward) -> A {
    if problem.scale_pointer.is_null() {
        A::from_f64(problem.scale)
    } else {
        global::load_cached(problem.scale_pointer.cast::<A>())
    }
}

#[inline(always)]
fn at_most_max<A: Accumulator>(coefficient: A) -> A {
    if coefficient > A::MAX { A::MAX } else { coefficient }
}
