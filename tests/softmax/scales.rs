//! Scales of every sign and size, and inputs at the ends of their type's range.

use super::ROWS;
use fused_attention::{Accumulate, Dtype};
use half::{bf16, f16};
use support::{
    on_every_backend,
    softmax_case::{AdditiveMask, ByteMask, SoftmaxCase, Values},
};

/// The largest finite number of a type.
fn largest(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 65504.0,
        Dtype::Bf16 => bf16::MAX.to_f64(),
        Dtype::F32 => f32::MAX.into(),
        _ => f64::MAX,
    }
}

fn scales<T: Accumulate>() {
    let scales = [0.0, -0.0, 1.0, -1.0, 0.125, -0.7, 1e4, -1e4, 1e-4, 1e-30, 1e30, -1e30, f64::NAN];
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for scale in scales {
                for scale_on_device in [false, true] {
                    let case =
                        SoftmaxCase { tile, scale_on_device, ..SoftmaxCase::new(&[2, length]) };
                    let case = SoftmaxCase { scale, ..case };
                    case.assert_right::<T>(device);
                    let bytes = Some(ByteMask { hidden_rows: 0.3, ..ByteMask::new(&[2, length]) });
                    SoftmaxCase { bytes, ..case.clone() }.assert_right::<T>(device);
                    let additive = Some(AdditiveMask::new(&[2, length]));
                    SoftmaxCase { additive, ..case }.assert_right::<T>(device);
                }
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

/// Inputs up to the largest number there is, times scales from the smallest to the largest that
/// the products allow in f64: nothing overflows before the maximum is subtracted.
fn huge_inputs<T: Accumulate>() {
    let max = largest(T::DTYPE);
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for values in [
                Values::Between(-max, max),
                Values::Either(max, -max),
                Values::Constant(max),
                Values::Constant(-max),
                Values::Between(0.999 * max, max),
            ] {
                // 3 / max makes scores of up to 3, of both signs.
                for scale in [1.0, -1.0, 1e4, -1e4, 0.5, 3.0 / max, -3.0 / max, 0.0] {
                    let scale = if T::DTYPE == Dtype::F64 { scale.clamp(-1.0, 1.0) } else { scale };
                    let case = SoftmaxCase {
                        values,
                        scale,
                        ..SoftmaxCase { tile, ..SoftmaxCase::new(&[2, length]) }
                    };
                    case.assert_right::<T>(device);
                    let bytes = Some(ByteMask::new(&[2, length]));
                    SoftmaxCase { bytes, ..case }.assert_right::<T>(device);
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

/// With an additive mask, products of f16's largest numbers and a large scale stay within f32.
#[test]
fn huge_f16_inputs_with_an_additive_mask() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for scale in [1e4, -1e4, 0.0, 3.0 / 65504.0] {
                for values in [Values::Between(-65504.0, 65504.0), Values::Constant(65504.0)] {
                    let additive = Some(AdditiveMask::new(&[2, length]));
                    let case = SoftmaxCase {
                        values,
                        scale,
                        ..SoftmaxCase { tile, ..SoftmaxCase::new(&[2, length]) }
                    };
                    SoftmaxCase { additive, ..case }.assert_right::<f16>(device);
                }
            }
        }
    });
}

/// Numbers below the smallest normal one, which a large scale makes count.
#[test]
fn tiny_inputs() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            let case = SoftmaxCase { tile, ..SoftmaxCase::new(&[2, length]) };
            let f16_tiny = SoftmaxCase { values: Values::Scaled(1e-6), scale: 1e6, ..case.clone() };
            f16_tiny.assert_right::<f16>(device);
            let f32_tiny = SoftmaxCase { values: Values::Scaled(1e-38), scale: 1e38, ..case };
            f32_tiny.assert_right::<f32>(device);
            f32_tiny.assert_right::<bf16>(device);
        }
    });
}

/// A scale that is infinite in the type it is used in makes infinite scores, as plain arithmetic
/// does.
#[test]
fn infinite_scales() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for scale in [f64::INFINITY, f64::NEG_INFINITY, 1e39, -1e39] {
                for values in [Values::Normal, Values::Constant(1.0), Values::Constant(-1.0)] {
                    for scale_on_device in [false, true] {
                        let case = SoftmaxCase { tile, ..SoftmaxCase::new(&[2, length]) };
                        let case = SoftmaxCase { values, scale, scale_on_device, ..case };
                        case.assert_right::<f16>(device);
                        case.assert_right::<f32>(device);
                    }
                }
            }
        }
    });
}
