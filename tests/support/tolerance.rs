//! When a result counts as right.
//!
//! With `reference` in f64 and `same` an unfused computation in the kernel's own type, each element
//! must satisfy `max|out - reference| <= 2 max|same - reference| + 2 max|(reference + 0.3 - 0.3) -
//! reference|`, the last term in the output's type; and each row `||out - reference|| <= 2 ||same -
//! reference|| + e ||reference||`, so that a small local fault in a long row shows. NaN must stand
//! at the same positions.

use fused_attention::{Dtype, Element};

/// The relative error per row that rounding the output to its type may add.
fn row_tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Bf16 => 2f64.powi(-8),
        Dtype::F16 => 2f64.powi(-11),
        Dtype::F32 => 2f64.powi(-20),
        _ => 2f64.powi(-49),
    }
}

/// Checks an output against the reference, row by row.
///
/// # Errors
/// What is wrong, and where.
pub fn check_output<T: Element>(
    out: &[T],
    reference: &[f64],
    same: &[T],
    columns: usize,
) -> Result<(), String> {
    assert_eq!(out.len(), reference.len());
    assert_eq!(same.len(), reference.len());
    let through_0_3 = |x: f64| {
        let shifted = T::from_f64(T::from_f64(x).to_f64() + 0.3);
        T::from_f64(shifted.to_f64() - 0.3).to_f64()
    };
    let finite = |&(_, reference): &(f64, f64)| reference.is_finite();
    let same_and_reference = || same.iter().map(|x| x.to_f64()).zip(reference.iter().copied());
    let max = |errors: &mut dyn Iterator<Item = f64>| errors.fold(0f64, f64::max);
    let same_error = max(&mut same_and_reference()
        .filter(finite)
        .map(|(same, reference)| (same - reference).abs())
        .filter(|error| error.is_finite()));
    let rounding =
        max(&mut reference.iter().filter(|x| x.is_finite()).map(|&x| (through_0_3(x) - x).abs()));
    let limit = 2.0 * same_error + 2.0 * rounding;
    for (i, (out, &reference)) in out.iter().zip(reference).enumerate() {
        let (row, column, out) = (i / columns, i % columns, out.to_f64());
        let at = format!("row {row}, column {column}");
        if out.is_nan() != reference.is_nan() {
            return Err(format!("{at}: {out}, expected {reference}"));
        }
        if (out - reference).abs() > limit {
            return Err(format!("{at}: {out}, expected {reference} within {limit:e}"));
        }
    }
    let rows = out.chunks(columns).zip(reference.chunks(columns)).zip(same.chunks(columns));
    for (row, ((out, reference), same)) in rows.enumerate() {
        if reference.iter().any(|x| x.is_nan()) {
            continue;
        }
        let distance = |x: &[T]| {
            let pairs = x.iter().zip(reference);
            pairs.map(|(x, r)| (x.to_f64() - r).powi(2)).sum::<f64>().sqrt()
        };
        let norm = reference.iter().map(|r| r * r).sum::<f64>().sqrt();
        let same_distance = Some(distance(same)).filter(|d| d.is_finite()).unwrap_or(0.0);
        let limit = 2.0 * same_distance + row_tolerance(T::DTYPE) * norm;
        let error = distance(out);
        if error > limit {
            return Err(format!("row {row}: off by {error:e} in norm, at most {limit:e}"));
        }
    }
    Ok(())
}

/// Checks log-sum-exps: within 1e-4 and 4 units in the last place (f64: 1e-12 and 4 units).
///
/// # Errors
/// What is wrong, and where.
pub fn check_lse<A: Element>(out: &[A], reference: &[f64]) -> Result<(), String> {
    assert_eq!(out.len(), reference.len());
    let (absolute, ulp) =
        if A::DTYPE == Dtype::F64 { (1e-12, 2f64.powi(-52)) } else { (1e-4, 2f64.powi(-23)) };
    for (row, (out, &reference)) in out.iter().zip(reference).enumerate() {
        let out = out.to_f64();
        let right = if reference.is_finite() {
            (out - reference).abs() <= absolute + 4.0 * ulp * reference.abs()
        } else {
            out == reference || out.is_nan() && reference.is_nan()
        };
        if !right {
            return Err(format!("lse of row {row}: {out}, expected {reference}"));
        }
    }
    Ok(())
}
