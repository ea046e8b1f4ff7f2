//! Kernels' problems, made by hand to be launched in ways that a plan would not choose.

use fused_attention::Tensor;
use kernels::softmax::problem::{Divisor, MAX_ROW_DIMENSIONS, RowDimension, SoftmaxForward};
use std::ptr::{null, null_mut};

/// The softmax of `rows` rows of `columns` columns, one behind the other in both tensors, without
/// masks, lse and shared memory.
pub(super) fn forward(
    x: &Tensor<f32>,
    y: &Tensor<f32>,
    (rows, columns): (usize, usize),
    scale: f64,
) -> SoftmaxForward {
    let mut dimensions = [RowDimension::NONE; MAX_ROW_DIMENSIONS];
    let (size, stride) = (Divisor::new(rows as u32), columns as i64);
    dimensions[0] = RowDimension { size, x: stride, y: stride, ..RowDimension::NONE };
    SoftmaxForward {
        x: x.pointer() as *const _,
        y: y.pointer() as *mut _,
        lse: null_mut(),
        scale_pointer: null(),
        scale,
        bytes: null(),
        additive: null(),
        lengths: null(),
        bank_index: null(),
        bank_size: 0,
        flags: 0,
        bytes_bank: 0,
        additive_bank: 0,
        columns: columns as u64,
        window_left: -1,
        window_right: -1,
        queries: rows as u64,
        first_query: 0,
        rows: rows as u32,
        row_lanes_log2: 5,
        rank: 1,
        slots: 0,
        slots_ahead: 0,
        turns: 1,
        groups: 0,
        dimensions,
    }
}

/// The same, up to the order of sums?
pub(super) fn compare(found: &[f32], expected: &[f32]) -> Result<(), String> {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let close = (found - expected).abs() <= 1e-5 * expected.abs()
            || found == expected
            || found.is_nan() && expected.is_nan();
        if !close {
            return Err(format!("{i}: {found}, not {expected}"));
        }
    }
    Ok(())
}
