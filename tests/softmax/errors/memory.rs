//! Addresses, memory that is shared, and devices.

use super::{Problem, SHAPE, refused, reshaped};
use fused_attention::{
    BankIndex, Causal, Device, Dtype, Error, Mask, Per, Polarity, RawForward, RawTensor,
    RowLengths, ScaledMaskedSoftmax, SoftmaxInputs,
};
use support::{gpus, on_every_backend};

/// Tensors whose addresses do not fit 64 bits.
#[test]
fn sizes_beyond_the_address_space() {
    const FAR: i64 = i64::MAX / 2;
    refused! {
        |t, _p| t.x = reshaped(t.x, &SHAPE, &[FAR, FAR, 1]) => Error::SizeOverflow { .. },
        |t, _p| t.y = reshaped(t.y, &SHAPE, &[FAR, 8, 1]) => Error::SizeOverflow { .. },
    }
}

#[test]
fn pointers() {
    let null = |tensor: RawTensor| RawTensor { pointer: 0, ..tensor };
    let odd = |tensor: RawTensor| RawTensor { pointer: tensor.pointer + 1, ..tensor };
    refused! {
        |t, _p| t.x = null(t.x) => Error::NullPointer { tensor: "x" },
        |t, _p| t.y = null(t.y) => Error::NullPointer { tensor: "y" },
        |t, _p| t.lse = t.lse.map(null) => Error::NullPointer { tensor: "lse" },
        |t, _p| t.scale = t.scale.map(null) => Error::NullPointer { tensor: "scale" },
        |t, p| t.mask.bytes = Some((null((&p.bytes).into()), Polarity::Keep)) =>
            Error::NullPointer { tensor: "mask" },
        |t, _p| t.mask.additive = t.mask.additive.map(null) =>
            Error::NullPointer { tensor: "additive mask" },
        |t, p| t.mask.lengths = Some((null((&p.lengths).into()), Per::Batch)) =>
            Error::NullPointer { tensor: "lengths" },
        |t, _p| t.mask.bank_index = t.mask.bank_index.map(null) =>
            Error::NullPointer { tensor: "bank index" },
        |t, _p| t.x = odd(t.x) =>
            Error::BelowElementAlignment { tensor: "x", dtype: Dtype::F32, .. },
        |t, _p| t.y = odd(t.y) => Error::BelowElementAlignment { tensor: "y", .. },
        |t, _p| t.lse = t.lse.map(odd) => Error::BelowElementAlignment { tensor: "lse", .. },
        |t, _p| t.scale = t.scale.map(odd) => Error::BelowElementAlignment { tensor: "scale", .. },
        |t, _p| t.mask.additive = t.mask.additive.map(odd) =>
            Error::BelowElementAlignment { tensor: "additive mask", .. },
        |t, p| t.mask.lengths = Some((odd((&p.lengths).into()), Per::Batch)) =>
            Error::BelowElementAlignment { tensor: "lengths", .. },
        |t, _p| t.mask.bank_index = t.mask.bank_index.map(odd) =>
            Error::BelowElementAlignment { tensor: "bank index", .. },
    }
}

/// Outputs over inputs, exactly or in part, and over each other.
#[test]
fn overlapping_outputs() {
    let at = |tensor: RawTensor, other: RawTensor| RawTensor { pointer: other.pointer, ..tensor };
    let last = |tensor: RawTensor| RawTensor { pointer: tensor.pointer + 47 * 4, ..tensor };
    refused! {
        |t, _p| t.y = t.x => Error::OverlappingOutput { output: "y", other: "x" },
        |t, _p| t.y = last(t.x) => Error::OverlappingOutput { output: "y", other: "x" },
        |t, _p| t.x = last(t.y) => Error::OverlappingOutput { output: "y", other: "x" },
        |t, p| t.y = at(t.y, (&p.bytes).into()) =>
            Error::OverlappingOutput { output: "y", other: "mask" },
        |t, p| t.y = at(t.y, (&p.additive).into()) =>
            Error::OverlappingOutput { output: "y", other: "additive mask" },
        |t, p| t.mask.lengths = Some((at((&p.lengths).into(), t.y), Per::Batch)) =>
            Error::OverlappingOutput { output: "y", other: "lengths" },
        |t, p| t.mask.bank_index = Some(at((&p.index).into(), last(t.y))) =>
            Error::OverlappingOutput { output: "y", other: "bank index" },
        |t, p| t.scale = Some(at((&p.scale).into(), last(t.y))) =>
            Error::OverlappingOutput { output: "y", other: "scale" },
        |t, p| t.lse = Some(at((&p.lse).into(), last(t.y))) =>
            Error::OverlappingOutput { output: "y", other: "lse" },
        |t, p| t.lse = Some(at((&p.lse).into(), last(t.x))) =>
            Error::OverlappingOutput { output: "lse", other: "x" },
        |t, p| t.scale = Some(at((&p.scale).into(), (&p.lse).into())) =>
            Error::OverlappingOutput { output: "lse", other: "scale" },
    }
}

#[test]
fn outputs_that_overlap_themselves() {
    refused! {
        |t, _p| t.y = reshaped(t.y, &SHAPE, &[0, 8, 1]) =>
            Error::SelfOverlappingOutput { output: "y", .. },
        |t, _p| t.y = reshaped(t.y, &SHAPE, &[24, 0, 1]) =>
            Error::SelfOverlappingOutput { output: "y", .. },
        |t, _p| t.y = reshaped(t.y, &SHAPE, &[8, 8, 1]) =>
            Error::SelfOverlappingOutput { output: "y", .. },
        |t, _p| t.y = reshaped(t.y, &SHAPE, &[24, 7, 1]) =>
            Error::SelfOverlappingOutput { output: "y", .. },
    }
}

/// Tensors on another device than x, and a stream of another.
#[test]
fn devices() {
    for gpu in gpus() {
        let emulator = Device::emulator();
        let (here, there) = (Problem::new(&gpu), Problem::new(&emulator));
        let softmax = ScaledMaskedSoftmax::new(1.0);
        let stream = gpu.default_stream();
        let refused = |inputs: SoftmaxInputs<'_, f32>, y, lse| {
            let error = softmax.forward_into(&stream, inputs, y, lse).unwrap_err();
            here.check_untouched();
            there.check_untouched();
            match error {
                Error::DeviceMismatch { tensor, .. } => tensor,
                error => panic!("{error:?}"),
            }
        };
        let x = SoftmaxInputs::new(&here.x);
        assert_eq!(refused(SoftmaxInputs::new(&there.x), &here.y, None), "x");
        assert_eq!(refused(x, &there.y, None), "y");
        assert_eq!(refused(x, &here.y, Some(&there.lse)), "lse");
        assert_eq!(refused(x.scale(&there.scale), &here.y, None), "scale");
        assert_eq!(refused(x.mask(Mask::exclude(&there.bytes)), &here.y, None), "mask");
        let additive = x.mask(Mask::additive(&there.additive));
        assert_eq!(refused(additive, &here.y, None), "additive mask");
        let lengths = RowLengths::on_device(there.lengths.clone(), Per::Batch);
        let mask = Mask::none().lengths(&lengths);
        assert_eq!(refused(x.mask(mask), &here.y, None), "lengths");
        let index = BankIndex::on_device(there.index.clone());
        let mask = Mask::exclude(&here.bytes).from_bank(&index);
        assert_eq!(refused(x.mask(mask), &here.y, None), "bank index");
    }
}

/// Emulators share the host's memory, whatever their options.
#[test]
fn emulators_share_their_tensors() {
    let here = Device::emulator();
    let there = Device::emulator_with(cuda_emulator::Emulator::adversarial(4));
    let x = here.upload(&[0f32; 4], &[1, 4]).unwrap();
    let y = there.zeros(&[1, 4]).unwrap();
    let softmax = ScaledMaskedSoftmax::new(1.0).causal(Causal::BottomRight);
    softmax.forward_into(&there.default_stream(), SoftmaxInputs::new(&x), &y, None).unwrap();
    assert_eq!(y.to_vec().unwrap(), [0.25f32; 4]);
}
