//! Everything that is refused: by its own error, with its values, before anything is written.

use fused_attention::{
    Attention, AttentionInputs, Device, Dtype, Error, PackedSequences, Per, Polarity, RawAttention,
    RawDropoutSeed, RawSequences, RawTensor, RowLengths, Tensor,
};
use half::f16;
use support::on_every_backend;

const Q: [usize; 4] = [2, 4, 5, 16];
const KV: [usize; 4] = [2, 2, 7, 16];
const UNTOUCHED: f32 = 7.0;

/// A problem that is right, to be made wrong in one thing.
struct Problem {
    device: Device,
    q: Tensor<f16>,
    k: Tensor<f16>,
    v: Tensor<f16>,
    o: Tensor<f16>,
    lse: Tensor<f32>,
    scale: Tensor<f32>,
    bytes: Tensor<u8>,
    bias: Tensor<f32>,
    lengths: Tensor<i32>,
    offsets: Tensor<i32>,
    slopes: Tensor<f32>,
    number: Tensor<i64>,
}

impl Problem {
    fn new(device: &Device) -> Self {
        let count: usize = Q.iter().product();
        Problem {
            q: device.zeros(&Q).unwrap(),
            k: device.zeros(&KV).unwrap(),
            v: device.zeros(&KV).unwrap(),
            o: device.upload(&vec![f16::from_f32(UNTOUCHED); count], &Q).unwrap(),
            lse: device.upload(&[UNTOUCHED; 40], &Q[..3]).unwrap(),
            scale: device.upload(&[1.0f32], &[1]).unwrap(),
            bytes: device.zeros(&[3, 2, 4, 5, 7]).unwrap(),
            bias: device.zeros(&[3, 2, 4, 5, 7]).unwrap(),
            lengths: device.zeros(&[2]).unwrap(),
            offsets: device.upload(&[0i32, 3, 5], &[3]).unwrap(),
            slopes: device.zeros(&[2, 4]).unwrap(),
            number: device.zeros(&[1]).unwrap(),
            device: device.clone(),
        }
    }

    fn plain(&self) -> RawAttention {
        RawAttention {
            q: (&self.q).into(),
            k: (&self.k).into(),
            v: (&self.v).into(),
            o: (&self.o).into(),
            lse: Some((&self.lse).into()),
            scale: None,
            mask: Default::default(),
            query_lengths: None,
            query_sequences: None,
            key_sequences: None,
            slopes: None,
            dropout_seed: None,
        }
    }

    /// All of it.
    fn full(&self) -> RawAttention {
        let mut tensors = self.plain();
        tensors.scale = Some((&self.scale).into());
        tensors.mask.bytes = Some(((&self.bytes).into(), Polarity::Exclude));
        tensors.mask.additive = Some((&self.bias).into());
        tensors.mask.lengths = Some(((&self.lengths).into(), Per::Batch));
        tensors.mask.bank_index = Some((&self.lengths).into());
        tensors.query_lengths = Some((&self.lengths).into());
        tensors.slopes = Some((&self.slopes).into());
        let (seed, offset) = ((&self.number).into(), (&self.number).into());
        tensors.dropout_seed = Some(RawDropoutSeed::OnDevice { seed, offset });
        tensors
    }

    /// Queries and keys as packed sequences, of 5 and 7 rows.
    fn packed(&self) -> RawAttention {
        let without_batch = |raw: RawTensor| {
            RawTensor::new(raw.pointer, raw.dtype, &raw.shape[1..], &raw.strides[1..]).unwrap()
        };
        let sequences = |longest| Some(RawSequences { offsets: (&self.offsets).into(), longest });
        let mut tensors = self.plain();
        for raw in [&mut tensors.q, &mut tensors.k, &mut tensors.v, &mut tensors.o] {
            *raw = without_batch(*raw);
        }
        tensors.lse = tensors.lse.map(without_batch);
        RawAttention { query_sequences: sequences(3), key_sequences: sequences(3), ..tensors }
    }

    /// The error of a call with these tensors; nothing may be written.
    #[track_caller]
    fn refuse(&self, attention: Attention, tensors: RawAttention) -> Error {
        // SAFETY: what is right of the tensors is memory of the device, and the rest is refused.
        let result = unsafe { attention.forward_raw(&self.device.default_stream(), &tensors) };
        let error = result.expect_err("should have been refused");
        self.check_untouched();
        error
    }

    #[track_caller]
    fn check_untouched(&self) {
        self.device.synchronize().unwrap();
        assert!(self.o.to_vec().unwrap().iter().all(|o| o.to_f32() == UNTOUCHED));
        assert!(self.lse.to_vec().unwrap().iter().all(|&lse| lse == UNTOUCHED));
    }
}

/// On every backend: a call whose tensors, `$from` those of the problem, `$change` has made wrong
/// gives `$error`.
macro_rules! refused {
    ($from:ident: $(|$tensors:ident, $problem:ident| $change:expr => $error:pat,)*) => {
        on_every_backend(|device| {
            let problem = Problem::new(device);
            $({
                let mut tensors = problem.$from();
                let change = |$tensors: &mut RawAttention, $problem: &Problem| {
                    let _ = $problem;
                    $change
                };
                change(&mut tensors, &problem);
                let error = problem.refuse(Attention::new(), tensors);
                assert!(matches!(&error, $error), "{}: {error:?}", stringify!($change));
            })*
        });
    };
}

/// The same memory in another form.
fn reshaped(tensor: RawTensor, shape: &[usize], strides: &[i64]) -> RawTensor {
    RawTensor::new(tensor.pointer, tensor.dtype, shape, strides).unwrap()
}

fn contiguous(tensor: RawTensor, shape: &[usize]) -> RawTensor {
    RawTensor::contiguous(tensor.pointer, tensor.dtype, shape).unwrap()
}

fn of_dtype(tensor: RawTensor, dtype: Dtype) -> RawTensor {
    RawTensor { dtype, ..tensor }
}

fn some<T: fused_attention::Scalar>(tensor: &Tensor<T>, shape: &[usize]) -> Option<RawTensor> {
    Some(contiguous(tensor.into(), shape))
}

#[test]
fn the_problem_is_right() {
    on_every_backend(|device| {
        let problem = Problem::new(device);
        for tensors in [problem.plain(), problem.full(), problem.packed()] {
            // SAFETY: the tensors are the problem's, on the stream's device.
            unsafe { Attention::new().forward_raw(&device.default_stream(), &tensors) }.unwrap();
            assert!(problem.o.to_vec().unwrap()[..16].iter().all(|&o| o == f16::ZERO));
        }
    });
}

#[test]
fn dtypes() {
    refused! {
        full:
        // Of twice the size q would reach into what lies behind it.
        |t, _p| (t.q, t.o.pointer) = (of_dtype(t.q, Dtype::F64), 1 << 40) =>
            Error::UnsupportedDtype { tensor: "q", found: Dtype::F64 },
        |t, _p| t.q = of_dtype(t.q, Dtype::I32) =>
            Error::UnsupportedDtype { tensor: "q", found: Dtype::I32 },
        |t, _p| t.k = of_dtype(t.k, Dtype::Bf16) =>
            Error::DtypeMismatch { tensor: "k", expected: Dtype::F16, found: Dtype::Bf16 },
        |t, _p| t.v = of_dtype(t.v, Dtype::Bf16) => Error::DtypeMismatch { tensor: "v", .. },
        |t, _p| t.o = of_dtype(t.o, Dtype::Bf16) => Error::DtypeMismatch { tensor: "o", .. },
        |t, _p| t.lse = t.lse.map(|lse| of_dtype(lse, Dtype::I32)) => Error::DtypeMismatch { tensor: "lse", .. },
        |t, p| t.scale = Some((&p.number).into()) => Error::DtypeMismatch { tensor: "scale", .. },
        |t, p| t.slopes = Some((&p.lengths).into()) => Error::DtypeMismatch { tensor: "slopes", .. },
        |t, p| t.mask.bytes = Some(((&p.bias).into(), Polarity::Keep)) =>
            Error::DtypeMismatch { tensor: "mask", expected: Dtype::U8, .. },
        |t, p| t.mask.additive = Some(of_dtype((&p.bias).into(), Dtype::Bf16)) =>
            Error::DtypeMismatch { tensor: "bias", expected: Dtype::F16, .. },
        |t, p| t.mask.lengths = Some(((&p.slopes).into(), Per::Batch)) =>
            Error::DtypeMismatch { tensor: "lengths", expected: Dtype::I32, .. },
        |t, p| t.query_lengths = Some((&p.slopes).into()) =>
            Error::DtypeMismatch { tensor: "query lengths", .. },
        |t, p| t.mask.bank_index = Some((&p.number).into()) =>
            Error::DtypeMismatch { tensor: "bank index", .. },
        |t, p| t.dropout_seed = Some(RawDropoutSeed::OnDevice {
                seed: (&p.scale).into(), offset: (&p.number).into(),
            }) => Error::DtypeMismatch { tensor: "dropout seed", expected: Dtype::I64, .. },
    }
    refused! {
        packed:
        |t, p| t.key_sequences = Some(RawSequences { offsets: (&p.number).into(), longest: 3 }) =>
            Error::DtypeMismatch { tensor: "key offsets", .. },
    }
}

#[test]
fn shapes() {
    refused! {
        full:
        |t, _p| t.q = contiguous(t.q, &[8, 5, 16]) =>
            Error::RankMismatch { tensor: "q", expected: 4, found: 3 },
        |t, _p| t.k = contiguous(t.k, &[28, 16]) => Error::RankMismatch { tensor: "k", .. },
        |t, _p| t.k = contiguous(t.k, &[4, 1, 7, 16]) => Error::ShapeMismatch { tensor: "k", .. },
        |t, _p| t.k = contiguous(t.k, &[2, 2, 7, 8]) => Error::ShapeMismatch { tensor: "k", .. },
        |t, _p| t.v = contiguous(t.v, &[2, 2, 6, 16]) => Error::ShapeMismatch { tensor: "v", .. },
        |t, _p| t.v = contiguous(t.v, &[2, 1, 7, 16]) => Error::ShapeMismatch { tensor: "v", .. },
        |t, _p| t.o = contiguous(t.o, &[2, 4, 5, 8]) => Error::ShapeMismatch { tensor: "o", .. },
        |t, _p| t.o = contiguous(t.o, &[2, 4, 4, 16]) => Error::ShapeMismatch { tensor: "o", .. },
        |t, p| t.lse = some(&p.lse, &[2, 5, 4]) => Error::ShapeMismatch { tensor: "lse", .. },
        |t, p| t.lse = some(&p.lse, &[8, 5]) => Error::ShapeMismatch { tensor: "lse", .. },
        |t, p| t.scale = some(&p.slopes, &[2]) => Error::ShapeMismatch { tensor: "scale", .. },
        |t, p| t.slopes = some(&p.slopes, &[3]) => Error::NotBroadcastable { tensor: "slopes", .. },
        |t, p| t.mask.bytes = Some((contiguous((&p.bytes).into(), &[3, 6, 7]), Polarity::Keep)) =>
            Error::NotBroadcastable { tensor: "mask", .. },
        |t, p| t.mask.additive = some(&p.bias, &[3, 5, 8]) =>
            Error::NotBroadcastable { tensor: "bias", .. },
        |t, p| t.mask.lengths = Some((contiguous((&p.lengths).into(), &[1]), Per::Batch)) =>
            Error::ShapeMismatch { tensor: "lengths", .. },
        |t, p| t.query_lengths = some(&p.lengths, &[1, 2]) =>
            Error::ShapeMismatch { tensor: "query lengths", .. },
        |t, p| t.mask.bank_index = some(&p.lengths, &[1]) =>
            Error::ShapeMismatch { tensor: "bank index", .. },
        |t, _p| (t.mask.bytes, t.mask.additive) = (None, None) => Error::MissingMaskBank,
        |t, p| t.mask.lengths = Some(((&p.lengths).into(), Per::Row)) =>
            Error::LengthsPerRow { tensor: "lengths" },
        |t, _p| t.q = contiguous(t.q, &[2, 3, 5, 16]) => Error::ShapeMismatch { tensor: "o", .. },
    }
    refused! {
        packed:
        |t, _p| t.q = contiguous(t.q, &[1, 4, 5, 16]) =>
            Error::RankMismatch { tensor: "q", expected: 3, found: 4 },
        |t, _p| t.key_sequences = None => Error::RankMismatch { tensor: "k", expected: 4, found: 3 },
        |t, p| t.key_sequences = Some(RawSequences {
                offsets: contiguous((&p.offsets).into(), &[2]), longest: 3,
            }) => Error::ShapeMismatch { tensor: "key offsets", .. },
        |t, p| t.query_sequences = Some(RawSequences {
                offsets: contiguous((&p.offsets).into(), &[3, 1]), longest: 3,
            }) => Error::RankMismatch { tensor: "query offsets", .. },
        |t, p| t.query_sequences = Some(RawSequences {
                offsets: contiguous((&p.offsets).into(), &[0]), longest: 3,
            }) => Error::ShapeMismatch { tensor: "query offsets", .. },
    }
}

#[test]
fn head_dims_and_heads() {
    on_every_backend(|device| {
        let problem = Problem::new(device);
        for (dim, value_dim, refused) in
            [(12, 16, "q"), (264, 16, "q"), (0, 16, "q"), (16, 20, "v")]
        {
            let mut tensors = problem.plain();
            let zero_strides = |raw: RawTensor, dim: usize| {
                let shape = [raw.shape[0], raw.shape[1], raw.shape[2], dim];
                reshaped(raw, &shape, &[0, 0, 0, 1])
            };
            tensors.q = zero_strides(tensors.q, dim);
            tensors.k = zero_strides(tensors.k, dim);
            tensors.v = zero_strides(tensors.v, value_dim);
            tensors.o = contiguous(tensors.o, &[2, 4, 5, value_dim]);
            let found = problem.device.clone();
            let attention = Attention::new();
            let error = attention.explain_raw(&found.default_stream(), &tensors).unwrap_err();
            let Error::UnsupportedHeadDim { tensor, found, largest: 256 } = error else {
                panic!("{error:?}")
            };
            assert_eq!((tensor, found), (refused, if refused == "q" { dim } else { value_dim }));
        }
        // 4 query heads for 3 of keys and values.
        let mut tensors = problem.plain();
        for raw in [&mut tensors.k, &mut tensors.v] {
            *raw = reshaped(*raw, &[2, 3, 7, 16], &[112, 0, 16, 1]);
        }
        let error = problem.refuse(Attention::new(), tensors);
        assert!(matches!(error, Error::UnevenHeads { heads: 4, kv_heads: 3 }), "{error:?}");
        for raw in [&mut tensors.k, &mut tensors.v] {
            *raw = contiguous(*raw, &[2, 0, 7, 16]);
        }
        let error = problem.refuse(Attention::new(), tensors);
        assert!(matches!(error, Error::UnevenHeads { heads: 4, kv_heads: 0 }), "{error:?}");
    });
}

#[test]
fn strides_and_memory() {
    refused! {
        full:
        |t, _p| t.q = reshaped(t.q, &Q, &[320, 80, 1, 5]) =>
            Error::UnsupportedStride { tensor: "q", dim: 3, found: 5, .. },
        |t, _p| t.v = reshaped(t.v, &KV, &[224, 112, 16, 0]) =>
            Error::UnsupportedStride { tensor: "v", .. },
        |t, _p| t.o = reshaped(t.o, &Q, &[320, 80, 0, 1]) =>
            Error::SelfOverlappingOutput { output: "o", .. },
        |t, p| t.lse = Some(reshaped((&p.lse).into(), &Q[..3], &[20, 0, 1])) =>
            Error::SelfOverlappingOutput { output: "lse", .. },
        |t, p| t.mask.additive = Some(reshaped((&p.bias).into(), &[2, 7], &[7, 2])) =>
            Error::UnsupportedStride { tensor: "bias", .. },
        |t, p| t.query_lengths = Some(reshaped((&p.lengths).into(), &[2], &[0])) =>
            Error::UnsupportedStride { tensor: "query lengths", .. },
        |t, _p| t.k.pointer = 0 => Error::NullPointer { tensor: "k" },
        |t, _p| t.v.pointer += 1 => Error::BelowElementAlignment { tensor: "v", .. },
        |t, p| t.o = contiguous((&p.q).into(), &Q) =>
            Error::OverlappingOutput { output: "o", other: "q" },
        |t, _p| t.k.pointer = t.o.pointer => Error::OverlappingOutput { output: "o", other: "k" },
        |t, p| t.lse = some(&p.bias, &Q[..3]) =>
            Error::OverlappingOutput { output: "lse", other: "bias" },
        |t, _p| t.q.strides[0] = i64::MAX => Error::SizeOverflow { .. },
    }
}

#[test]
fn numbers() {
    on_every_backend(|device| {
        let problem = Problem::new(device);
        for cap in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1e-300, 1e31, 1e-31] {
            let error = problem.refuse(Attention::new().softcap(cap), problem.full());
            let Error::BadSoftcap { softcap } = error else { panic!("{error:?}") };
            assert_eq!(softcap.to_bits(), cap.to_bits());
        }
        for p in [1.0, -0.1, 2.0, f64::NAN] {
            let error = problem.refuse(Attention::new().dropout(p), problem.full());
            let Error::BadDropout { probability } = error else { panic!("{error:?}") };
            assert_eq!(probability.to_bits(), p.to_bits());
        }
        let error = problem.refuse(Attention::new().dropout(0.25), problem.plain());
        assert!(matches!(error, Error::MissingDropoutSeed { dropped: 64 }), "{error:?}");
        let error = Attention::new().with_tile("portable").unwrap_err();
        assert!(
            matches!(&error, Error::NoSuchTile { tile, .. } if tile == "portable"),
            "{error:?}"
        );
    });
}

#[test]
fn lengths_and_offsets_that_the_host_sees() {
    on_every_backend(|device| {
        let problem = Problem::new(device);
        let inputs = AttentionInputs::new(&problem.q, &problem.k, &problem.v);
        let (attention, stream) = (Attention::new(), device.default_stream());
        let forward = |inputs: &AttentionInputs<'_, f16>| {
            let error = attention.forward_into(&stream, inputs, &problem.o, None).unwrap_err();
            problem.check_untouched();
            error
        };
        let (long, negative) = ([7, 8], [-1, 3]);
        let lengths = RowLengths::per_batch(device, &long).unwrap();
        let error = forward(&inputs.lengths(&lengths));
        assert!(
            matches!(error, Error::LengthBeyondRow { index: 1, length: 8, row: 7 }),
            "{error:?}"
        );
        let lengths = RowLengths::per_batch(device, &negative).unwrap();
        let error = forward(&inputs.query_lengths(&lengths));
        assert!(
            matches!(error, Error::LengthBeyondRow { index: 0, length: -1, row: 5 }),
            "{error:?}"
        );
        let lengths = RowLengths::per_row(device, &[1; 2], &[2, 1]).unwrap();
        let error = forward(&inputs.query_lengths(&lengths));
        assert!(matches!(error, Error::LengthsPerRow { tensor: "query lengths" }), "{error:?}");

        let offsets = |offsets: &[i32]| PackedSequences::new(device, offsets);
        for (values, found) in [
            (&[0, 3, 2][..], (1, 3, 2)),
            (&[-1, 3], (0, -1, -1)),
            (&[], (0, 0, 0)),
            (&[i32::MAX, i32::MIN], (0, i32::MAX, i32::MIN)),
        ] {
            let error = offsets(values).unwrap_err();
            let Error::BadSequenceOffsets { index, value, next } = error else {
                panic!("{error:?}")
            };
            assert_eq!((index, value, next), found);
        }
        let q = problem.q.reshape(&[8, 5, 16]).unwrap();
        let beyond = offsets(&[0, 3, 6]).unwrap();
        let inputs = AttentionInputs::new(&q, &problem.k, &problem.v).query_sequences(&beyond);
        let error = forward(&inputs);
        let expected = matches!(error, Error::SequencesBeyondRows { tensor: "q", end: 6, rows: 5 });
        assert!(expected, "{error:?}");
    });
}

/// More than a kernel counts, told by strides of 0.
#[test]
fn too_much() {
    on_every_backend(|device| {
        let problem = Problem::new(device);
        let stream = device.default_stream();
        let refuse = |shape: [usize; 4]| {
            let mut tensors = problem.plain();
            let size = |dim: usize| if shape[dim] > 1 { shape[dim] } else { 1 };
            let shape = [size(0), size(1), size(2), 16];
            tensors.q = reshaped(tensors.q, &shape, &[0, 0, 0, 1]);
            tensors.k = reshaped(tensors.k, &[shape[0], shape[1], 7, 16], &[0, 0, 0, 1]);
            tensors.v = tensors.k;
            tensors.o = contiguous(tensors.o, &shape);
            tensors.lse = None;
            Attention::new().explain_raw(&stream, &tensors).unwrap_err()
        };
        let error = refuse([1, 1, (1 << 29) + 1, 16]);
        let Error::TooMany { found, limit, .. } = error else { panic!("{error:?}") };
        assert_eq!((found, limit), ((1 << 29) + 1, 1 << 29));
        let error = refuse([1 << 20, 1 << 12, 1, 16]);
        assert!(matches!(error, Error::TooMany { what: "tiles of queries", .. }), "{error:?}");
    });
}
