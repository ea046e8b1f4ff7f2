//! NaN and infinity: whom they concern, and whom not.

use super::{ROWS, from_either};
use fused_attention::{Accumulate, Causal, Device, Per, Polarity, reference::softmax::Saved};
use half::{bf16, f16};
use support::{
    on_every_backend,
    placement::Placement,
    softmax_case::{
        AdditiveMask, BackwardCase, Bank, ByteMask, Lengths, SOURCES, SoftmaxCase, Values,
    },
};

const BROKEN: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// In the first, the last and the middle column of the second of three rows, in either input.
fn stays_in_its_row<T: Accumulate>() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for (i, column) in [0, length / 2, length - 1].into_iter().enumerate() {
                for value in BROKEN {
                    let x = [Placement::Contiguous, Placement::Offset(1)][i % 2];
                    let forward = SoftmaxCase { x, tile, ..SoftmaxCase::new(&[3, length]) };
                    let edits = vec![(length + column, value)];
                    let in_source = SoftmaxCase { edits: edits.clone(), ..forward.clone() };
                    for case in from_either(forward)
                        .map(|case| BackwardCase { dp_edits: edits.clone(), ..case })
                        .into_iter()
                        .chain(from_either(in_source))
                    {
                        let solved = case.solve::<T>();
                        solved.assert_right(device);
                        // What the reference must say, so that the comparison means something.
                        let rows = solved.expected.chunks(length);
                        let finite: Vec<_> =
                            rows.map(|dx| dx.iter().all(|dx| dx.is_finite())).collect();
                        let hides = value == f64::NEG_INFINITY && !case.forward.edits.is_empty();
                        assert_eq!(finite, [true, hides, true], "{case:?}");
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
fn stays_in_its_row_f32() {
    stays_in_its_row::<f32>();
}

#[test]
fn stays_in_its_row_f64() {
    stays_in_its_row::<f64>();
}

/// Everything that is hidden is NaN or infinite, in either input, and does not matter.
#[track_caller]
fn hidden_values_do_not_matter<T: Accumulate>(device: &Device, forward: &SoftmaxCase) {
    // Where p is 0, it is so because the element is hidden: scores here are too close for else.
    for saved in SOURCES {
        let clean = BackwardCase::new(saved, forward.clone());
        let solved = clean.solve::<T>();
        let hidden = (0..solved.p.len()).filter(|&i| solved.p[i] == 0.0);
        let hidden: Vec<usize> = hidden.collect();
        assert!(!hidden.is_empty() || solved.p.len() < 10);
        for value in [f64::NAN, f64::INFINITY] {
            let edits: Vec<_> = hidden.iter().map(|&i| (i, value)).collect();
            let forward = SoftmaxCase { edits: edits.clone(), ..forward.clone() };
            let broken = BackwardCase { dp_edits: edits, forward, ..clean.clone() };
            let broken = broken.solve::<T>();
            assert_eq!(broken.expected, solved.expected);
            broken.assert_right(device);
        }
    }
}

#[test]
fn hidden_by_masks_of_elements() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            let bytes = ByteMask { hidden: 0.5, hidden_rows: 0.3, ..ByteMask::new(&[3, length]) };
            let forward =
                SoftmaxCase { bytes: Some(bytes), tile, seed: 5, ..SoftmaxCase::new(&[3, length]) };
            hidden_values_do_not_matter::<f16>(device, &forward);
            hidden_values_do_not_matter::<f64>(device, &forward);
            // A byte for a row, beside an additive mask.
            let bytes =
                ByteMask { hidden: 0.5, polarity: Polarity::Keep, ..ByteMask::new(&[5, 1]) };
            let additive = AdditiveMask { hidden: 0.0, ..AdditiveMask::new(&[5, length]) };
            let forward = SoftmaxCase { shape: vec![5, length], bytes: Some(bytes), ..forward };
            let forward = SoftmaxCase { additive: Some(additive), ..forward };
            hidden_values_do_not_matter::<f32>(device, &forward);
        }
    });
}

#[test]
fn hidden_by_the_visible_range() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            let values = [0, length as i32 / 3, length as i32];
            let lengths = Some(Lengths::given(Per::Batch, &values));
            let forward = SoftmaxCase { lengths, tile, ..SoftmaxCase::new(&[3, length]) };
            hidden_values_do_not_matter::<bf16>(device, &forward);
            hidden_values_do_not_matter::<f32>(device, &forward);
        }
        for (queries, keys) in [(4, 3), (5, 64), (9, 129), (3, 1024), (3, 2049), (2, 8200)] {
            for (causal, window) in [
                (Some(Causal::TopLeft), None),
                (None, Some((1, 1))),
                (Some(Causal::BottomRight), Some((2, 0))),
            ] {
                let x = if keys % 2 == 0 { Placement::Contiguous } else { Placement::Offset(1) };
                let forward =
                    SoftmaxCase { causal, window, x, ..SoftmaxCase::new(&[2, queries, keys]) };
                hidden_values_do_not_matter::<f16>(device, &forward);
            }
        }
    });
}

/// NaN in a row that sees it fills the visible range of the row, and nothing beside.
#[test]
fn fills_the_visible_range() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            let seen = length.div_ceil(2);
            let lengths = Some(Lengths::given(Per::Row, &[seen as i32, length as i32]));
            for (saved, in_gradient) in
                [(Saved::Scores, false), (Saved::Scores, true), (Saved::Probabilities, true)]
            {
                let edits = vec![(seen / 2, f64::NAN)];
                let forward = SoftmaxCase {
                    lengths: lengths.clone(),
                    tile,
                    ..SoftmaxCase::new(&[2, length])
                };
                let mut case = BackwardCase::new(saved, forward);
                if in_gradient {
                    case.dp_edits = edits;
                } else {
                    case.forward.edits = edits;
                }
                let found = case.solve::<f32>().run(device).unwrap();
                for (i, dx) in found.iter().enumerate() {
                    assert_eq!(dx.is_nan(), i < seen, "{i} of {case:?}");
                    assert!(i < seen || i >= length || *dx == 0.0, "{i} of {case:?}");
                }
            }
        }
    });
}

/// Probabilities that are 0 without a mask, as where scores were far below the maximum.
#[test]
fn gradients_of_zeros_do_not_count() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            // Far apart: of two numbers only the larger one has a probability.
            let values = Values::Either(0.0, -1e4);
            let forward =
                SoftmaxCase { values, scale: 1.0, tile, ..SoftmaxCase::new(&[2, length]) };
            let p = forward.solve::<f32>().expected.p;
            let zeros: Vec<_> = (0..p.len()).filter(|&i| p[i] == 0.0).collect();
            for value in BROKEN {
                let dp_edits = zeros.iter().map(|&i| (i, value)).collect();
                let case = BackwardCase::new(Saved::Probabilities, forward.clone());
                let case = BackwardCase { dp_edits, ..case };
                let solved = case.solve::<f32>();
                assert!(solved.expected.iter().all(|dx| dx.is_finite()));
                solved.assert_right(device);
                case.assert_right::<f16>(device);
            }
        }
    });
}

/// Probabilities say what masks of elements hide, which are not read: not even an index outside of
/// the bank.
#[test]
fn masks_of_elements_do_not_concern_probabilities() {
    on_every_backend(|device| {
        let masked = SoftmaxCase {
            bytes: Some(ByteMask::new(&[2, 3, 40])),
            additive: Some(AdditiveMask::new(&[3, 40])),
            bank: Some(Bank { index: Some(vec![0, 1]), ..Bank::random(2) }),
            ..SoftmaxCase::new(&[2, 3, 40])
        };
        let mut solved = BackwardCase::new(Saved::Probabilities, masked).solve::<f32>();
        let expected = solved.run(device).unwrap();
        solved.assert_right(device);
        solved.spoil_masks();
        assert_eq!(solved.run(device).unwrap(), expected);
    });
}

/// Rows whose index the host did not see, and which is outside of the bank: from scores they see
/// nothing, their probabilities are NaN.
#[test]
fn indices_outside_of_a_bank() {
    on_every_backend(|device| {
        for masked_rows in [vec![3, 40], vec![3, 1], vec![1]] {
            let index = vec![0, -1, 1, 2, i32::MAX, i32::MIN, 1];
            let outside: Vec<_> = index.iter().map(|index| !(0..2).contains(index)).collect();
            let bank = Some(Bank { size: 2, index: Some(index), on_device: true });
            let bytes = Some(ByteMask::new(&masked_rows));
            let forward = SoftmaxCase { bank, bytes, ..SoftmaxCase::new(&[7, 3, 40]) };
            let [from_p, from_x] = from_either(forward);
            from_p.assert_right::<f32>(device);
            let solved = from_x.solve::<f32>();
            let batches = solved.run(device).unwrap();
            let batches = batches.chunks(120).zip(solved.expected.chunks(120)).zip(outside);
            for ((found, expected), outside) in batches {
                for (found, expected) in found.iter().zip(expected) {
                    let expected = if outside { 0.0 } else { *expected };
                    assert!((f64::from(*found) - expected).abs() <= 1e-6, "{found}, {expected}");
                }
            }
        }
    });
}
