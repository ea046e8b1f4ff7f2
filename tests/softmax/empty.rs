//! Tensors without elements: nothing to do, and no error.

use fused_attention::{
    Accumulate, Causal, Device, Dtype, Mask, Per, Polarity, RawForward, RawMask, RawTensor,
    RowLengths, ScaledMaskedSoftmax, SoftmaxInputs,
};
use half::{bf16, f16};
use support::{
    on_every_backend,
    softmax_case::{AdditiveMask, Bank, ByteMask, Lengths, SoftmaxCase},
};

const SHAPES: [&[usize]; 8] =
    [&[0], &[0, 0], &[0, 5], &[3, 0], &[0, 3, 5], &[2, 0, 5], &[2, 3, 0], &[2, 0, 3, 0]];

fn empty<T: Accumulate>() {
    on_every_backend(|device| {
        for shape in SHAPES {
            let plain = SoftmaxCase::new(shape);
            plain.assert_right::<T>(device);
            SoftmaxCase { scale_on_device: true, ..plain.clone() }.assert_right::<T>(device);
            for causal in [Causal::TopLeft, Causal::BottomRight] {
                let causal = Some(causal);
                SoftmaxCase { causal, ..plain.clone() }.assert_right::<T>(device);
            }
            // Masks of x's shape, of one column, and of one element.
            let narrow: Vec<_> = shape[..shape.len() - 1].iter().copied().chain([1]).collect();
            for of_mask in [shape.to_vec(), narrow, vec![1]] {
                let bytes = Some(ByteMask::new(&of_mask));
                let additive = Some(AdditiveMask::new(&of_mask));
                let with_bytes = SoftmaxCase { bytes, ..plain.clone() };
                with_bytes.assert_right::<T>(device);
                let both = SoftmaxCase { additive, ..with_bytes.clone() };
                both.assert_right::<T>(device);
                let bank = Some(Bank::random(2));
                SoftmaxCase { bank, ..both }.assert_right::<T>(device);
            }
            for per in [Per::Batch, Per::Row] {
                let lengths = Some(Lengths::random(per));
                SoftmaxCase { lengths, ..plain.clone() }.assert_right::<T>(device);
            }
        }
    });
}

#[test]
fn empty_f16() {
    empty::<f16>();
}

#[test]
fn empty_bf16() {
    empty::<bf16>();
}

#[test]
fn empty_f32() {
    empty::<f32>();
}

#[test]
fn empty_f64() {
    empty::<f64>();
}

/// Rows without columns see nothing: their lse is written all the same.
#[test]
fn rows_without_columns_have_an_lse() {
    on_every_backend(|device| {
        let x = device.upload::<f32>(&[], &[2, 3, 0]).unwrap();
        let (y, lse) =
            ScaledMaskedSoftmax::new(1.0).forward_with_lse(SoftmaxInputs::new(&x)).unwrap();
        assert_eq!(y.shape(), [2, 3, 0]);
        assert_eq!(lse.to_vec().unwrap(), [f32::NEG_INFINITY; 6]);
    });
}

/// What has no elements needs no address: null pointers, and strides of 0.
#[test]
fn null_pointers_without_elements() {
    fn run(device: &Device, shape: &[usize], strides: &[i64], of_mask: &[i64]) {
        let raw = |dtype| RawTensor::new(0, dtype, shape, strides).unwrap();
        let mask = |dtype| RawTensor::new(0, dtype, shape, of_mask).unwrap();
        let tensors = RawForward {
            x: raw(Dtype::F16),
            y: raw(Dtype::F16),
            lse: None,
            scale: None,
            mask: RawMask {
                bytes: Some((mask(Dtype::U8), Polarity::Keep)),
                additive: Some(mask(Dtype::F32)),
                ..RawMask::default()
            },
        };
        let softmax = ScaledMaskedSoftmax::new(1.0);
        // SAFETY: tensors without elements.
        unsafe { softmax.forward_raw(&device.default_stream(), &tensors) }.unwrap();
        device.synchronize().unwrap();
    }
    on_every_backend(|device| {
        run(device, &[3, 0], &[0, 1], &[0, 0]);
        run(device, &[3, 0], &[0, 0], &[0, 1]);
        run(device, &[0, 7], &[7, 1], &[0, 0]);
        run(device, &[0], &[1], &[0]);
    });
}

/// An empty batch with lengths and masks that are empty too.
#[test]
fn an_empty_batch() {
    on_every_backend(|device| {
        let x = device.upload::<bf16>(&[], &[0, 3, 5]).unwrap();
        let lengths = RowLengths::per_batch(device, &[]).unwrap();
        let bytes = device.upload::<u8>(&[], &[0, 1, 5]).unwrap();
        let softmax = ScaledMaskedSoftmax::new(1.0).causal(Causal::BottomRight);
        let y = softmax.forward(&x, Mask::exclude(&bytes).lengths(&lengths)).unwrap();
        assert_eq!(y.to_vec().unwrap(), []);
    });
}
