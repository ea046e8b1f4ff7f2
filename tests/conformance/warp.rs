//! Shuffles, votes, reductions.

use super::harness::{Buffer, Random, assert_same_bits, conformance, conformance_from, launch};
use conformance_kernels::warp::*;
use cuda_std::Value;
use fused_attention::{Kernel, LaunchConfig};
use std::fmt::Debug;

const THREADS: usize = 64;

/// Compares a shuffle with `source`, the lane that a lane reads from; beyond the warp, its own.
fn check_shuffle<T: Value + Debug>(
    kernel: &'static Kernel<(*const T, *mut T, u32)>,
    lanes: &[u32],
    source: fn(i32, i32) -> i32,
) {
    conformance(|device| {
        let values: Vec<T> = Random(7).values(THREADS);
        let from = Buffer::new(device, &values);
        for &lanes in lanes {
            let to = Buffer::empty(device, THREADS);
            let args = (from.pointer(), to.pointer_mut(), lanes);
            // SAFETY: an element for each thread.
            unsafe { launch(device, kernel, LaunchConfig::new(1, THREADS as u32), args) };
            let expected = (0..THREADS).map(|i| {
                let (warp, lane) = (i / 32 * 32, i % 32);
                match source(lane as i32, lanes as i32) {
                    source @ 0..32 => values[warp + source as usize],
                    _ => values[i],
                }
            });
            let expected: Vec<T> = expected.collect();
            assert_same_bits(&to.to_vec(), &expected, &format!("{} by {lanes}", kernel.name()));
        }
    });
}

#[test]
fn shuffle_xor_exchanges_lanes() {
    let source = |lane, lanes| lane ^ lanes;
    check_shuffle(&shuffle_xor_u32, &[0, 1, 2, 4, 8, 16, 31], source);
    check_shuffle(&shuffle_xor_f32, &[0, 5, 16], source);
    check_shuffle(&shuffle_xor_u64, &[0, 5, 16], source);
    check_shuffle(&shuffle_xor_f64, &[0, 5, 16], source);
}

#[test]
fn shuffle_up_and_down_keep_the_value_at_the_ends() {
    check_shuffle(&shuffle_up_i32, &[0, 1, 7, 31], |lane, lanes| lane - lanes);
    check_shuffle(&shuffle_up_f64, &[1, 16], |lane, lanes| lane - lanes);
    check_shuffle(&shuffle_down_f32, &[0, 1, 7, 31], |lane, lanes| lane + lanes);
    check_shuffle(&shuffle_down_u64, &[1, 16], |lane, lanes| lane + lanes);
}

#[test]
fn shuffle_idx_takes_the_lane_modulo_32() {
    check_shuffle(&shuffle_idx_u32, &[0, 9, 31, 32, 71], |_, lane| lane % 32);
    check_shuffle(&shuffle_idx_f64, &[0, 31], |_, lane| lane % 32);
}

#[test]
fn halves_of_a_warp_shuffle_apart() {
    conformance(|device| {
        let values: Vec<u32> = Random(8).values(32);
        let (from, to) = (Buffer::new(device, &values), Buffer::empty(device, 32));
        let args = (from.pointer(), to.pointer_mut());
        // SAFETY: an element for each thread.
        unsafe { launch(device, &shuffle_half_warps, LaunchConfig::new(1, 32), args) };
        let expected: Vec<u32> = (0..32).map(|i| values[i ^ 2]).collect();
        assert_eq!(to.to_vec(), expected);
    });
}

#[test]
fn votes_count_a_warp() {
    conformance(|device| {
        // One warp mixed; then all true, and none.
        let mut values: Vec<u32> = Random(9).values(THREADS);
        values[32..].fill(1000);
        let from = Buffer::new(device, &values);
        for limit in [u32::MAX / 2, 1000, 1001] {
            let to = Buffer::<[u32; 4]>::empty(device, THREADS);
            let args = (from.pointer(), to.pointer_mut(), limit);
            // SAFETY: an element for each thread.
            unsafe { launch(device, &votes, LaunchConfig::new(1, THREADS as u32), args) };
            for (i, found) in to.to_vec().into_iter().enumerate() {
                let warp = &values[i / 32 * 32..][..32];
                let ballot = (0..32).fold(0, |b, lane| b | ((warp[lane] < limit) as u32) << lane);
                let (all, any) = (ballot == u32::MAX, ballot != 0);
                assert_eq!(found, [all as u32, any as u32, ballot, i as u32 % 32], "thread {i}");
            }
        }
    });
}

#[test]
fn one_lane_is_elected() {
    conformance(|device| {
        for mask in [1, u32::MAX, 0x8000_0000, 0xff00] {
            let to = Buffer::empty(device, 32);
            // SAFETY: an element for each thread.
            unsafe {
                launch(device, &elect, LaunchConfig::new(1, 32), (to.pointer_mut(), mask));
            }
            assert_eq!(to.to_vec(), [1 << mask.trailing_zeros(); 32], "mask {mask:#x}");
        }
    });
}

#[test]
fn reductions_cover_a_warp() {
    conformance_from((8, 0), |device| {
        let mut values: Vec<u32> = Random(10).values(THREADS);
        // So that neither "and" nor "or" is trivial.
        values[..32].iter_mut().for_each(|value| *value |= 0x0101_0000);
        values[32..].iter_mut().for_each(|value| *value &= 0x7fff_fff3);
        let from = Buffer::new(device, &values);
        let (order, bits) = (Buffer::empty(device, THREADS), Buffer::empty(device, THREADS));
        let args = (from.pointer(), order.pointer_mut(), bits.pointer_mut());
        // SAFETY: an element for each thread.
        unsafe { launch(device, &reductions, LaunchConfig::new(1, THREADS as u32), args) };
        let (order, bits) = (order.to_vec(), bits.to_vec());
        for i in 0..THREADS {
            let warp = &values[i / 32 * 32..][..32];
            let sum = warp.iter().fold(0u32, |sum, &value| sum.wrapping_add(value));
            let (min, max) = (*warp.iter().min().unwrap(), *warp.iter().max().unwrap());
            assert_eq!(order[i], [sum, min, max, i as u32 % 32], "thread {i}");
            let and = warp.iter().fold(u32::MAX, |and, value| and & value);
            let or = warp.iter().fold(0, |or, value| or | value);
            assert_eq!(bits[i], [and, or], "thread {i}");
        }
    });
}

#[test]
fn sync_warp_orders_shared_memory() {
    conformance(|device| {
        let values: Vec<u32> = Random(11).values(32);
        let (from, to) = (Buffer::new(device, &values), Buffer::empty(device, 32));
        let args = (from.pointer(), to.pointer_mut());
        let config = LaunchConfig::new(1, 32).shared_bytes(128);
        // SAFETY: an element for each thread, and 4 bytes of shared memory.
        unsafe { launch(device, &sync_warp, config, args) };
        let expected: Vec<u32> = (0..32).map(|i| values[i ^ 1]).collect();
        assert_eq!(to.to_vec(), expected);
    });
}
