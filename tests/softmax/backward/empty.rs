//! Tensors without elements: nothing to do, and no error.

use super::from_either;
use fused_attention::{
    Accumulate, Causal, Dtype, Per, Polarity, RawBackward, RawMask, RawSaved, RawTensor,
    ScaledMaskedSoftmax,
};
use half::f16;
use support::{
    on_every_backend,
    softmax_case::{AdditiveMask, ByteMask, Lengths, SoftmaxCase},
};

const SHAPES: [&[usize]; 8] =
    [&[0], &[0, 0], &[0, 5], &[3, 0], &[0, 3, 5], &[2, 0, 5], &[2, 3, 0], &[2, 0, 3, 0]];

fn empty<T: Accumulate>() {
    on_every_backend(|device| {
        for shape in SHAPES {
            let plain = SoftmaxCase::new(shape);
            let bytes = Some(ByteMask::new(shape));
            let additive = Some(AdditiveMask::new(&[1]));
            let masked = SoftmaxCase { bytes, additive, ..plain.clone() };
            let lengths = Some(Lengths::random(Per::Row));
            let causal = Some(Causal::BottomRight);
            let ranged = SoftmaxCase { lengths, causal, ..plain.clone() };
            for case in [plain, masked, ranged].into_iter().flat_map(from_either) {
                case.assert_right::<T>(device);
            }
        }
    });
}

#[test]
fn empty_f16() {
    empty::<f16>();
}

#[test]
fn empty_f64() {
    empty::<f64>();
}

/// What has no elements needs no address, is not launched, and may have any strides.
#[test]
fn null_pointers_without_elements() {
    on_every_backend(|device| {
        for (shape, strides) in
            [([3, 0], [0, 1]), ([3, 0], [0, 0]), ([0, 7], [7, 1]), ([1 << 36, 0], [0, 1])]
        {
            let raw = |dtype| RawTensor::new(0, dtype, &shape, &strides).unwrap();
            let (tensor, stream) = (raw(Dtype::F16), device.default_stream());
            for saved in [RawSaved::Probabilities(tensor), RawSaved::Scores(tensor)] {
                let mask =
                    RawMask { bytes: Some((raw(Dtype::U8), Polarity::Keep)), ..RawMask::default() };
                let tensors = RawBackward { saved, dp: tensor, dx: tensor, scale: None, mask };
                let softmax = ScaledMaskedSoftmax::new(1.0);
                // SAFETY: tensors without elements.
                unsafe { softmax.backward_raw(&stream, &tensors) }.unwrap();
                let found = softmax.explain_backward_raw(&stream, &tensors).unwrap();
                assert!(found.launches.is_empty(), "{found}");
            }
        }
    });
}
