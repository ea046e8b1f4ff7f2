//! Tensors' own memory: what goes in comes out, whatever its type and size.

use fused_attention::{Dtype, Error, Scalar};
use half::{bf16, f16};
use support::on_every_backend;

fn round_trip<T: Scalar>(elements: &[T], dtype: Dtype) {
    on_every_backend(|device| {
        let tensor = device.upload(elements, &[elements.len()]).unwrap();
        assert_eq!(tensor.to_vec().unwrap(), elements);
        assert_eq!((tensor.dtype(), tensor.len(), tensor.rank()), (dtype, elements.len(), 1));
    });
}

#[test]
fn every_element_type_comes_back() {
    round_trip(&[f16::ONE, f16::NEG_INFINITY, f16::from_f32(0.1)], Dtype::F16);
    round_trip(&[bf16::ONE, bf16::NEG_INFINITY, bf16::from_f32(0.1)], Dtype::Bf16);
    round_trip(&[1.0, f32::MAX, -0.1], Dtype::F32);
    round_trip(&[1.0, f64::MAX, -0.1], Dtype::F64);
    round_trip(&[0u8, 2, 255], Dtype::U8);
    round_trip(&[0, i32::MIN, i32::MAX], Dtype::I32);
    round_trip(&[0, i64::MIN, i64::MAX], Dtype::I64);
}

#[test]
fn zeros_are_zero() {
    on_every_backend(|device| {
        assert_eq!(device.zeros::<f32>(&[3, 5]).unwrap().to_vec().unwrap(), [0.0; 15]);
        assert_eq!(
            device.zeros::<f16>(&[1 << 20]).unwrap().to_vec().unwrap(),
            [f16::ZERO; 1 << 20]
        );
    });
}

#[test]
fn uninitialised_memory_of_the_emulator_is_nan() {
    let device = fused_attention::Device::emulator();
    let tensor = device.empty::<bf16>(&[100]).unwrap();
    assert!(tensor.to_vec().unwrap().iter().all(|element| element.is_nan()));
    assert_eq!(device.empty::<i32>(&[2]).unwrap().to_vec().unwrap(), [-1; 2]);
}

#[test]
fn tensors_without_elements_are_tensors() {
    on_every_backend(|device| {
        for shape in [&[0][..], &[3, 0], &[0, 5, 2], &[2, 0, 0]] {
            for tensor in [
                device.upload::<f32>(&[], shape).unwrap(),
                device.zeros(shape).unwrap(),
                device.empty(shape).unwrap(),
            ] {
                assert!(tensor.is_empty() && tensor.is_contiguous());
                assert_eq!((tensor.shape(), tensor.len()), (shape, 0));
                assert!(tensor.to_vec().unwrap().is_empty());
                tensor.copy_from(&[]).unwrap();
            }
        }
        let tensor = device.zeros::<f32>(&[4, 6]).unwrap();
        let end = tensor.narrow(1, 6, 0).unwrap();
        assert_eq!((end.shape(), end.to_vec().unwrap()), (&[4, 0][..], vec![]));
        assert_eq!(end.pointer(), tensor.pointer(), "an address inside the tensor");
    });
}

#[test]
fn a_tensor_of_rank_0_has_one_element() {
    on_every_backend(|device| {
        let tensor = device.upload(&[7.5f64], &[]).unwrap();
        assert_eq!((tensor.len(), tensor.to_vec().unwrap()), (1, vec![7.5]));
        assert_eq!(tensor.expand(&[2, 2]).unwrap().to_vec().unwrap(), [7.5; 4]);
    });
}

#[test]
fn clones_are_the_same_elements() {
    on_every_backend(|device| {
        let tensor = device.zeros::<i32>(&[2, 3]).unwrap();
        let (clone, row) = (tensor.clone(), tensor.narrow(0, 1, 1).unwrap());
        row.copy_from(&[1, 2, 3]).unwrap();
        assert_eq!(clone.to_vec().unwrap(), [0, 0, 0, 1, 2, 3]);
        drop((tensor, clone));
        assert_eq!(row.to_vec().unwrap(), [1, 2, 3], "a view keeps the memory");
    });
}

#[test]
fn the_number_of_elements_must_be_the_shapes() {
    on_every_backend(|device| {
        let error = device.upload(&[1f32, 2.0], &[3]).unwrap_err();
        assert!(
            matches!(&error, Error::LengthMismatch { shape, expected: 3, found: 2 } if shape == &[3]),
            "{error}"
        );
        let tensor = device.zeros::<f32>(&[3]).unwrap();
        let error = tensor.copy_from(&[1.0; 4]).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { expected: 3, found: 4, .. }), "{error}");
    });
}

#[test]
fn a_tensor_with_gaps_cannot_be_overwritten() {
    on_every_backend(|device| {
        let tensor = device.zeros::<f32>(&[2, 3]).unwrap();
        let error = tensor.narrow(1, 0, 2).unwrap().copy_from(&[1.0; 4]).unwrap_err();
        assert!(
            matches!(&error, Error::NotViewable { strides, .. } if strides == &[3, 1]),
            "{error}"
        );
        assert_eq!(tensor.to_vec().unwrap(), [0.0; 6]);
    });
}

#[test]
fn sizes_beyond_64_bits_are_refused() {
    on_every_backend(|device| {
        for shape in [&[usize::MAX][..], &[1 << 32, 1 << 31], &[1 << 21; 3], &[1 << 62]] {
            let error = device.empty::<f64>(shape).unwrap_err();
            assert!(matches!(&error, Error::SizeOverflow { shape: found, .. } if found == shape));
        }
        let error = device.empty::<f64>(&[1; 9]).unwrap_err();
        assert!(matches!(error, Error::RankTooLarge { rank: 9, limit: 8 }), "{error}");
    });
}

#[test]
fn more_memory_than_there_is_is_refused() {
    on_every_backend(|device| {
        let error = device.empty::<u8>(&[1 << 50]).unwrap_err();
        assert!(matches!(&error, Error::OutOfMemory { bytes, .. } if *bytes == 1 << 50), "{error}");
    });
}
