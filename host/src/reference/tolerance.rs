//! When a result counts as right.
//!
//! With `reference` in f64 and `unfused` a plain computation in the type that the kernel
//! accumulates in, each element must satisfy `|out - reference| <= 2 max|unfused - reference| + 2
//! max|(reference + 0.3 - 0.3) - reference|`, the last term in the output's type, for gradients with
//! 3 in place of the first 2; and each row `||out - reference|| <= 2 ||unfused - reference|| + e
//! ||reference||`, so that a small local fault in a long row shows. NaN must stand at the same
//! positions, and infinity where the type does not reach as far as the reference.
//!
//! Where the output's type is the one that is accumulated in (f32, f64), the last term of the first
//! rule is 4 units in the last place of 1: exponential and reciprocal are good for two each. Both
//! limits are wider by what rounding does where it counts more ([`Unfused::row_errors`]).

use crate::{Dtype, Element};
use std::fmt;

/// A plain computation without fusion, in the type that the kernel accumulates in.
#[derive(Debug, Clone, PartialEq)]
pub struct Unfused<T> {
    /// What it gives.
    pub values: Vec<T>,
    /// How far rounding may move the values of each row besides, as a share of their weights;
    /// none: not at all.
    pub row_errors: Vec<f64>,
    /// The weight of each value; none: the value itself, by the reference.
    pub weights: Vec<f64>,
}

impl<T> Default for Unfused<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> From<Vec<T>> for Unfused<T> {
    fn from(values: Vec<T>) -> Self {
        Unfused { values, row_errors: Vec::new(), weights: Vec::new() }
    }
}

/// How far an output is from the reference, and how far it may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    /// The largest difference of an element.
    pub largest: f64,
    /// How large it may be.
    pub limit: f64,
    /// The largest difference of a row, in norm, as a share of what it may be.
    pub worst_row: f64,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at most {:.2e} from the reference in f64 ({:.2e} allowed), and the worst row at {:.0} % of \
             its tolerance",
            self.largest,
            self.limit,
            100.0 * self.worst_row
        )
    }
}

/// Where an output is wrong.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// An element is too far off, or NaN on one side only.
    #[error("row {row}, column {column}: {found}, expected {expected} within {limit:e}")]
    Element {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
        /// The output.
        found: f64,
        /// The reference.
        expected: f64,
        /// How far they may differ.
        limit: f64,
    },

    /// A row as a whole is too far off.
    #[error("row {row}: off by {error:e} in norm, at most {limit:e}")]
    Row {
        /// The row.
        row: usize,
        /// By how much.
        error: f64,
        /// How much it may be.
        limit: f64,
    },

    /// A log-sum-exp is too far off.
    #[error("lse of row {row}: {found}, expected {expected} within {limit:e}")]
    Lse {
        /// The row.
        row: usize,
        /// The output.
        found: f64,
        /// The reference.
        expected: f64,
        /// How far they may differ.
        limit: f64,
    },
}

/// The relative error per row that rounding the output to its type may add.
fn row_tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Bf16 => 2f64.powi(-8),
        Dtype::F16 => 2f64.powi(-11),
        Dtype::F32 => 2f64.powi(-20),
        _ => 2f64.powi(-49),
    }
}

/// Checks an output of rows of `columns` against the reference.
///
/// # Errors
/// Where it is wrong.
///
/// # Panics
/// The three are not of the same length.
pub fn check_output<T: Element>(
    out: &[T],
    reference: &[f64],
    unfused: &Unfused<T>,
    columns: usize,
) -> Result<Deviation, Mismatch> {
    check(out, reference, unfused, columns, 2.0)
}

/// As [`check_output`], for gradients.
///
/// # Errors
/// Where it is wrong.
///
/// # Panics
/// The three are not of the same length.
pub fn check_gradient<T: Element>(
    out: &[T],
    reference: &[f64],
    unfused: &Unfused<T>,
    columns: usize,
) -> Result<Deviation, Mismatch> {
    check(out, reference, unfused, columns, 3.0)
}

/// `times` is how often an element may be as far off as the unfused computation.
fn check<T: Element>(
    out: &[T],
    reference: &[f64],
    unfused: &Unfused<T>,
    columns: usize,
    times: f64,
) -> Result<Deviation, Mismatch> {
    let Unfused { values: unfused, row_errors, weights } = unfused;
    assert_eq!(out.len(), reference.len());
    assert_eq!(unfused.len(), reference.len());
    let reference: Vec<f64> = reference.iter().map(|&x| within::<T>(x)).collect();
    // A chunk of 0 would not do; without columns there is no element either.
    let chunk = columns.max(1);
    let slack = |i: usize| {
        let error = row_errors.get(i / chunk).copied().unwrap_or(0.0);
        let slack = error * weights.get(i).copied().unwrap_or(reference[i].abs());
        if slack.is_finite() { slack } else { 0.0 }
    };
    let through_0_3 = |x: f64| {
        let shifted = T::from_f64(T::from_f64(x).to_f64() + 0.3);
        T::from_f64(shifted.to_f64() - 0.3).to_f64()
    };
    let max = |errors: &mut dyn Iterator<Item = f64>| errors.fold(0f64, f64::max);
    let unfused_error = max(&mut unfused
        .iter()
        .zip(&reference)
        .map(|(unfused, &reference)| difference(unfused.to_f64(), reference))
        .filter(|error| error.is_finite()));
    let rounding =
        max(&mut reference.iter().filter(|x| x.is_finite()).map(|&x| (through_0_3(x) - x).abs()));
    let rounding = match T::DTYPE {
        Dtype::F64 => 2.0 * f64::EPSILON,
        Dtype::F32 => 2.0 * f64::from(f32::EPSILON),
        _ => rounding,
    };
    let limit = times * unfused_error + 2.0 * rounding;
    let mut deviation = Deviation { largest: 0.0, limit, worst_row: 0.0 };
    for (i, (out, &expected)) in out.iter().zip(&reference).enumerate() {
        let (row, column, found) = (i / columns, i % columns, out.to_f64());
        let difference = difference(found, expected);
        let limit = limit + slack(i);
        if found.is_nan() != expected.is_nan() || difference > limit {
            return Err(Mismatch::Element { row, column, found, expected, limit });
        }
        deviation.largest = deviation.largest.max(difference);
    }
    let rows = out.chunks(chunk).zip(reference.chunks(chunk)).zip(unfused.chunks(chunk));
    for (row, ((out, reference), unfused)) in rows.enumerate() {
        if reference.iter().any(|x| !x.is_finite()) {
            continue;
        }
        let norm =
            |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
        let distance = |x: &[T]| norm(&mut x.iter().zip(reference).map(|(x, r)| x.to_f64() - r));
        let unfused_distance = Some(distance(unfused)).filter(|d| d.is_finite()).unwrap_or(0.0);
        let limit = 2.0 * unfused_distance
            + row_tolerance(T::DTYPE) * norm(&mut reference.iter().copied())
            + norm(&mut (0..reference.len()).map(|j| slack(row * chunk + j)));
        let error = distance(out);
        if error > limit {
            return Err(Mismatch::Row { row, error, limit });
        }
        if limit > 0.0 {
            deviation.worst_row = deviation.worst_row.max(error / limit);
        }
    }
    Ok(deviation)
}

/// A number of the reference, infinite where T does not reach as far.
fn within<T: Element>(x: f64) -> f64 {
    let rounded = T::from_f64(x).to_f64();
    if rounded.is_infinite() { rounded } else { x }
}

fn difference(found: f64, expected: f64) -> f64 {
    if found == expected { 0.0 } else { (found - expected).abs() }
}

/// Checks log-sum-exps: within 1e-4 and 4 units in the last place (f64: 1e-12 and 4 units), and
/// infinite where the type does not reach as far as the reference.
///
/// # Errors
/// Where they are wrong.
///
/// # Panics
/// The two are not of the same length.
pub fn check_lse<A: Element>(out: &[A], reference: &[f64]) -> Result<(), Mismatch> {
    assert_eq!(out.len(), reference.len());
    let (absolute, ulp) =
        if A::DTYPE == Dtype::F64 { (1e-12, 2f64.powi(-52)) } else { (1e-4, 2f64.powi(-23)) };
    for (row, (out, &expected)) in out.iter().zip(reference).enumerate() {
        let found = out.to_f64();
        let expected = within::<A>(expected);
        let limit = if expected.is_finite() { absolute + 4.0 * ulp * expected.abs() } else { 0.0 };
        let same = found == expected || found.is_nan() && expected.is_nan();
        // Not so if the difference is NaN.
        let near = (found - expected).abs() <= limit;
        if !same && !near {
            return Err(Mismatch::Lse { row, found, expected, limit });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    const COLUMNS: usize = 131_072;

    /// A uniform row as the reference has it, and rounded to bf16.
    fn uniform() -> (Vec<f64>, Vec<bf16>) {
        let p = 1.0 / COLUMNS as f64;
        (vec![p; COLUMNS], vec![bf16::from_f64(p); COLUMNS])
    }

    #[test]
    fn rounding_is_right() {
        let (reference, out) = uniform();
        let deviation = check_output(&out, &reference, &out.clone().into(), COLUMNS).unwrap();
        assert_eq!((deviation.largest, deviation.worst_row), (0.0, 0.0));
    }

    #[test]
    fn a_dropped_tile_in_a_long_row_shows() {
        let (reference, unfused) = uniform();
        let mut out = unfused.clone();
        out[1000..1128].fill(bf16::ZERO);
        let mismatch = check_output(&out, &reference, &unfused.into(), COLUMNS).unwrap_err();
        assert!(matches!(mismatch, Mismatch::Row { row: 0, .. }), "{mismatch}");
    }

    #[test]
    fn nan_must_stand_where_the_reference_has_it() {
        let reference = [0.5, f64::NAN];
        let unfused = vec![0.5, f32::NAN].into();
        assert!(check_output(&[0.5f32, f32::NAN], &reference, &unfused, 1).is_ok());
        for out in [[0.5f32, 0.5], [f32::NAN, f32::NAN]] {
            let mismatch = check_output(&out, &reference, &unfused, 1).unwrap_err();
            assert!(matches!(mismatch, Mismatch::Element { .. }), "{mismatch}");
        }
    }

    #[test]
    fn a_wrong_element_is_named() {
        let unfused = vec![0.5; 4].into();
        let mismatch = check_output(&[0.5f32, 0.5, 0.5, 0.6], &[0.5; 4], &unfused, 2).unwrap_err();
        assert!(matches!(mismatch, Mismatch::Element { row: 1, column: 1, .. }), "{mismatch}");
    }

    #[test]
    fn errors_of_a_row_widen_its_limit() {
        let row_errors = vec![0.0, 0.01];
        let unfused = Unfused { values: vec![0.5; 4], row_errors, weights: Vec::new() };
        let second = check_output(&[0.5f32, 0.5, 0.5, 0.504], &[0.5; 4], &unfused, 2);
        assert!(second.is_ok(), "{second:?}");
        let first = check_output(&[0.5f32, 0.504, 0.5, 0.5], &[0.5; 4], &unfused, 2);
        assert!(matches!(first, Err(Mismatch::Element { row: 0, .. })), "{first:?}");
        let weighted = Unfused { weights: vec![0.1; 4], ..unfused };
        let second = check_output(&[0.5f32, 0.5, 0.5, 0.504], &[0.5; 4], &weighted, 2);
        assert!(matches!(second, Err(Mismatch::Element { row: 1, .. })), "{second:?}");
    }

    #[test]
    fn gradients_may_be_off_by_more() {
        let (reference, unfused) = ([0.5; 2], vec![0.5f32, 0.501].into());
        let found = [0.5f32, 0.5025];
        assert!(check_output(&found, &reference, &unfused, 1).is_err());
        // The row is held to the same limit all the same.
        let mismatch = check_gradient(&found, &reference, &unfused, 1).unwrap_err();
        assert!(matches!(mismatch, Mismatch::Row { row: 1, .. }), "{mismatch}");
        assert!(check_gradient(&found, &reference, &unfused, 2).is_err());
        assert!(check_gradient(&[0.5f32, 0.502], &reference, &unfused, 1).is_ok());
    }

    #[test]
    fn what_the_type_does_not_reach_is_infinite() {
        let unfused: Unfused<f16> = vec![f16::INFINITY, f16::ONE].into();
        let reference = [1e5, 1.0];
        assert!(check_gradient(&[f16::INFINITY, f16::ONE], &reference, &unfused, 2).is_ok());
        assert!(check_gradient(&[f16::MAX, f16::ONE], &reference, &unfused, 2).is_err());
        assert!(check_gradient(&[f16::NEG_INFINITY, f16::ONE], &reference, &unfused, 2).is_err());
    }

    #[test]
    fn infinite_log_sum_exps_must_be_the_same() {
        let inf = f32::INFINITY;
        assert!(check_lse(&[-inf, f32::NAN, 1.00005], &[-f64::INFINITY, f64::NAN, 1.0]).is_ok());
        assert!(check_lse(&[inf], &[-f64::INFINITY]).is_err());
        assert!(check_lse(&[0f32], &[-f64::INFINITY]).is_err());
        assert!(check_lse(&[-inf], &[0.0]).is_err());
        assert!(check_lse(&[1.0002f32], &[1.0]).is_err());
        assert!(check_lse(&[inf], &[1e39]).is_ok());
        assert!(check_lse(&[f32::MAX], &[1e39]).is_err());
    }
}
