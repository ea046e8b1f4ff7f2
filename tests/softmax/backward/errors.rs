//! Everything that the backward refuses: by its own error, with its values, before anything is
//! written.

use fused_attention::{
    BankIndex, Device, Dtype, Error, GradientInputs, Mask, Per, Polarity, RawBackward, RawSaved,
    RawTensor, RowLengths, ScaledMaskedSoftmax, Tensor,
};
use support::{gpus, on_every_backend};

const SHAPE: [usize; 3] = [2, 3, 8];
const STRIDES: [i64; 3] = [24, 8, 1];
const UNTOUCHED: f32 = 7.0;

/// A problem that is right, to be made wrong in one thing.
struct Problem {
    device: Device,
    saved: Tensor<f32>,
    dp: Tensor<f32>,
    dx: Tensor<f32>,
    scale: Tensor<f32>,
    bytes: Tensor<u8>,
    additive: Tensor<f32>,
    lengths: Tensor<i32>,
    index: Tensor<i32>,
}

impl Problem {
    fn new(device: &Device) -> Self {
        let filled = |shape: &[usize]| {
            device.upload(&vec![UNTOUCHED; shape.iter().product()], shape).unwrap()
        };
        Problem {
            saved: filled(&SHAPE),
            dp: filled(&SHAPE),
            dx: filled(&SHAPE),
            scale: filled(&[1]),
            bytes: device.zeros(&[2, 2, 3, 8]).unwrap(),
            additive: device.zeros(&[2, 2, 3, 8]).unwrap(),
            lengths: device.zeros(&[2]).unwrap(),
            index: device.zeros(&[2]).unwrap(),
            device: device.clone(),
        }
    }

    /// All of it, from either source.
    fn full(&self) -> [RawBackward; 2] {
        let saved = RawTensor::from(&self.saved);
        [RawSaved::Probabilities(saved), RawSaved::Scores(saved)].map(|saved| {
            let mut tensors = RawBackward {
                saved,
                dp: (&self.dp).into(),
                dx: (&self.dx).into(),
                scale: Some((&self.scale).into()),
                mask: Default::default(),
            };
            tensors.mask.bytes = Some(((&self.bytes).into(), Polarity::Exclude));
            tensors.mask.additive = Some((&self.additive).into());
            tensors.mask.lengths = Some(((&self.lengths).into(), Per::Batch));
            tensors.mask.bank_index = Some((&self.index).into());
            tensors
        })
    }

    /// The error of a call with these tensors; nothing may be written.
    #[track_caller]
    fn refuse(&self, softmax: ScaledMaskedSoftmax, tensors: RawBackward) -> Error {
        // SAFETY: what is right of the tensors is memory of the device, and the rest is refused.
        let result = unsafe { softmax.backward_raw(&self.device.default_stream(), &tensors) };
        let error = result.expect_err("should have been refused");
        self.check_untouched();
        error
    }

    #[track_caller]
    fn check_untouched(&self) {
        self.device.synchronize().unwrap();
        for tensor in [&self.saved, &self.dp, &self.dx] {
            assert_eq!(tensor.to_vec().unwrap(), [UNTOUCHED; 48]);
        }
    }
}

/// What the forward left, to be changed.
fn saved(tensors: &mut RawBackward) -> &mut RawTensor {
    match &mut tensors.saved {
        RawSaved::Probabilities(p) => p,
        RawSaved::Scores(x) => x,
        other => unreachable!("{other:?}"),
    }
}

/// On every backend, from either source: a call whose tensors `$change` has made wrong gives
/// `$error`.
macro_rules! refused {
    ($(|$tensors:ident, $problem:ident| $change:expr => $error:pat,)*) => {
        on_every_backend(|device| {
            let problem = Problem::new(device);
            $(for mut tensors in problem.full() {
                let change = |$tensors: &mut RawBackward, $problem: &Problem| {
                    let _ = $problem;
                    $change
                };
                change(&mut tensors, &problem);
                let error = problem.refuse(ScaledMaskedSoftmax::new(1.0), tensors);
                assert!(matches!(&error, $error), "{}: {error:?}", stringify!($change));
            })*
        });
    };
}

/// The same memory in another form.
fn reshaped(tensor: RawTensor, shape: &[usize], strides: &[i64]) -> RawTensor {
    RawTensor::new(tensor.pointer, tensor.dtype, shape, strides).unwrap()
}

fn of_dtype(tensor: RawTensor, dtype: Dtype) -> RawTensor {
    RawTensor { dtype, ..tensor }
}

#[test]
fn element_types() {
    refused! {
        |t, _p| *saved(t) = of_dtype(*saved(t), Dtype::U8) =>
            Error::UnsupportedDtype { tensor: "p" | "x", found: Dtype::U8 },
        |t, _p| t.dp = of_dtype(t.dp, Dtype::F16) =>
            Error::DtypeMismatch { tensor: "dp", expected: Dtype::F32, found: Dtype::F16 },
        |t, _p| t.dx = of_dtype(t.dx, Dtype::Bf16) =>
            Error::DtypeMismatch { tensor: "dx", expected: Dtype::F32, found: Dtype::Bf16 },
        |t, p| t.scale = Some(of_dtype((&p.scale).into(), Dtype::F64)) =>
            Error::DtypeMismatch { tensor: "scale", expected: Dtype::F32, found: Dtype::F64 },
        |t, p| t.mask.bytes = Some(((&p.additive).into(), Polarity::Keep)) =>
            Error::DtypeMismatch { tensor: "mask", expected: Dtype::U8, found: Dtype::F32 },
        |t, p| t.mask.additive = Some((&p.bytes).into()) =>
            Error::DtypeMismatch { tensor: "additive mask", expected: Dtype::F32, .. },
        |t, p| t.mask.lengths = Some((of_dtype((&p.lengths).into(), Dtype::U8), Per::Batch)) =>
            Error::DtypeMismatch { tensor: "lengths", expected: Dtype::I32, .. },
        |t, p| t.mask.bank_index = Some(of_dtype((&p.index).into(), Dtype::F32)) =>
            Error::DtypeMismatch { tensor: "bank index", expected: Dtype::I32, .. },
    }
}

#[test]
fn ranks_and_shapes() {
    refused! {
        |t, _p| *saved(t) = reshaped(*saved(t), &[], &[]) =>
            Error::RankMismatch { tensor: "p" | "x", expected: 1, found: 0 },
        |t, _p| t.dp = reshaped(t.dp, &[6, 8], &[8, 1]) =>
            Error::ShapeMismatch { tensor: "dp", .. },
        |t, _p| t.dp = reshaped(t.dp, &[2, 3, 7], &STRIDES) =>
            Error::ShapeMismatch { tensor: "dp", .. },
        |t, _p| t.dx = reshaped(t.dx, &[1, 3, 8], &STRIDES) =>
            Error::ShapeMismatch { tensor: "dx", .. },
        |t, p| t.scale = Some(reshaped((&p.scale).into(), &[2], &[1])) =>
            Error::ShapeMismatch { tensor: "scale", .. },
        |t, p| t.mask.lengths =
                Some((reshaped((&p.lengths).into(), &[3], &[0]), Per::Batch)) =>
            Error::ShapeMismatch { tensor: "lengths", .. },
        |t, p| t.mask.bank_index = Some(reshaped((&p.index).into(), &[1], &[1])) =>
            Error::ShapeMismatch { tensor: "bank index", .. },
        |t, p| t.mask.bytes =
                Some((reshaped((&p.bytes).into(), &[2, 3, 3, 8], &[0, 24, 8, 1]), Polarity::Keep)) =>
            Error::NotBroadcastable { tensor: "mask", .. },
        |t, p| t.mask.additive = Some(reshaped((&p.additive).into(), &[2, 7], &[8, 1])) =>
            Error::NotBroadcastable { tensor: "additive mask", .. },
        |t, _p| (t.mask.bytes, t.mask.additive) = (None, None) => Error::MissingMaskBank,
    }
}

#[test]
fn strides() {
    refused! {
        |t, _p| *saved(t) = reshaped(*saved(t), &[2, 3, 4], &[24, 8, 2]) =>
            Error::UnsupportedStride { tensor: "p" | "x", dim: 2, found: 2, .. },
        |t, _p| t.dp = reshaped(t.dp, &SHAPE, &[24, 8, 0]) =>
            Error::UnsupportedStride { tensor: "dp", dim: 2, found: 0, .. },
        |t, _p| t.dx = reshaped(t.dx, &SHAPE, &[1, 2, 6]) =>
            Error::UnsupportedStride { tensor: "dx", dim: 2, found: 6, .. },
        |t, p| t.mask.bytes = Some((
                reshaped((&p.bytes).into(), &[2, 2, 3, 8], &[48, 24, 1, 3]), Polarity::Keep
            )) =>
            Error::UnsupportedStride { tensor: "mask", found: 3, .. },
        |t, _p| t.dx = reshaped(t.dx, &SHAPE, &[0, 8, 1]) =>
            Error::SelfOverlappingOutput { output: "dx", .. },
        |t, _p| t.dx = reshaped(t.dx, &SHAPE, &[24, 7, 1]) =>
            Error::SelfOverlappingOutput { output: "dx", .. },
    }
}

#[test]
fn pointers() {
    const FAR: i64 = i64::MAX / 2;
    let null = |tensor: RawTensor| RawTensor { pointer: 0, ..tensor };
    let odd = |tensor: RawTensor| RawTensor { pointer: tensor.pointer + 1, ..tensor };
    refused! {
        |t, _p| *saved(t) = null(*saved(t)) => Error::NullPointer { tensor: "p" | "x" },
        |t, _p| t.dp = null(t.dp) => Error::NullPointer { tensor: "dp" },
        |t, _p| t.dx = null(t.dx) => Error::NullPointer { tensor: "dx" },
        |t, _p| t.scale = t.scale.map(null) => Error::NullPointer { tensor: "scale" },
        |t, _p| *saved(t) = odd(*saved(t)) =>
            Error::BelowElementAlignment { tensor: "p" | "x", dtype: Dtype::F32, .. },
        |t, _p| t.dp = odd(t.dp) => Error::BelowElementAlignment { tensor: "dp", .. },
        |t, _p| t.dx = odd(t.dx) => Error::BelowElementAlignment { tensor: "dx", .. },
        |t, _p| t.mask.additive = t.mask.additive.map(odd) =>
            Error::BelowElementAlignment { tensor: "additive mask", .. },
        |t, _p| t.dp = reshaped(t.dp, &SHAPE, &[FAR, FAR, 1]) => Error::SizeOverflow { .. },
    }
}

/// The result in place of an input that it does not match, and over anything else.
#[test]
fn overlapping_outputs() {
    let at = |tensor: RawTensor, other: RawTensor| RawTensor { pointer: other.pointer, ..tensor };
    let moved = |tensor: RawTensor, by: u64| RawTensor { pointer: tensor.pointer + by, ..tensor };
    // The same memory, in which the rows stand in another order.
    let permuted = |tensor: RawTensor| reshaped(tensor, &SHAPE, &[8, 16, 1]);
    refused! {
        |t, _p| t.dx = moved(t.dp, 4) => Error::OverlappingOutput { output: "dx", other: "dp" },
        |t, _p| t.dx = moved(t.dp, 47 * 4) =>
            Error::OverlappingOutput { output: "dx", other: "dp" },
        |t, _p| t.dp = moved(t.dx, 32) => Error::OverlappingOutput { output: "dx", other: "dp" },
        |t, _p| t.dx = permuted(t.dp) => Error::OverlappingOutput { output: "dx", other: "dp" },
        |t, _p| t.dx = permuted(*saved(t)) =>
            Error::OverlappingOutput { output: "dx", other: "p" | "x" },
        |t, _p| t.dx = moved(*saved(t), 4) =>
            Error::OverlappingOutput { output: "dx", other: "p" | "x" },
        // One of the two in place does not excuse the other.
        |t, _p| (t.dx, t.dp) = (*saved(t), moved(*saved(t), 4)) =>
            Error::OverlappingOutput { output: "dx", other: "dp" },
        |t, p| t.dx = at(t.dx, (&p.bytes).into()) =>
            Error::OverlappingOutput { output: "dx", other: "mask" },
        |t, _p| (t.dp, t.mask.additive, t.mask.bank_index) = (t.dx, Some(t.dx), None) =>
            Error::OverlappingOutput { output: "dx", other: "additive mask" },
        |t, p| t.mask.lengths = Some((at((&p.lengths).into(), t.dx), Per::Batch)) =>
            Error::OverlappingOutput { output: "dx", other: "lengths" },
        |t, p| t.mask.bank_index = Some(at((&p.index).into(), moved(t.dx, 40))) =>
            Error::OverlappingOutput { output: "dx", other: "bank index" },
        |t, p| t.scale = Some(at((&p.scale).into(), moved(t.dx, 40))) =>
            Error::OverlappingOutput { output: "dx", other: "scale" },
    }
}

/// Each source has its own name in errors.
#[test]
fn sources_by_name() {
    on_every_backend(|device| {
        let problem = Problem::new(device);
        for (mut tensors, name) in problem.full().into_iter().zip(["p", "x"]) {
            saved(&mut tensors).pointer = 0;
            let error = problem.refuse(ScaledMaskedSoftmax::new(1.0), tensors);
            assert!(matches!(error, Error::NullPointer { tensor } if tensor == name), "{error:?}");
        }
    });
}

/// Values that the host knows.
#[test]
fn lengths_and_indices() {
    on_every_backend(|device| {
        let problem = Problem::new(device);
        let (stream, softmax) = (device.default_stream(), ScaledMaskedSoftmax::new(1.0));
        let lengths = RowLengths::per_batch(device, &[0, 9]).unwrap();
        let index = BankIndex::per_batch(device, &[-1, 0]).unwrap();
        for inputs in [
            GradientInputs::from_probabilities(&problem.saved, &problem.dp),
            GradientInputs::from_scores(&problem.saved, &problem.dp),
        ] {
            let too_long = inputs.mask(Mask::none().lengths(&lengths));
            let error = softmax.backward_into(&stream, too_long, &problem.dx).unwrap_err();
            assert!(
                matches!(error, Error::LengthBeyondRow { index: 1, length: 9, row: 8 }),
                "{error:?}"
            );
            let outside = inputs.mask(Mask::exclude(&problem.bytes).from_bank(&index));
            let error = softmax.backward_into(&stream, outside, &problem.dx).unwrap_err();
            assert!(
                matches!(error, Error::BankIndexOutOfRange { index: 0, value: -1, bank: 2 }),
                "{error:?}"
            );
            problem.check_untouched();
        }
    });
}

/// Tensors on another device than the others, and a stream of another.
#[test]
fn devices() {
    for gpu in gpus() {
        let (here, there) = (Problem::new(&gpu), Problem::new(&Device::emulator()));
        let (stream, softmax) = (gpu.default_stream(), ScaledMaskedSoftmax::new(1.0));
        let refused = |inputs: GradientInputs<'_, f32>, dx| {
            let error = softmax.backward_into(&stream, inputs, dx).unwrap_err();
            here.check_untouched();
            there.check_untouched();
            match error {
                Error::DeviceMismatch { tensor, .. } => tensor,
                error => panic!("{error:?}"),
            }
        };
        let inputs = GradientInputs::from_probabilities(&here.saved, &here.dp);
        let foreign = GradientInputs::from_probabilities(&there.saved, &here.dp);
        assert_eq!(refused(foreign, &here.dx), "p");
        assert_eq!(refused(GradientInputs::from_scores(&there.saved, &here.dp), &here.dx), "x");
        assert_eq!(refused(GradientInputs::from_scores(&here.saved, &there.dp), &here.dx), "dp");
        assert_eq!(refused(inputs, &there.dx), "dx");
        assert_eq!(refused(inputs.scale(&there.scale), &here.dx), "scale");
        assert_eq!(refused(inputs.mask(Mask::exclude(&there.bytes)), &here.dx), "mask");
    }
}
