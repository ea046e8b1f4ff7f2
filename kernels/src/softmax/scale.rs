//! From inputs to exponents.

use super::{mask::MaskKind, problem::SoftmaxForward};
use crate::numbers::{Accumulator, Element};
use cuda_std::global;

/// input = x * prescale; score = input, or input * factor + additive mask; exponent = (score - max) *
/// coefficient.
///
/// Without an additive mask the scale's magnitude waits until the maximum has been subtracted, so
/// that no product overflows. A difference may, to -inf: then its exponential is 0 anyway, since the
/// smallest scales, for which it would not be, are taken out of the inputs first.
#[derive(Clone, Copy)]
pub struct Scale<A> {
    /// What x is multiplied by, once and for all, before anything is hidden: the scale's sign; a power
    /// of 2 besides if the scale is tiny; the scale itself if it is 0, infinite or NaN. Always exact.
    pub prescale: A,
    /// The prescale is not 1.
    pub prescales: bool,
    /// What an input with an additive mask is multiplied by.
    pub factor: A,
    /// What a difference of scores is multiplied by. Positive.
    pub coefficient: A,
    /// The input that stands for what is hidden.
    pub hidden: A,
    /// The scale.
    pub given: A,
}

impl<A: Accumulator> Scale<A> {
    /// Reads the problem's scale.
    ///
    /// # Safety
    /// The problem's scale must be valid.
    #[inline(always)]
    pub unsafe fn of<K: MaskKind, E: Element<Accumulator = A>>(problem: &SoftmaxForward) -> Self {
        let given = given(problem);
        let (one, unit) = (A::from_f64(1.0), A::from_f64(A::LOG_BASE_E));
        let is_negative = given < A::ZERO;
        let sign = A::from_f64(if is_negative { -1.0 } else { 1.0 });
        let magnitude = given * sign;
        let is_special = !(magnitude > A::ZERO && magnitude <= A::MAX);
        let is_tiny = E::DIFFERENCES_OVERFLOW && magnitude < A::from_f64(A::TINY);
        let adds = K::ADDITIVE && !problem.additive.is_null();
        let (prescale, factor, coefficient) = if is_special {
            (given, one, unit)
        } else if adds {
            (sign, magnitude, unit)
        } else if is_tiny {
            (sign * A::from_f64(A::TINY), one, magnitude * A::from_f64(1.0 / A::TINY) * unit)
        } else {
            (sign, one, at_most_max(magnitude * unit))
        };
        let prescales = is_negative || is_special || is_tiny && !adds;
        let hidden = A::NEG_INFINITY;
        Scale { prescale, prescales, factor, coefficient, hidden, given }
    }

    /// Reads the problem's scale where x are probabilities: what is hidden of them is 0.
    ///
    /// # Safety
    /// As for [`Scale::of`].
    #[inline(always)]
    pub unsafe fn of_probabilities(problem: &SoftmaxForward) -> Self {
        let one = A::from_f64(1.0);
        let given = given(problem);
        Scale {
            prescale: one,
            prescales: false,
            factor: one,
            coefficient: one,
            hidden: A::ZERO,
            given,
        }
    }

    /// The probability of a score: its exponential relative to that of `reference`, times
    /// base^`bias`.
    #[inline(always)]
    pub fn biased_exponential(&self, score: A, reference: A, bias: A) -> A {
        (score - reference).mul_add(self.coefficient, bias).exp_base()
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
