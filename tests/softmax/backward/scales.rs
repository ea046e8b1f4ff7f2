//! Scales of every sign and size, and inputs at the ends of their type's range.

use super::{super::masked_rows::lowest, ROWS, from_either};
use fused_attention::{Accumulate, Dtype};
use half::{bf16, f16};
use support::{
    on_every_backend,
    softmax_case::{AdditiveMask, ByteMask, SoftmaxCase, Values},
};

fn scales<T: Accumulate>() {
    let scales = [0.0, -0.0, 1.0, -0.7, 1e4, -1e4, 1e-4, 1e-30, f64::NAN];
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for (i, scale) in scales.into_iter().enumerate() {
                let forward = SoftmaxCase { tile, scale, ..SoftmaxCase::new(&[2, length]) };
                let forward = SoftmaxCase { scale_on_device: i % 2 == 0, ..forward };
                for case in from_either(forward.clone()) {
                    case.assert_right::<T>(device);
                }
                let bytes = Some(ByteMask { hidden_rows: 0.3, ..ByteMask::new(&[2, length]) });
                let [_, masked] = from_either(SoftmaxCase { bytes, ..forward.clone() });
                masked.assert_right::<T>(device);
                let additive = Some(AdditiveMask::new(&[2, length]));
                let [_, masked] = from_either(SoftmaxCase { additive, ..forward });
                masked.assert_right::<T>(device);
            }
        }
    });
}

#[test]
fn scales_f16() {
    scales::<f16>();
}

#[test]
fn scales_bf16() {
    scales::<bf16>();
}

#[test]
fn scales_f32() {
    scales::<f32>();
}

#[test]
fn scales_f64() {
    scales::<f64>();
}

/// Inputs up to the largest number there is, times large scales: nothing overflows before the
/// maximum is subtracted.
fn huge_inputs<T: Accumulate>() {
    let max = -lowest(T::DTYPE);
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for values in [
                Values::Between(-max, max),
                Values::Either(max, -max),
                Values::Constant(max),
                Values::Between(0.999 * max, max),
            ] {
                // 3 / max makes scores of up to 3, of both signs.
                for scale in [1.0, -1e4, 3.0 / max] {
                    let scale = if T::DTYPE == Dtype::F64 { scale.clamp(-1.0, 1.0) } else { scale };
                    let forward = SoftmaxCase { tile, ..SoftmaxCase::new(&[2, length]) };
                    let [_, from_x] = from_either(SoftmaxCase { values, scale, ..forward });
                    from_x.assert_right::<T>(device);
                }
            }
        }
    });
}

#[test]
fn huge_inputs_f16() {
    huge_inputs::<f16>();
}

#[test]
fn huge_inputs_bf16() {
    huge_inputs::<bf16>();
}

#[test]
fn huge_inputs_f32() {
    huge_inputs::<f32>();
}

#[test]
fn huge_inputs_f64() {
    huge_inputs::<f64>();
}

/// A scale that is infinite in the type it is used in, as plain arithmetic has it.
#[test]
fn infinite_scales() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for scale in [f64::INFINITY, -1e39] {
                for values in [Values::Normal, Values::Constant(-1.0)] {
                    let forward = SoftmaxCase { tile, ..SoftmaxCase::new(&[2, length]) };
                    for case in from_either(SoftmaxCase { values, scale, ..forward }) {
                        case.assert_right::<f16>(device);
                        case.assert_right::<f32>(device);
                    }
                }
            }
        }
    });
}
