//! Tensors: what views name, against arithmetic on indices.

use half::{bf16, f16};
use support::on_every_backend;

#[test]
fn every_element_type_comes_back() {
    on_every_backend(|device| {
        let halves = [f16::ONE, f16::NEG_INFINITY, f16::from_f32(0.1)];
        assert_eq!(device.upload(&halves, &[3]).unwrap().to_vec().unwrap(), halves);
        let halves = [bf16::ONE, bf16::NEG_INFINITY, bf16::from_f32(0.1)];
        assert_eq!(device.upload(&halves, &[3]).unwrap().to_vec().unwrap(), halves);
        let floats = [1.0, f32::MAX, -0.1];
        assert_eq!(device.upload(&floats, &[3]).unwrap().to_vec().unwrap(), floats);
        let doubles = [1.0, f64::MAX, -0.1];
        assert_eq!(device.upload(&doubles, &[3]).unwrap().to_vec().unwrap(), doubles);
        let bytes = [0u8, 2, 255];
        assert_eq!(device.upload(&bytes, &[3]).unwrap().to_vec().unwrap(), bytes);
        let integers = [0, i32::MIN, i32::MAX];
        assert_eq!(device.upload(&integers, &[3]).unwrap().to_vec().unwrap(), integers);
    });
}

#[test]
fn zeros_are_zero() {
    on_every_backend(|device| {
        assert_eq!(device.zeros::<f32>(&[3, 5]).unwrap().to_vec().unwrap(), [0.0; 15]);
    });
}
