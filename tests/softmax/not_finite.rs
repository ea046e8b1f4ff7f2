//! NaN and infinity: whom they concern, and whom not.

use super::ROWS;
use fused_attention::{Accumulate, Causal, Device, Per};
use half::{bf16, f16};
use support::{
    on_every_backend,
    placement::Placement,
    softmax_case::{AdditiveMask, ByteMask, Lengths, SoftmaxCase},
};

const BROKEN: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// In the first, the last and the middle column of the second of three rows.
fn stays_in_its_row<T: Accumulate>() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for value in BROKEN {
                for column in [0, length / 2, length - 1] {
                    for x in [Placement::Contiguous, Placement::Offset(1)] {
                        let edits = vec![(length + column, value)];
                        let case = SoftmaxCase { edits, x, tile, ..SoftmaxCase::new(&[3, length]) };
                        let solved = case.solve::<T>();
                        solved.assert_right(device);
                        // What the reference must say, so that the comparison means something.
                        let nan: Vec<_> = solved.expected.lse.iter().map(|x| x.is_nan()).collect();
                        assert_eq!(nan, [false, value != f64::NEG_INFINITY, false]);
                    }
                }
            }
        }
    });
}

#[test]
fn stays_in_its_row_f16() {
    stays_in_its_row::<f16>();
}

#[test]
fn stays_in_its_row_bf16() {
    stays_in_its_row::<bf16>();
}

#[test]
fn stays_in_its_row_f32() {
    stays_in_its_row::<f32>();
}

#[test]
fn stays_in_its_row_f64() {
    stays_in_its_row::<f64>();
}

/// Rows whose every number is infinite, with a NaN or without.
#[test]
fn rows_without_a_finite_number() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for fill in [f64::INFINITY, f64::NEG_INFINITY] {
                let all = |row: usize| (0..length).map(move |j| (row * length + j, fill));
                let mut edits: Vec<_> = all(0).chain(all(2)).collect();
                edits.push((2 * length + length / 2, f64::NAN));
                let case = SoftmaxCase { edits, tile, ..SoftmaxCase::new(&[4, length]) };
                case.assert_right::<f16>(device);
                case.assert_right::<f32>(device);
                case.assert_right::<f64>(device);
            }
        }
    });
}

/// Everything that is hidden is NaN or infinite, and does not matter. `hidden` are the elements of
/// x that the case's masks hide, by the reference.
#[track_caller]
fn hidden_values_do_not_matter<T: Accumulate>(device: &Device, case: SoftmaxCase) {
    let clean = case.solve::<T>();
    // Where p is 0, it is so because the element is hidden: scores here are too close for else.
    let hidden: Vec<usize> =
        (0..clean.expected.p.len()).filter(|&i| clean.expected.p[i] == 0.0).collect();
    assert!(!hidden.is_empty() || case.rows() * case.matrix().1 < 10);
    for value in BROKEN {
        let edits = hidden.iter().map(|&i| (i, value)).collect();
        let broken = SoftmaxCase { edits, ..case.clone() }.solve::<T>();
        assert_eq!(broken.expected, clean.expected);
        broken.assert_right(device);
    }
}

#[test]
fn hidden_by_bytes() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            let bytes = ByteMask { hidden: 0.5, hidden_rows: 0.3, ..ByteMask::new(&[3, length]) };
            let case =
                SoftmaxCase { bytes: Some(bytes), tile, seed: 5, ..SoftmaxCase::new(&[3, length]) };
            hidden_values_do_not_matter::<f16>(device, case.clone());
            hidden_values_do_not_matter::<f64>(device, case.clone());
            // A byte for a row.
            let bytes = ByteMask { hidden: 0.5, ..ByteMask::new(&[9, 1]) };
            let case = SoftmaxCase { shape: vec![9, length], bytes: Some(bytes), ..case };
            hidden_values_do_not_matter::<f32>(device, case.clone());
            // Beside an additive mask.
            let additive = AdditiveMask { hidden: 0.0, ..AdditiveMask::new(&[9, length]) };
            let case = SoftmaxCase { additive: Some(additive), ..case };
            hidden_values_do_not_matter::<bf16>(device, case);
        }
    });
}

#[test]
fn hidden_by_lengths() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for x in [Placement::Contiguous, Placement::Offset(1)] {
                let values = [0, length as i32 / 3, length as i32];
                let lengths = Some(Lengths::given(Per::Batch, &values));
                let case = SoftmaxCase { lengths, x, tile, ..SoftmaxCase::new(&[3, length]) };
                hidden_values_do_not_matter::<bf16>(device, case.clone());
                hidden_values_do_not_matter::<f32>(device, case);
            }
        }
    });
}

#[test]
fn hidden_by_the_diagonal() {
    on_every_backend(|device| {
        for (queries, keys) in [(4, 3), (5, 64), (9, 129), (3, 1024), (3, 2049), (2, 8200)] {
            for (causal, window) in [
                (Some(Causal::TopLeft), None),
                (Some(Causal::BottomRight), None),
                (None, Some((1, 1))),
                (Some(Causal::BottomRight), Some((2, 0))),
            ] {
                let case = SoftmaxCase { causal, window, ..SoftmaxCase::new(&[2, queries, keys]) };
                hidden_values_do_not_matter::<f16>(device, case.clone());
                hidden_values_do_not_matter::<f32>(device, case);
            }
        }
    });
}

/// An input of -inf is hidden, and so is its additive mask, whatever that is.
#[test]
fn hidden_by_minus_infinity() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for value in [f64::NAN, f64::INFINITY] {
                let values = support::softmax_case::Values::Constant(value);
                let edits = (0..length).map(|j| (j, f64::NEG_INFINITY)).collect();
                let mask = AdditiveMask { values, hidden: 0.0, ..AdditiveMask::new(&[2, length]) };
                let case = SoftmaxCase { additive: Some(mask), ..SoftmaxCase::new(&[2, length]) };
                let solved = SoftmaxCase { edits, tile, ..case }.solve::<f32>();
                assert_eq!(solved.expected.lse[0], f64::NEG_INFINITY);
                assert!(solved.expected.lse[1].is_nan());
                solved.assert_right(device);
            }
        }
    });
}

/// NaN in an additive mask concerns its row only, and hidden elements of it concern nobody.
#[test]
fn in_an_additive_mask() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for wide in [false, true] {
                // NaN everywhere beyond the lengths, and in the second row within.
                let values = support::softmax_case::Values::Constant(f64::NAN);
                let mask =
                    AdditiveMask { wide, values, hidden: 0.0, ..AdditiveMask::new(&[3, length]) };
                let lengths = Some(Lengths::given(Per::Row, &[0, length as i32, 0]));
                let case = SoftmaxCase { additive: Some(mask), ..SoftmaxCase::new(&[3, length]) };
                let case = SoftmaxCase { lengths, tile, ..case };
                let solved = case.solve::<bf16>();
                let nan: Vec<_> = solved.expected.lse.iter().map(|lse| lse.is_nan()).collect();
                assert_eq!(nan, [false, true, false]);
                solved.assert_right(device);
                case.assert_right::<f32>(device);
                // One number for a row.
                let mask = AdditiveMask { wide, values, hidden: 0.0, ..AdditiveMask::new(&[3, 1]) };
                SoftmaxCase { additive: Some(mask), ..case }.assert_right::<f16>(device);
            }
        }
    });
}
