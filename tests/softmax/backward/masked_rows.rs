//! Rows of which nothing is visible, and rows that only look like it.

use super::{
    super::masked_rows::{hiding, lowest},
    ROWS, from_either,
};
use fused_attention::{Accumulate, Dtype};
use half::{bf16, f16};
use support::{
    on_every_backend,
    placement::Placement,
    softmax_case::{AdditiveMask, BackwardCase, ByteMask, SoftmaxCase, Values},
};

/// Every kind of mask, with rows that it hides as a whole: their gradient is 0, even where dP is
/// NaN there.
fn rows_that_see_nothing<T: Accumulate>() {
    let mut blind = 0;
    for (i, (length, tile)) in ROWS.into_iter().enumerate() {
        for (j, forward) in hiding(length).into_iter().enumerate() {
            let x = [Placement::Contiguous, Placement::Offset(1)][(i + j) % 2];
            for case in from_either(SoftmaxCase { x, tile, ..forward }) {
                let clean = case.solve::<T>();
                let columns = case.forward.matrix().1;
                let rows = clean.p.chunks(columns).enumerate();
                let hidden: Vec<usize> = rows
                    .filter_map(|(row, p)| p.iter().all(|&p| p == 0.0).then_some(row))
                    .collect();
                blind += hidden.len();
                let all = hidden.iter().flat_map(|row| row * columns..(row + 1) * columns);
                let dp_edits = all.map(|i| (i, f64::NAN)).collect();
                let broken = BackwardCase { dp_edits, ..case }.solve::<T>();
                assert_eq!(broken.expected, clean.expected);
                on_every_backend(|device| broken.assert_right(device));
            }
        }
    }
    assert!(blind > 300, "only {blind} rows see nothing");
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

/// A finite number masks nothing: a row with the lowest everywhere has the gradient of a uniform
/// row, and one with some of it that of the others.
fn finite_masks<T: Accumulate>() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for wide in [false, true] {
                let dtype = if wide && T::DTYPE != Dtype::F64 { Dtype::F32 } else { T::DTYPE };
                let low = lowest(dtype);
                for values in [Values::Constant(low), Values::Either(low, 0.0)] {
                    for hidden in [0.0, 0.4] {
                        let mask = AdditiveMask::new(&[2, length]);
                        let additive = Some(AdditiveMask { wide, values, hidden, ..mask });
                        let forward = SoftmaxCase { tile, ..SoftmaxCase::new(&[2, 2, length]) };
                        let [_, from_x] = from_either(SoftmaxCase { additive, ..forward });
                        from_x.assert_right::<T>(device);
                    }
                }
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

/// Logits below what others take for masked, and a maximum that is exactly that.
fn very_negative_logits<T: Accumulate>() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for values in [
                Values::Between(-20_000.0, -10_000.0),
                Values::Constant(-10_000.0),
                Values::Either(-10_000.0, -10_016.0),
                Values::Constant(lowest(T::DTYPE)),
            ] {
                let forward =
                    SoftmaxCase { values, scale: 1.0, tile, ..SoftmaxCase::new(&[2, length]) };
                let bytes = ByteMask { hidden_rows: 0.4, ..ByteMask::new(&[2, length]) };
                let [_, from_x] = from_either(forward.clone());
                from_x.assert_right::<T>(device);
                let [_, masked] = from_either(SoftmaxCase { bytes: Some(bytes), ..forward });
                masked.assert_right::<T>(device);
            }
        }
    });
}

#[test]
fn very_negative_logits_f16() {
    very_negative_logits::<f16>();
}

#[test]
fn very_negative_logits_f32() {
    very_negative_logits::<f32>();
}

#[test]
fn very_negative_logits_f64() {
    very_negative_logits::<f64>();
}
