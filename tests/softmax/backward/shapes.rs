//! Rows of every length, at every alignment and stride.

use super::{SOURCES, from_either};
use fused_attention::{
    Accumulate, Causal, GradientInputs, RawBackward, RawMask, RawSaved, RawTensor,
    ScaledMaskedSoftmax,
};
use half::{bf16, f16};
use support::{
    on_every_backend,
    placement::Placement,
    softmax_case::{BackwardCase, SoftmaxCase},
};

/// Lengths around those of vectors, warps and tiles, and lengths that people use.
const LENGTHS: [usize; 19] =
    [1, 2, 3, 8, 31, 32, 33, 127, 128, 129, 256, 781, 1023, 1024, 1025, 2049, 4097, 16385, 50259];

fn every_length<T: Accumulate>() {
    on_every_backend(|device| {
        for length in LENGTHS {
            let rows = if length < 10_000 { 3 } else { 1 };
            let placements = [
                (Placement::Contiguous, Placement::Contiguous),
                (Placement::Offset(1), Placement::Offset(1)),
                (Placement::Contiguous, Placement::Sliced(3)),
            ];
            for (i, (x, dp)) in placements.into_iter().enumerate() {
                let forward = SoftmaxCase { x, ..SoftmaxCase::new(&[rows, length]) };
                // Long ones from one source each.
                for case in from_either(forward).into_iter().skip(if rows == 1 { i % 2 } else { 0 })
                {
                    BackwardCase { dp, ..case }.assert_right::<T>(device);
                }
            }
        }
    });
}

#[test]
fn every_length_f16() {
    every_length::<f16>();
}

#[test]
fn every_length_bf16() {
    every_length::<bf16>();
}

#[test]
fn every_length_f32() {
    every_length::<f32>();
}

#[test]
fn every_length_f64() {
    every_length::<f64>();
}

#[test]
fn long_rows() {
    on_every_backend(|device| {
        let [from_p, from_x] = from_either(SoftmaxCase::new(&[1, 131_073]));
        from_p.assert_right::<bf16>(device);
        from_x.assert_right::<f32>(device);
        let [from_p, from_x] = from_either(SoftmaxCase::new(&[1, 1 << 20]));
        from_p.assert_right::<f32>(device);
        from_x.assert_right::<f16>(device);
    });
}

#[test]
fn many_small_rows() {
    on_every_backend(|device| {
        let [from_p, from_x] = from_either(SoftmaxCase::new(&[100_003, 3]));
        from_p.assert_right::<f16>(device);
        from_x.assert_right::<bf16>(device);
    });
}

/// Every way to lie in memory, of either input and of the output, in every rank.
#[test]
fn strides_of_inputs_and_output() {
    use Placement::{Contiguous, Offset, Packed, Permuted, Sliced};
    let shapes: [&[usize]; 5] =
        [&[40], &[5, 24], &[2, 3, 4, 37], &[2, 1, 3, 2, 16], &[2, 1, 2, 2, 1, 3, 72]];
    let placements = [Contiguous, Offset(1), Offset(8), Sliced(3), Sliced(8), Packed, Permuted];
    on_every_backend(|device| {
        for shape in shapes {
            for (i, x) in placements.into_iter().enumerate() {
                for (j, dp) in placements.into_iter().enumerate() {
                    let y = placements[(i + 2 * j) % placements.len()];
                    let forward = SoftmaxCase { x, y, ..SoftmaxCase::new(shape) };
                    let case = BackwardCase::new(SOURCES[(i + j) % 2], forward);
                    let case = BackwardCase { dp, ..case };
                    case.assert_right::<f16>(device);
                    case.assert_right::<f32>(device);
                }
            }
        }
    });
}

/// The largest rank, and dimensions of size 1 between others.
#[test]
fn eight_dimensions() {
    on_every_backend(|device| {
        // Packed needs a dimension more in memory than there can be.
        use Placement::{Contiguous, Permuted, Sliced};
        for (x, dp, y) in [
            (Contiguous, Contiguous, Permuted),
            (Permuted, Sliced(5), Sliced(8)),
            (Sliced(8), Permuted, Contiguous),
        ] {
            let forward = SoftmaxCase::new(&[2, 1, 3, 1, 2, 2, 3, 20]);
            for case in from_either(SoftmaxCase { x, y, ..forward.clone() }) {
                BackwardCase { dp, ..case }.assert_right::<bf16>(device);
            }
        }
    });
}

/// Rows from the last to the first, of each tensor.
#[test]
fn negative_strides() {
    on_every_backend(|device| {
        for columns in [40, 37] {
            let numbers =
                |step: usize| (0..5 * columns).map(move |i| (i * step % 19) as f32 * 0.3).collect();
            let flipped = |numbers: &[f32]| -> Vec<f32> {
                numbers.chunks(columns).rev().flatten().copied().collect()
            };
            let upload = |numbers: &[f32]| device.upload(numbers, &[5, columns]).unwrap();
            let (x, dp): (Vec<f32>, Vec<f32>) = (numbers(37), numbers(23));
            let softmax = ScaledMaskedSoftmax::new(0.5).causal(Causal::TopLeft);
            let inputs = (upload(&x), upload(&dp));
            let dx = softmax.backward(GradientInputs::from_scores(&inputs.0, &inputs.1)).unwrap();
            let expected = dx.to_vec().unwrap();
            let reversed = |tensor: RawTensor| {
                let stride = columns as i64;
                let last = tensor.pointer + 4 * 4 * columns as u64;
                RawTensor::new(last, tensor.dtype, &tensor.shape, &[-stride, 1]).unwrap()
            };
            let (x, dp) = (upload(&flipped(&x)), upload(&flipped(&dp)));
            let dx = device.zeros::<f32>(&[5, columns]).unwrap();
            let tensors = RawBackward {
                saved: RawSaved::Scores(reversed((&x).into())),
                dp: reversed((&dp).into()),
                dx: reversed((&dx).into()),
                scale: None,
                mask: RawMask::default(),
            };
            // SAFETY: the rows of tensors that live until their elements have been read.
            unsafe { softmax.backward_raw(&device.default_stream(), &tensors) }.unwrap();
            // Perhaps by another tile, which sums up in another order.
            for (found, expected) in flipped(&dx.to_vec().unwrap()).iter().zip(&expected) {
                assert!((found - expected).abs() <= 1e-6, "{found}, expected {expected}");
            }
        }
    });
}

/// One row of scores for all gradients, and the other way round.
#[test]
fn repeated_inputs() {
    on_every_backend(|device| {
        let row =
            |step: usize| -> Vec<f32> { (0..100).map(|i| (i * step % 19) as f32 * 0.3).collect() };
        let (x, dp) = (device.upload(&row(37), &[100]).unwrap(), device.upload(&row(23), &[100]));
        let dp = dp.unwrap();
        let softmax = ScaledMaskedSoftmax::new(0.5);
        let alone = softmax.backward(GradientInputs::from_scores(&x, &dp)).unwrap();
        let expected = alone.to_vec().unwrap().repeat(60);
        let many = [3, 4, 5, 100];
        let whole = |row: &[f32]| device.upload(&row.repeat(60), &many).unwrap();
        let (all_x, all_dp) = (whole(&row(37)), whole(&row(23)));
        for (x, dp) in [
            (x.expand(&many).unwrap(), all_dp),
            (all_x, dp.expand(&many).unwrap()),
            (x.expand(&many).unwrap(), dp.expand(&many).unwrap()),
        ] {
            let found = softmax.backward(GradientInputs::from_scores(&x, &dp)).unwrap();
            assert_eq!(found.to_vec().unwrap(), expected);
        }
    });
}
