//! Clusters.

use super::harness::{Buffer, Random, assert_same_bits, conformance_from, launch};
use conformance_kernels::cluster::*;
use cuda_std::Value;
use fused_attention::{Kernel, LaunchConfig};
use std::fmt::Debug;

const THREADS: usize = 32;
const CLUSTERS: usize = 3;

#[test]
fn ranks_count_from_zero_in_each_cluster() {
    conformance_from((9, 0), |device| {
        for blocks in [1, 2, 4, 8] {
            let count = CLUSTERS * blocks * THREADS;
            let to = Buffer::<[u32; 4]>::empty(device, count);
            let grid = (CLUSTERS * blocks) as u32;
            let config = LaunchConfig::new(grid, THREADS as u32).cluster(blocks as u32);
            // SAFETY: an element for each thread.
            unsafe { launch(device, &cluster_ranks, config, (to.pointer_mut(),)) };
            for (i, found) in to.to_vec().into_iter().enumerate() {
                let (cluster, rank) = (i / THREADS / blocks, i / THREADS % blocks);
                let expected = [rank, blocks, cluster, CLUSTERS].map(|number| number as u32);
                assert_eq!(found, expected, "thread {i} of {count}");
            }
        }
    });
}

fn check_exchange<T: Value + Debug>(kernel: &'static Kernel<(*const T, *mut [T; 2])>) {
    conformance_from((9, 0), |device| {
        for blocks in [1, 2, 4, 8] {
            let count = CLUSTERS * blocks * THREADS;
            let values: Vec<T> = Random(20).values(count);
            let (from, to) = (Buffer::new(device, &values), Buffer::<T>::empty(device, 2 * count));
            let config = LaunchConfig::new((CLUSTERS * blocks) as u32, THREADS as u32)
                .cluster(blocks as u32)
                .shared_bytes((2 * THREADS * size_of::<T>()) as u32);
            let args = (from.pointer(), to.pointer_mut().cast());
            // SAFETY: two elements for each thread, and shared memory for two.
            unsafe { launch(device, kernel, config, args) };
            let neighbour = |i: usize, step: usize| {
                let (block, lane) = (i / THREADS, i % THREADS);
                let rank = (block % blocks + step) % blocks;
                values[(block / blocks * blocks + rank) * THREADS + lane]
            };
            let expected: Vec<T> =
                (0..count).flat_map(|i| [neighbour(i, 1), neighbour(i, blocks - 1)]).collect();
            assert_same_bits(&to.to_vec(), &expected, &format!("{}, {blocks}", kernel.name()));
        }
    });
}

#[test]
fn blocks_of_a_cluster_exchange_values() {
    check_exchange(&cluster_exchange_u8);
    check_exchange(&cluster_exchange_u16);
    check_exchange(&cluster_exchange_u32);
    check_exchange(&cluster_exchange_u64);
    check_exchange(&cluster_exchange_f32x4);
    check_exchange(&cluster_exchange_f64x2);
}

fn check_send<T: Value + Debug + PartialEq>(kernel: &'static Kernel<(*const T, *mut T)>) {
    conformance_from((9, 0), |device| {
        for blocks in [2, 4, 8] {
            let count = CLUSTERS * blocks * THREADS;
            let values: Vec<T> = Random(22).values(count);
            let (from, to) = (Buffer::new(device, &values), Buffer::<T>::empty(device, count));
            let config = LaunchConfig::new((CLUSTERS * blocks) as u32, THREADS as u32)
                .cluster(blocks as u32)
                .shared_bytes((16 + 8 * THREADS) as u32);
            // SAFETY: an element for each thread, and 8 bytes of shared memory behind the barrier.
            unsafe { launch(device, kernel, config, (from.pointer(), to.pointer_mut())) };
            let previous = |i: usize| {
                let (block, lane) = (i / THREADS, i % THREADS);
                let rank = (block % blocks + blocks - 1) % blocks;
                values[(block / blocks * blocks + rank) * THREADS + lane]
            };
            let expected: Vec<T> = (0..count).map(previous).collect();
            assert_same_bits(&to.to_vec(), &expected, "sent");
        }
    });
}

#[test]
fn asynchronous_stores_report_to_the_receivers_barrier() {
    check_send(&cluster_store_async_f32);
    check_send(&cluster_store_async_u64);
}
