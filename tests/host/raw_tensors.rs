//! Raw tensors: the bytes they touch, alignment, broadcasting, and what is refused.

use fused_attention::{Device, Dtype, Error, RawTensor};

fn raw(pointer: u64, dtype: Dtype, shape: &[usize], strides: &[i64]) -> RawTensor {
    RawTensor::new(pointer, dtype, shape, strides).unwrap()
}

#[test]
fn a_tensor_is_its_pointer_shape_and_strides() {
    let tensor = Device::emulator().zeros::<f32>(&[4, 6]).unwrap();
    let view = tensor.narrow(0, 1, 2).unwrap().narrow(1, 3, 3).unwrap();
    let raw = RawTensor::from(&view);
    assert_eq!(raw.pointer, tensor.pointer() + (6 + 3) * 4);
    assert_eq!((&*raw.shape, &*raw.strides, raw.dtype), (&[2, 3][..], &[6, 1][..], Dtype::F32));
    assert_eq!(raw.element_count().unwrap(), 6);
    assert!(!raw.is_contiguous() && RawTensor::from(&tensor).is_contiguous());
}

#[test]
fn bytes_touched() {
    let touched = |shape: &[usize], strides: &[i64]| {
        raw(1000, Dtype::Bf16, shape, strides).bytes_touched().unwrap()
    };
    assert_eq!(touched(&[], &[]), 1000..1002);
    assert_eq!(touched(&[3, 4], &[4, 1]), 1000..1024);
    assert_eq!(touched(&[3, 4], &[10, 1]), 1000..1048);
    assert_eq!(touched(&[3, 4], &[0, 1]), 1000..1008);
    assert_eq!(touched(&[3, 4], &[-4, 1]), 984..1008);
    assert_eq!(touched(&[3, 0], &[10, 1]), 1000..1000);
    assert_eq!(touched(&[1, 2], &[i64::MAX, 1]), 1000..1004);
}

#[test]
fn bytes_beyond_64_bits_are_refused() {
    let too_large = [
        raw(1000, Dtype::F32, &[3], &[i64::MAX]),
        raw(1000, Dtype::F32, &[2], &[i64::MAX / 2]),
        raw(1000, Dtype::F64, &[2], &[-1000]),
        raw(u64::MAX - 2, Dtype::F32, &[1], &[1]),
        raw(1000, Dtype::U8, &[usize::MAX], &[1]),
    ];
    for tensor in too_large {
        let error = tensor.bytes_touched().unwrap_err();
        assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
    }
    let error = raw(0, Dtype::U8, &[1 << 40, 1 << 40], &[0, 0]).element_count().unwrap_err();
    assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
}

#[test]
fn overlap_is_a_common_byte() {
    let a = raw(1000, Dtype::F32, &[10], &[1]);
    let overlaps = |pointer, shape: &[usize]| {
        let b = RawTensor::contiguous(pointer, Dtype::U8, shape).unwrap();
        assert_eq!(a.overlaps(&b).unwrap(), b.overlaps(&a).unwrap());
        a.overlaps(&b).unwrap()
    };
    assert!(overlaps(1039, &[1]) && overlaps(999, &[2]) && overlaps(0, &[5000]));
    assert!(!overlaps(1040, &[10]) && !overlaps(990, &[10]));
    assert!(!overlaps(1010, &[0]), "nothing overlaps with nothing");
    let error = a.check_disjoint("y", &raw(1039, Dtype::U8, &[1], &[1]), "x").unwrap_err();
    assert!(matches!(error, Error::OverlappingOutput { output: "y", other: "x" }), "{error}");
    assert!(a.check_disjoint("y", &raw(1040, Dtype::U8, &[1], &[1]), "x").is_ok());
}

#[test]
fn an_output_must_not_overlap_itself() {
    let overlaps =
        |shape: &[usize], strides: &[i64]| raw(1000, Dtype::F32, shape, strides).overlaps_itself();
    assert!(!overlaps(&[3, 4], &[4, 1]) && !overlaps(&[3, 4], &[1, 3]) && !overlaps(&[], &[]));
    assert!(!overlaps(&[1, 4], &[0, 1]) && !overlaps(&[3, 0], &[0, 0]));
    assert!(!overlaps(&[3, 4], &[-4, 1]));
    assert!(overlaps(&[3, 4], &[0, 1]) && overlaps(&[3, 4], &[3, 1]) && overlaps(&[2, 2], &[1, 1]));
    let error = raw(8, Dtype::F32, &[3, 4], &[0, 1]).check_writable("y").unwrap_err();
    let Error::SelfOverlappingOutput { output: "y", shape, strides } = error else {
        panic!("{error}")
    };
    assert_eq!((shape, strides), (vec![3, 4], vec![0, 1]));
}

#[test]
fn alignment_is_that_of_the_address_and_the_outer_strides() {
    let alignment = |pointer, shape: &[usize], strides: &[i64]| {
        raw(pointer, Dtype::Bf16, shape, strides).alignment()
    };
    assert_eq!(alignment(1 << 20, &[5], &[1]), 256);
    assert_eq!(alignment((1 << 20) + 16, &[5], &[1]), 16);
    assert_eq!(alignment(1 << 20, &[2, 5], &[8, 1]), 16);
    assert_eq!(alignment(1 << 20, &[2, 5], &[5, 1]), 2);
    assert_eq!(alignment(1 << 20, &[1, 5], &[5, 1]), 256, "no step is taken");
    assert_eq!(alignment(1 << 20, &[2, 5], &[0, 1]), 256, "a step of nothing");
    assert_eq!(alignment(1 << 20, &[2, 5], &[-8, 1]), 16);
}

#[test]
fn broadcasting_adds_strides_of_zero() {
    let mask = raw(1000, Dtype::U8, &[4, 1, 7], &[7, 7, 1]);
    let wide = mask.broadcast_to("mask", &[2, 4, 3, 7]).unwrap();
    assert_eq!((&*wide.shape, &*wide.strides), (&[2, 4, 3, 7][..], &[0, 7, 0, 1][..]));
    assert_eq!((wide.pointer, wide.dtype), (1000, Dtype::U8));
    for shape in [&[4, 3, 8][..], &[3, 1, 7], &[1, 7], &[4, 3, 1]] {
        let error = mask.broadcast_to("mask", shape).unwrap_err();
        let Error::NotBroadcastable { tensor: "mask", expected, found } = error else {
            panic!("{error}")
        };
        assert_eq!((&expected[..], &found[..]), (shape, &[4, 1, 7][..]));
    }
}

#[test]
fn the_last_stride_counts_where_a_step_is_taken() {
    assert_eq!(raw(0, Dtype::F32, &[2, 3], &[1, 2]).last_stride(), 2);
    assert_eq!(raw(0, Dtype::F32, &[2, 1], &[1, 9]).last_stride(), 1);
    assert_eq!(raw(0, Dtype::F32, &[], &[]).last_stride(), 1);
}

#[test]
fn addresses_are_checked() {
    let error = raw(0, Dtype::F32, &[2], &[1]).check("x").unwrap_err();
    assert!(matches!(error, Error::NullPointer { tensor: "x" }), "{error}");
    assert!(raw(0, Dtype::F32, &[0], &[1]).check("x").is_ok(), "nothing is at no address");
    let error = raw(1002, Dtype::F32, &[2], &[1]).check("x").unwrap_err();
    let Error::BelowElementAlignment { tensor: "x", pointer: 1002, dtype: Dtype::F32 } = error
    else {
        panic!("{error}")
    };
    assert!(error.to_string().contains("0x3ea"), "{error}");
    assert!(raw(1002, Dtype::Bf16, &[2], &[1]).check("x").is_ok());
    let error = raw(1000, Dtype::F32, &[3], &[i64::MAX]).check("x").unwrap_err();
    assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
}

#[test]
fn shapes_and_types_are_checked() {
    let x = raw(1000, Dtype::F32, &[2, 3], &[3, 1]);
    assert!(x.check_shape("x", &[2, 3]).is_ok() && x.check_dtype("x", Dtype::F32).is_ok());
    let error = x.check_shape("x", &[3, 2]).unwrap_err();
    assert_eq!(error.to_string(), "x has shape [2, 3], expected [3, 2]");
    assert!(matches!(error, Error::ShapeMismatch { tensor: "x", .. }));
    let error = x.check_dtype("x", Dtype::F16).unwrap_err();
    assert_eq!(error.to_string(), "x has elements of type f32, expected f16");
    let error = RawTensor::new(1000, Dtype::F32, &[2, 3], &[1]).unwrap_err();
    assert!(matches!(error, Error::RankMismatch { expected: 2, found: 1, .. }), "{error}");
    let error = RawTensor::contiguous(1000, Dtype::F32, &[1; 9]).unwrap_err();
    assert!(matches!(error, Error::RankTooLarge { rank: 9, limit: 8 }), "{error}");
}
