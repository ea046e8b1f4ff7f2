//! Rows of every length, at every alignment and stride.

use fused_attention::{
    Accumulate, Causal, Mask, RawForward, RawMask, RawTensor, ScaledMaskedSoftmax,
};
use half::{bf16, f16};
use support::{on_every_backend, placement::Placement, softmax_case::SoftmaxCase};

/// Lengths around those of vectors, warps and tiles, and lengths that people use.
const LENGTHS: [usize; 19] =
    [1, 2, 3, 8, 31, 32, 33, 127, 128, 129, 256, 781, 1023, 1024, 1025, 2049, 4097, 16385, 50259];

/// One row longer than any cluster holds of 16-bit elements is left to the streamed kernels.
const LONG: [usize; 2] = [131_073, 1 << 20];

fn every_length<T: Accumulate>() {
    on_every_backend(|device| {
        for length in LENGTHS {
            let rows = if length < 10_000 { 3 } else { 1 };
            for x in [Placement::Contiguous, Placement::Offset(1), Placement::Sliced(3)] {
                SoftmaxCase { x, ..SoftmaxCase::new(&[rows, length]) }.assert_right::<T>(device);
            }
        }
    });
}

fn long_rows<T: Accumulate>() {
    on_every_backend(|device| {
        for length in LONG {
            SoftmaxCase::new(&[1, length]).assert_right::<T>(device);
        }
        let case = SoftmaxCase::new(&[2, LONG[0]]);
        SoftmaxCase { x: Placement::Offset(3), ..case }.assert_right::<T>(device);
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
fn long_rows_f16() {
    long_rows::<f16>();
}

#[test]
fn long_rows_bf16() {
    long_rows::<bf16>();
}

#[test]
fn long_rows_f32() {
    long_rows::<f32>();
}

#[test]
fn long_rows_f64() {
    long_rows::<f64>();
}

#[test]
fn many_small_rows() {
    on_every_backend(|device| {
        SoftmaxCase::new(&[1_000_003, 3]).assert_right::<f16>(device);
        SoftmaxCase::new(&[100_003, 8]).assert_right::<bf16>(device);
    });
}

/// Every way to lie in memory, of x and of y, in every rank.
#[test]
fn strides_of_input_and_output() {
    use Placement::{Contiguous, Offset, Packed, Permuted, Sliced};
    let shapes: [&[usize]; 7] = [
        &[40],
        &[5, 24],
        &[2, 3, 56],
        &[2, 3, 4, 37],
        &[2, 1, 3, 2, 16],
        &[2, 2, 1, 2, 3, 40],
        &[2, 1, 2, 2, 1, 3, 72],
    ];
    let placements = [Contiguous, Offset(1), Offset(8), Sliced(3), Sliced(8), Packed, Permuted];
    on_every_backend(|device| {
        for shape in shapes {
            for x in placements {
                for y in placements {
                    let case = SoftmaxCase { x, y, ..SoftmaxCase::new(shape) };
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
        for (x, y) in [(Contiguous, Permuted), (Permuted, Sliced(5)), (Sliced(8), Contiguous)] {
            let case = SoftmaxCase::new(&[2, 1, 3, 1, 2, 2, 3, 20]);
            SoftmaxCase { x, y, ..case }.assert_right::<bf16>(device);
        }
    });
}

/// Rows from the last to the first, of x and of y.
#[test]
fn negative_strides() {
    on_every_backend(|device| {
        for columns in [40, 37] {
            let numbers: Vec<f32> = (0..5 * columns).map(|i| (i * 37 % 19) as f32 * 0.3).collect();
            let x = device.upload(&numbers, &[5, columns]).unwrap();
            let softmax = ScaledMaskedSoftmax::new(0.5).causal(Causal::TopLeft);
            let reversed = |tensor: RawTensor| {
                let stride = columns as i64;
                let last = tensor.pointer + 4 * 4 * columns as u64;
                RawTensor::new(last, tensor.dtype, &tensor.shape, &[-stride, 1]).unwrap()
            };
            let rows: Vec<f32> = numbers.chunks(columns).rev().flatten().copied().collect();
            let upside_down = device.upload(&rows, &[5, columns]).unwrap();
            let expected = softmax.forward(&upside_down, Mask::none()).unwrap().to_vec().unwrap();
            let y = device.zeros::<f32>(&[5, columns]).unwrap();
            let plain =
                |x, y| RawForward { x, y, lse: None, scale: None, mask: RawMask::default() };
            let stream = device.default_stream();
            // SAFETY: the rows of tensors that live until their elements have been read.
            unsafe {
                softmax.forward_raw(&stream, &plain(reversed((&x).into()), (&y).into())).unwrap();
                assert_eq!(y.to_vec().unwrap(), expected);
                let upright = RawTensor::from(&upside_down);
                softmax.forward_raw(&stream, &plain(upright, reversed((&y).into()))).unwrap();
            }
            let found = y.to_vec().unwrap();
            let found: Vec<f32> = found.chunks(columns).rev().flatten().copied().collect();
            assert_eq!(found, expected);
        }
    });
}

/// Rows that are all the same memory, and heads that share theirs.
#[test]
fn repeated_input() {
    on_every_backend(|device| {
        let row: Vec<f32> = (0..100).map(|i| (i * 37 % 19) as f32 * 0.3).collect();
        let one = device.upload(&row, &[100]).unwrap();
        let softmax = ScaledMaskedSoftmax::new(0.5);
        let alone = softmax.forward(&one, Mask::none()).unwrap();
        let expected = alone.to_vec().unwrap();
        let many = one.expand(&[3, 4, 5, 100]).unwrap();
        let found = softmax.forward(&many, Mask::none()).unwrap();
        assert_eq!(found.to_vec().unwrap(), expected.repeat(60));
    });
}
