//! Rows of which nothing is visible, and rows that only look like it.

use super::ROWS;
use fused_attention::{Accumulate, Causal, Dtype, Per, Polarity};
use half::{bf16, f16};
use support::{
    on_every_backend,
    placement::Placement,
    softmax_case::{AdditiveMask, ByteMask, Lengths, SoftmaxCase, SolvedCase, Values},
};

/// Rows that see nothing: at least so many.
#[track_caller]
fn masked_rows<T: Accumulate>(solved: &SolvedCase<T>) -> usize {
    let columns = solved.case.matrix().1;
    let rows = solved.expected.p.chunks(columns).zip(&solved.expected.lse);
    let masked = rows.filter(|(_, lse)| **lse == f64::NEG_INFINITY);
    // The reference agrees with the definition.
    masked.inspect(|(p, _)| assert!(p.iter().all(|&p| p == 0.0))).count()
}

/// Every kind of mask, with rows that it hides as a whole and others.
pub(super) fn hiding(length: usize) -> Vec<SoftmaxCase> {
    let case = SoftmaxCase::new(&[2, 3, length]);
    let every_other = |mask: &ByteMask| ByteMask { hidden_rows: 0.5, ..mask.clone() };
    let bytes = every_other(&ByteMask::new(&[2, 3, length]));
    let additive = AdditiveMask { hidden_rows: 0.5, ..AdditiveMask::new(&[2, 3, length]) };
    let lengths = [0, length as i32, 0, 1, length as i32 / 2, 0];
    let masks = |bytes: Option<ByteMask>, additive: Option<AdditiveMask>| SoftmaxCase {
        bytes,
        additive,
        seed: 3,
        ..case.clone()
    };
    let keep = ByteMask { polarity: Polarity::Keep, ..bytes.clone() };
    let narrow = |shape: &[usize]| every_other(&ByteMask { hidden: 0.5, ..ByteMask::new(shape) });
    let window = |left, right| SoftmaxCase { window: Some((left, right)), ..case.clone() };
    vec![
        masks(Some(bytes.clone()), None),
        masks(Some(keep.clone()), None),
        // One byte or number for a whole row.
        masks(Some(narrow(&[2, 3, 1])), None),
        masks(Some(ByteMask { expanded: true, ..narrow(&[2, 1, 1]) }), None),
        masks(None, Some(AdditiveMask { hidden: 0.5, ..AdditiveMask::new(&[2, 3, 1]) })),
        masks(None, Some(additive.clone())),
        masks(None, Some(AdditiveMask { wide: true, ..additive.clone() })),
        masks(Some(bytes), Some(additive)),
        SoftmaxCase { lengths: Some(Lengths::given(Per::Row, &lengths)), ..case.clone() },
        SoftmaxCase {
            lengths: Some(Lengths::given(Per::Batch, &[0, length as i32])),
            ..case.clone()
        },
        // Beyond the right end, and beyond the left.
        SoftmaxCase { diagonal: Causal::TopLeft, ..window(0, -1) },
        window(-1, 0),
        SoftmaxCase { shape: vec![2, length + 2, length.min(7)], ..window(0, 0) },
        SoftmaxCase { shape: vec![length.min(9) + 2, length], ..window(0, 0) },
        SoftmaxCase {
            shape: vec![length.min(9) + 3, length.min(7)],
            causal: Some(Causal::BottomRight),
            ..case.clone()
        },
        // Two masks that together leave nothing.
        SoftmaxCase {
            causal: Some(Causal::TopLeft),
            lengths: Some(Lengths::given(Per::Batch, &[1, 0])),
            ..masks(Some(keep), None)
        },
    ]
}

fn rows_that_see_nothing<T: Accumulate>() {
    let mut masked = 0;
    for (length, tile) in ROWS {
        for case in hiding(length) {
            for x in [Placement::Contiguous, Placement::Offset(1)] {
                let solved = SoftmaxCase { x, tile, ..case.clone() }.solve::<T>();
                masked += masked_rows(&solved);
                on_every_backend(|device| solved.assert_right(device));
            }
        }
    }
    assert!(masked > 300, "only {masked} rows see nothing");
}

#[test]
fn rows_that_see_nothing_f16() {
    rows_that_see_nothing::<f16>();
}

#[test]
fn rows_that_see_nothing_bf16() {
    rows_that_see_nothing::<bf16>();
}

#[test]
fn rows_that_see_nothing_f32() {
    rows_that_see_nothing::<f32>();
}

#[test]
fn rows_that_see_nothing_f64() {
    rows_that_see_nothing::<f64>();
}

/// The most negative finite number of a type.
pub(super) fn lowest(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => -65504.0,
        Dtype::Bf16 => bf16::MIN.to_f64(),
        Dtype::F32 => f32::MIN.into(),
        _ => f64::MIN,
    }
}

/// A finite number masks nothing: all of it in a row gives the average that plain arithmetic gives,
/// some of it in a row weighs nothing there.
fn finite_masks<T: Accumulate>() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for wide in [false, true] {
                let dtype = if wide && T::DTYPE != Dtype::F64 { Dtype::F32 } else { T::DTYPE };
                let low = lowest(dtype);
                for values in [Values::Constant(low), Values::Either(low, 0.0)] {
                    let mask = AdditiveMask { wide, values, ..AdditiveMask::new(&[2, length]) };
                    let case = SoftmaxCase { tile, ..SoftmaxCase::new(&[2, 2, length]) };
                    let mask = AdditiveMask { hidden: 0.0, ..mask };
                    SoftmaxCase { additive: Some(mask.clone()), ..case.clone() }
                        .assert_right::<T>(device);
                    // Hidden elements do not take part in the average.
                    let mask = AdditiveMask { hidden: 0.4, ..mask };
                    SoftmaxCase { additive: Some(mask), ..case }.assert_right::<T>(device);
                }
                // One number for a whole row.
                let values = Values::Constant(low);
                let mask = AdditiveMask { wide, values, ..AdditiveMask::new(&[2, 2, 1]) };
                let case = SoftmaxCase { tile, ..SoftmaxCase::new(&[2, 2, length]) };
                SoftmaxCase { additive: Some(mask), ..case }.assert_right::<T>(device);
            }
        }
    });
}

#[test]
fn finite_masks_f16() {
    finite_masks::<f16>();
}

#[test]
fn finite_masks_bf16() {
    finite_masks::<bf16>();
}

#[test]
fn finite_masks_f32() {
    finite_masks::<f32>();
}

#[test]
fn finite_masks_f64() {
    finite_masks::<f64>();
}

/// The lowest f32 on every column, exactly: the uniform average, with an lse that is that number.
#[test]
fn the_lowest_number_everywhere_gives_the_average() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            let values = Values::Constant(f32::MIN.into());
            let mask =
                AdditiveMask { wide: true, values, hidden: 0.0, ..AdditiveMask::new(&[length]) };
            let case = SoftmaxCase { additive: Some(mask), tile, ..SoftmaxCase::new(&[2, length]) };
            let (y, lse) = case.solve::<f32>().run(device).unwrap();
            let average = 1.0 / length as f32;
            assert!(
                y.iter().all(|y| (y - average).abs() <= 1e-6 * average),
                "{length} on {device}"
            );
            assert!(lse.iter().all(|&lse| lse == f32::MIN), "{lse:?} on {device}");
        }
    });
}

/// Logits below what others take for masked, and a maximum that is exactly that.
fn very_negative_logits<T: Accumulate>() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for values in [
                Values::Between(-20_000.0, -10_000.0),
                Values::Constant(-10_000.0),
                Values::Either(-10_000.0, -10_016.0),
                Values::Constant(-60_000.0),
                Values::Either(lowest(T::DTYPE), lowest(T::DTYPE) / 2.0),
                Values::Constant(lowest(T::DTYPE)),
            ] {
                let case =
                    SoftmaxCase { values, scale: 1.0, tile, ..SoftmaxCase::new(&[2, length]) };
                case.assert_right::<T>(device);
                let bytes = ByteMask { hidden_rows: 0.4, ..ByteMask::new(&[2, length]) };
                SoftmaxCase { bytes: Some(bytes), ..case }.assert_right::<T>(device);
            }
        }
    });
}

#[test]
fn very_negative_logits_f16() {
    very_negative_logits::<f16>();
}

#[test]
fn very_negative_logits_bf16() {
    very_negative_logits::<bf16>();
}

#[test]
fn very_negative_logits_f32() {
    very_negative_logits::<f32>();
}

#[test]
fn very_negative_logits_f64() {
    very_negative_logits::<f64>();
}
