//! Loads and stores of each type.

use super::harness::{Buffer, Random, assert_same_bits, conformance, launch};
use conformance_kernels::memory::*;
use cuda_std::Value;
use fused_attention::{Kernel, LaunchConfig};
use std::fmt::Debug;

fn check<T: Value + Debug>(kernel: &'static Kernel<(*const T, *mut T)>) {
    conformance(|device| {
        const THREADS: usize = 64;
        let values: Vec<T> = Random(14).values(THREADS);
        let (from, to) = (Buffer::new(device, &values), Buffer::empty(device, 4 * THREADS));
        let shared_bytes = (THREADS * size_of::<T>()) as u32;
        let config = LaunchConfig::new(1, THREADS as u32).shared_bytes(shared_bytes);
        // SAFETY: four elements for each thread, and shared memory for one.
        unsafe { launch(device, kernel, config, (from.pointer(), to.pointer_mut())) };
        let expected: Vec<T> = (0..THREADS)
            .flat_map(|i| [values[i], values[i], values[i], values[THREADS - 1 - i]])
            .collect();
        assert_same_bits(&to.to_vec(), &expected, kernel.name());
    });
}

fn check_some<T: Value + Debug>(kernel: &'static Kernel<(*const T, *const T, *mut T, u32)>) {
    conformance(|device| {
        const THREADS: usize = 64;
        let mut random = Random(30);
        let [values, otherwise]: [Vec<T>; 2] = std::array::from_fn(|_| random.values(THREADS));
        for some in [0x8000_0f35, 0, u32::MAX] {
            let [from, other] = [&values, &otherwise].map(|values| Buffer::new(device, values));
            let to = Buffer::empty(device, 2 * THREADS);
            let args = (from.pointer(), other.pointer(), to.pointer_mut(), some);
            // SAFETY: two elements for each thread.
            unsafe { launch(device, kernel, LaunchConfig::new(1, THREADS as u32), args) };
            let expected = (0..THREADS).flat_map(|i| match some >> (i % 32) & 1 {
                1 => [values[i]; 2],
                _ => [otherwise[i]; 2],
            });
            let expected: Vec<T> = expected.collect();
            assert_same_bits(&to.to_vec(), &expected, kernel.name());
        }
    });
}

#[test]
fn scalars_come_back() {
    check(&memory_u8);
    check(&memory_u16);
    check(&memory_u32);
    check(&memory_i32);
    check(&memory_f32);
    check(&memory_u64);
    check(&memory_f64);
}

#[test]
fn vectors_come_back() {
    check(&memory_u32x2);
    check(&memory_u32x4);
    check(&memory_f32x2);
    check(&memory_f32x4);
    check(&memory_u64x2);
    check(&memory_f64x2);
}

#[test]
fn conditions_hold_for_each_thread() {
    check_some(&conditional_u8);
    check_some(&conditional_u16);
    check_some(&conditional_u32);
    check_some(&conditional_i32);
    check_some(&conditional_f32);
    check_some(&conditional_u64);
    check_some(&conditional_f64);
    check_some(&conditional_u32x2);
    check_some(&conditional_u32x4);
    check_some(&conditional_f32x2);
    check_some(&conditional_f32x4);
    check_some(&conditional_u64x2);
    check_some(&conditional_f64x2);
}

#[test]
fn what_is_fetched_stays_as_it_is() {
    conformance(|device| {
        const THREADS: usize = 64;
        let values: Vec<u32> = Random(31).values(THREADS);
        let (from, to) = (Buffer::new(device, &values), Buffer::empty(device, THREADS));
        let args = (from.pointer(), to.pointer_mut());
        // SAFETY: an element for each thread.
        unsafe { launch(device, &fetch, LaunchConfig::new(1, THREADS as u32), args) };
        assert_eq!(to.to_vec(), values);
        assert_eq!(from.to_vec(), values);
    });
}
