//! Element types, shapes and strides.

use super::{Problem, SHAPE, STRIDES, of_dtype, refused, reshaped};
use fused_attention::{Dtype, Error, Mask, Per, Polarity, RawForward, ScaledMaskedSoftmax};
use half::f16;
use support::on_every_backend;

#[test]
fn element_types() {
    refused! {
        |t, _p| t.x = of_dtype(t.x, Dtype::U8) =>
            Error::UnsupportedDtype { tensor: "x", found: Dtype::U8 },
        |t, _p| t.x = of_dtype(t.x, Dtype::I32) =>
            Error::UnsupportedDtype { tensor: "x", found: Dtype::I32 },
        |t, _p| t.y = of_dtype(t.y, Dtype::F16) =>
            Error::DtypeMismatch { tensor: "y", expected: Dtype::F32, found: Dtype::F16 },
        |t, p| t.lse = Some(of_dtype((&p.lse).into(), Dtype::F64)) =>
            Error::DtypeMismatch { tensor: "lse", expected: Dtype::F32, found: Dtype::F64 },
        |t, p| t.scale = Some(of_dtype((&p.scale).into(), Dtype::F64)) =>
            Error::DtypeMismatch { tensor: "scale", expected: Dtype::F32, found: Dtype::F64 },
        |t, p| t.mask.bytes = Some(((&p.additive).into(), Polarity::Keep)) =>
            Error::DtypeMismatch { tensor: "mask", expected: Dtype::U8, found: Dtype::F32 },
        |t, p| t.mask.additive = Some((&p.bytes).into()) =>
            Error::DtypeMismatch { tensor: "additive mask", expected: Dtype::F32, .. },
        |t, p| t.mask.additive = Some(of_dtype((&p.additive).into(), Dtype::Bf16)) =>
            Error::DtypeMismatch { tensor: "additive mask", found: Dtype::Bf16, .. },
        |t, p| t.mask.lengths = Some((of_dtype((&p.lengths).into(), Dtype::U8), Per::Batch)) =>
            Error::DtypeMismatch { tensor: "lengths", expected: Dtype::I32, .. },
        |t, p| t.mask.bank_index = Some(of_dtype((&p.index).into(), Dtype::F32)) =>
            Error::DtypeMismatch { tensor: "bank index", expected: Dtype::I32, .. },
    }
}

/// An f32 mask goes with 16-bit x and f32, not with f64; what f64 accumulates in is f64.
#[test]
fn element_types_beside_f64() {
    on_every_backend(|device| {
        let x = device.zeros::<f64>(&SHAPE).unwrap();
        let y = device.zeros::<f64>(&SHAPE).unwrap();
        let mask = device.zeros::<f32>(&SHAPE).unwrap();
        let softmax = ScaledMaskedSoftmax::new(1.0);
        let error = softmax.forward(&x, Mask::additive(&mask)).unwrap_err();
        assert!(
            matches!(error, Error::DtypeMismatch { expected: Dtype::F64, found: Dtype::F32, .. }),
            "{error:?}"
        );
        let lse = device.zeros::<f32>(&SHAPE[..2]).unwrap();
        let tensors = RawForward {
            x: (&x).into(),
            y: (&y).into(),
            lse: Some((&lse).into()),
            scale: None,
            mask: Default::default(),
        };
        // SAFETY: refused.
        let error = unsafe { softmax.forward_raw(&device.default_stream(), &tensors) }.unwrap_err();
        assert!(
            matches!(error, Error::DtypeMismatch { tensor: "lse", expected: Dtype::F64, .. }),
            "{error:?}"
        );
        // Another 16-bit type than x's.
        let x = device.zeros::<f16>(&SHAPE).unwrap();
        let mask = device.zeros::<half::bf16>(&SHAPE).unwrap();
        let error = softmax.forward(&x, Mask::additive(&mask)).unwrap_err();
        assert!(
            matches!(error, Error::DtypeMismatch { expected: Dtype::F16, found: Dtype::Bf16, .. }),
            "{error:?}"
        );
    });
}

#[test]
fn ranks_and_shapes() {
    refused! {
        |t, _p| t.x = reshaped(t.x, &[], &[]) =>
            Error::RankMismatch { tensor: "x", expected: 1, found: 0 },
        |t, _p| t.y = reshaped(t.y, &[6, 8], &[8, 1]) => Error::ShapeMismatch { tensor: "y", .. },
        |t, _p| t.y = reshaped(t.y, &[2, 3, 7], &STRIDES) =>
            Error::ShapeMismatch { tensor: "y", .. },
        |t, _p| t.y = reshaped(t.y, &[1, 3, 8], &STRIDES) =>
            Error::ShapeMismatch { tensor: "y", .. },
        |t, p| t.lse = Some(reshaped((&p.lse).into(), &[6], &[1])) =>
            Error::ShapeMismatch { tensor: "lse", .. },
        |t, p| t.lse = Some(reshaped((&p.lse).into(), &[2, 3, 1], &[3, 1, 1])) =>
            Error::ShapeMismatch { tensor: "lse", .. },
        |t, p| t.scale = Some(reshaped((&p.scale).into(), &[2], &[1])) =>
            Error::ShapeMismatch { tensor: "scale", .. },
        |t, p| t.scale = Some(reshaped((&p.scale).into(), &[0], &[1])) =>
            Error::ShapeMismatch { tensor: "scale", .. },
        |t, p| t.mask.lengths =
                Some((reshaped((&p.lengths).into(), &[3], &[0]), Per::Batch)) =>
            Error::ShapeMismatch { tensor: "lengths", .. },
        |t, p| t.mask.lengths =
                Some((reshaped((&p.lengths).into(), &[2, 3], &[0, 0]), Per::Batch)) =>
            Error::ShapeMismatch { tensor: "lengths", .. },
        |t, p| t.mask.lengths =
                Some((reshaped((&p.lengths).into(), &[2, 3, 8], &[0, 0, 0]), Per::Row)) =>
            Error::NotBroadcastable { tensor: "lengths", .. },
        |t, p| t.mask.lengths = Some((reshaped((&p.lengths).into(), &[2], &[1]), Per::Row)) =>
            Error::NotBroadcastable { tensor: "lengths", .. },
        |t, p| t.mask.bank_index = Some(reshaped((&p.index).into(), &[1], &[1])) =>
            Error::ShapeMismatch { tensor: "bank index", .. },
        |t, p| t.mask.bytes =
                Some((reshaped((&p.bytes).into(), &[], &[]), Polarity::Keep)) =>
            Error::RankMismatch { tensor: "mask", .. },
    }
}

#[test]
fn masks_that_do_not_broadcast() {
    let shapes: [(&[usize], &[i64]); 5] = [
        (&[2, 3, 7], &[21, 7, 1]),
        (&[2, 8], &[8, 1]),
        (&[3, 3, 8], &[0, 8, 1]),
        (&[1, 2, 3, 8], &[0, 24, 8, 1]),
        (&[0], &[1]),
    ];
    on_every_backend(|device| {
        let problem = Problem::new(device);
        let softmax = ScaledMaskedSoftmax::new(1.0);
        for (shape, strides) in shapes {
            let mut tensors = problem.plain();
            let bytes = reshaped((&problem.bytes).into(), shape, strides);
            tensors.mask.bytes = Some((bytes, Polarity::Exclude));
            let error = problem.refuse(softmax, tensors);
            let Error::NotBroadcastable { tensor: "mask", expected, found } = error else {
                panic!("{shape:?}: {error:?}");
            };
            assert_eq!((&*expected, &*found), (&SHAPE[..], shape));
            let mut tensors = problem.plain();
            tensors.mask.additive = Some(reshaped((&problem.additive).into(), shape, strides));
            let error = problem.refuse(softmax, tensors);
            assert!(
                matches!(error, Error::NotBroadcastable { tensor: "additive mask", .. }),
                "{shape:?}: {error:?}"
            );
        }
    });
}

#[test]
fn strides() {
    refused! {
        |t, _p| t.x = reshaped(t.x, &[2, 3, 4], &[24, 8, 2]) =>
            Error::UnsupportedStride { tensor: "x", dim: 2, found: 2, .. },
        |t, _p| t.x = reshaped(t.x, &SHAPE, &[24, 8, 0]) =>
            Error::UnsupportedStride { tensor: "x", dim: 2, found: 0, .. },
        |t, _p| t.x = reshaped(t.x, &SHAPE, &[24, 8, -1]) =>
            Error::UnsupportedStride { tensor: "x", dim: 2, found: -1, .. },
        |t, _p| t.y = reshaped(t.y, &SHAPE, &[1, 2, 6]) =>
            Error::UnsupportedStride { tensor: "y", dim: 2, found: 6, .. },
        |t, p| t.lse = Some(reshaped((&p.lse).into(), &SHAPE[..2], &[1, 2])) =>
            Error::UnsupportedStride { tensor: "lse", found: 2, .. },
        |t, p| t.lse = Some(reshaped((&p.lse).into(), &SHAPE[..2], &[0, 1])) =>
            Error::UnsupportedStride { tensor: "lse", .. },
        |t, p| t.mask.bytes = Some((
                reshaped((&p.bytes).into(), &[2, 2, 3, 8], &[48, 24, 1, 3]), Polarity::Keep
            )) =>
            Error::UnsupportedStride { tensor: "mask", found: 3, .. },
        |t, p| t.mask.additive =
                Some(reshaped((&p.additive).into(), &[2, 2, 3, 8], &[48, 24, 8, -1])) =>
            Error::UnsupportedStride { tensor: "additive mask", found: -1, .. },
    }
}
