//! Atomic operations and fences.

use super::harness::{Buffer, Random, conformance, launch};
use conformance_kernels::atomic::*;
use cuda_std::Value;
use fused_attention::{Device, Kernel, LaunchConfig};

const BLOCKS: u32 = 5;
const THREADS: u32 = 128;
const COUNT: usize = (BLOCKS * THREADS) as usize;

/// Fails unless some order of the threads explains what each found in the cell and what is there
/// in the end.
fn check_order<T: Value + PartialEq + std::fmt::Debug>(
    name: &str,
    initial: T,
    values: &[T],
    found: &[T],
    last: T,
    step: impl Fn(T, T) -> T,
) {
    let mut now = initial;
    let mut left: Vec<usize> = (0..values.len()).collect();
    while !left.is_empty() {
        // Those who change nothing first: they could not come later.
        let here = |&i: &usize| found[left[i]] == now;
        let idle = |i: &usize| step(now, values[left[*i]]) == now;
        let next = (0..left.len()).filter(here).find(idle).or((0..left.len()).find(here));
        let next = next.unwrap_or_else(|| panic!("{name}: nobody found {now:?}, which was there"));
        now = step(now, values[left.swap_remove(next)]);
    }
    assert_eq!(now, last, "{name}: the value in the end");
}

fn check<T: Value + PartialEq + std::fmt::Debug>(
    kernel: &'static Kernel<(*const T, *mut T, *mut T)>,
    initial: T,
    value: impl Fn(u64) -> T,
    step: impl Fn(T, T) -> T,
) {
    let mut random = Random(15);
    let values: Vec<T> = (0..COUNT).map(|_| value(random.bits())).collect();
    conformance(|device| {
        let (from, cell) = (Buffer::new(device, &values), Buffer::new(device, &[initial]));
        let found = Buffer::empty(device, COUNT);
        let args = (from.pointer(), cell.pointer_mut(), found.pointer_mut());
        // SAFETY: an element for each thread.
        unsafe { launch(device, kernel, LaunchConfig::new(BLOCKS, THREADS), args) };
        let last = cell.to_vec()[0];
        check_order(kernel.name(), initial, &values, &found.to_vec(), last, &step);
    });
}

#[test]
fn atomics_on_u32() {
    let value = |bits| bits as u32;
    check(&add_u32, 3, value, u32::wrapping_add);
    check(&min_u32, u32::MAX, value, u32::min);
    check(&max_u32, 0, value, u32::max);
    check(&and_u32, u32::MAX, |bits| (bits | bits >> 32) as u32, |a, b| a & b);
    check(&or_u32, 0, |bits| (bits & bits >> 32) as u32, |a, b| a | b);
    check(&xor_u32, 77, value, |a, b| a ^ b);
    check(&exchange_u32, 77, value, |_, b| b);
}

#[test]
fn atomics_on_i32() {
    let value = |bits| bits as i32;
    check(&add_i32, -3, value, i32::wrapping_add);
    check(&min_i32, i32::MAX, value, i32::min);
    check(&max_i32, i32::MIN, value, i32::max);
    check(&exchange_i32, -77, value, |_, b| b);
}

#[test]
fn atomics_on_u64() {
    let value = |bits| bits;
    check(&add_u64, 3, value, u64::wrapping_add);
    check(&min_u64, u64::MAX, value, u64::min);
    check(&max_u64, 0, value, u64::max);
    check(&exchange_u64, 77, value, |_, b| b);
}

#[test]
fn atomics_on_floats() {
    // Sums of integers up to 2^24 are exact.
    check(&add_f32, -1000.0, |bits| (bits % 1000) as f32, |a, b| a + b);
    check(&exchange_f32, 0.5, |bits| (bits >> 40) as f32, |_, b| b);
    check(&add_f64, -1e9, |bits| (bits >> 20) as f64, |a, b| a + b);
    check(&exchange_f64, 0.5, |bits| (bits >> 20) as f64, |_, b| b);
}

fn check_compare_and_swap<T: Value + PartialEq + std::fmt::Debug>(
    device: &Device,
    kernel: &'static Kernel<(*const T, *mut T, *mut T, T)>,
    [initial, other]: [T; 2],
) {
    let values: Vec<T> = Random(16).values(COUNT);
    for compare in [initial, other] {
        let (from, cell) = (Buffer::new(device, &values), Buffer::new(device, &[initial]));
        let found = Buffer::empty(device, COUNT);
        let args = (from.pointer(), cell.pointer_mut(), found.pointer_mut(), compare);
        // SAFETY: an element for each thread.
        unsafe { launch(device, kernel, LaunchConfig::new(BLOCKS, THREADS), args) };
        let step = |now, value| if now == compare { value } else { now };
        let last = cell.to_vec()[0];
        assert_eq!(last == initial, compare != initial, "{}", kernel.name());
        check_order(kernel.name(), initial, &values, &found.to_vec(), last, step);
    }
}

#[test]
fn compare_and_swap_succeeds_once() {
    conformance(|device| {
        check_compare_and_swap(device, &cas_u32, [1, 2]);
        check_compare_and_swap(device, &cas_i32, [-1, 2]);
        check_compare_and_swap(device, &cas_u64, [1, 2]);
    });
}

#[test]
fn fences_let_the_last_block_see_the_others() {
    conformance(|device| {
        let (blocks, threads) = (37, 32);
        let values: Vec<u32> = Random(17).values((blocks * threads) as usize);
        let from = Buffer::new(device, &values);
        let sums = Buffer::<u32>::empty(device, blocks as usize);
        let (finished, to) = (Buffer::new(device, &[0]), Buffer::new(device, &[0]));
        let config = LaunchConfig::new(blocks, threads).shared_bytes(4 * threads);
        let args = (from.pointer(), sums.pointer_mut(), finished.pointer_mut(), to.pointer_mut());
        // SAFETY: an element for each thread and block, and 4 bytes of shared memory a thread.
        unsafe { launch(device, &last_block_sums, config, args) };
        assert_eq!(to.to_vec()[0], values.iter().fold(0, |sum: u32, &x| sum.wrapping_add(x)));
        assert_eq!(finished.to_vec()[0], blocks);
    });
}
