//! Asynchronous copies.

use super::harness::{Buffer, Random, conformance_from, launch};
use conformance_kernels::copy;
use fused_attention::LaunchConfig;

const THREADS: usize = 64;

/// The first `bytes` bytes of a value, then zeros.
fn clipped(value: [u32; 4], bytes: u32) -> [u32; 4] {
    std::array::from_fn(|i| match bytes.saturating_sub(4 * i as u32) {
        0 => 0,
        bytes @ 1..4 => value[i] & ((1 << (8 * bytes)) - 1),
        _ => value[i],
    })
}

#[test]
fn cp_async_copies_and_fills_with_zeros() {
    conformance_from((8, 0), |device| {
        let values: Vec<[u32; 4]> = Random(18).values(THREADS);
        for bytes in [16, 13, 8, 6, 4, 1, 0] {
            let from = Buffer::new(device, &values);
            let to_16 = Buffer::<[u32; 4]>::empty(device, THREADS);
            let to_8 = Buffer::<[u32; 2]>::empty(device, THREADS);
            let to_4 = Buffer::<u32>::empty(device, THREADS);
            let to = (to_16.pointer_mut(), to_8.pointer_mut(), to_4.pointer_mut());
            let args = (from.pointer(), to.0, to.1, to.2, bytes);
            let config = LaunchConfig::new(1, THREADS as u32).shared_bytes(32 * THREADS as u32);
            // SAFETY: an element for each thread, and 32 bytes of shared memory.
            unsafe { launch(device, &copy::cp_async, config, args) };
            let expected: Vec<_> = values.iter().map(|&value| clipped(value, bytes)).collect();
            assert_eq!(to_16.to_vec(), expected, "{bytes} bytes of 16");
            let expected_8: Vec<_> = expected.iter().map(|value| [value[0], value[1]]).collect();
            assert_eq!(to_8.to_vec(), expected_8, "{bytes} bytes of 8");
            let expected_4: Vec<_> = expected.iter().map(|value| value[0]).collect();
            assert_eq!(to_4.to_vec(), expected_4, "{bytes} bytes of 4");
        }
    });
}

#[test]
fn a_barrier_shares_copies_with_the_block() {
    conformance_from((8, 0), |device| {
        let values: Vec<[u32; 4]> = Random(19).values(THREADS);
        let (from, to) = (Buffer::new(device, &values), Buffer::empty(device, THREADS));
        let config = LaunchConfig::new(1, THREADS as u32).shared_bytes(16 * THREADS as u32);
        let args = (from.pointer(), to.pointer_mut());
        // SAFETY: an element for each thread, and 16 bytes of shared memory.
        unsafe { launch(device, &copy::cp_async_tile, config, args) };
        let expected: Vec<_> = values.into_iter().rev().collect();
        assert_eq!(to.to_vec(), expected);
    });
}

#[test]
fn what_is_prefetched_in_bulk_stays_as_it_is() {
    conformance_from((9, 0), |device| {
        let values: Vec<[u32; 4]> = Random(23).values(THREADS);
        let (from, to) = (Buffer::new(device, &values), Buffer::empty(device, THREADS));
        let args = (from.pointer(), to.pointer_mut());
        // SAFETY: an element for each thread.
        unsafe { launch(device, &copy::bulk_prefetch, LaunchConfig::new(1, THREADS as u32), args) };
        assert_eq!(to.to_vec(), values);
        assert_eq!(from.to_vec(), values);
    });
}

#[test]
fn bulk_copies_report_to_their_barrier() {
    conformance_from((9, 0), |device| {
        let values: Vec<[u32; 4]> = Random(21).values(THREADS);
        for bytes in [16, 32, 256, 1024] {
            let (from, to) = (Buffer::new(device, &values), Buffer::empty(device, THREADS));
            let shared_bytes = 16 + 16 * THREADS as u32;
            let config = LaunchConfig::new(1, THREADS as u32).shared_bytes(shared_bytes);
            let args = (from.pointer(), to.pointer_mut(), bytes);
            // SAFETY: an element for each thread, and 16 bytes of shared memory behind the barrier.
            unsafe { launch(device, &copy::bulk_copy_tile, config, args) };
            let expected: Vec<_> = values.iter().rev().copied().collect();
            assert_eq!(to.to_vec(), expected, "in pieces of {bytes} bytes");
        }
    });
}
