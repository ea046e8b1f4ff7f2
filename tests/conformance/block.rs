//! Indices and barriers.

use super::harness::{Buffer, KERNELS, Random, conformance, conformance_from, launch};
use conformance_kernels::block::*;
use cuda_ptx::Arch;
use fused_attention::{Dim3, Kernel, LaunchConfig};

#[test]
fn indices_span_grid_and_block() {
    conformance(|device| {
        let (grid, block) = (Dim3 { x: 3, y: 2, z: 2 }, Dim3 { x: 4, y: 3, z: 2 });
        let threads = grid.count() * block.count();
        let to = Buffer::<[u32; 4]>::empty(device, 3 * threads);
        // SAFETY: three elements for each thread.
        unsafe { launch(device, &indices, LaunchConfig::new(grid, block), (to.pointer_mut(),)) };
        for (i, found) in to.to_vec().chunks(3).enumerate() {
            let (b, t) = (grid.at(i / block.count()), block.at(i % block.count()));
            assert_eq!(found[0], [t.x, b.x, block.x, grid.x], "thread {i}, x");
            assert_eq!(found[1], [t.y, b.y, block.y, grid.y], "thread {i}, y");
            assert_eq!(found[2], [t.z, b.z, block.z, grid.z], "thread {i}, z");
        }
    });
}

#[test]
fn sync_threads_orders_shared_memory() {
    conformance(|device| {
        for threads in [128, 96, 32] {
            let values: Vec<u32> = Random(12).values(threads);
            let (from, to) = (Buffer::new(device, &values), Buffer::empty(device, threads));
            let config = LaunchConfig::new(1, threads as u32).shared_bytes(4 * threads as u32);
            let args = (from.pointer(), to.pointer_mut());
            // SAFETY: an element for each thread, and 4 bytes of shared memory.
            unsafe { launch(device, &sync_threads, config, args) };
            // Mirrored twice; in between each thread adds its own number to what it holds.
            let expected: Vec<u32> =
                (0..threads).map(|i| values[i] ^ (threads - 1 - i) as u32).collect();
            assert_eq!(to.to_vec(), expected, "{threads} threads");
        }
    });
}

/// Hands over some rounds of `width` values from producers to consumers, who mirror them.
fn check_hand_over(
    capability: (u32, u32),
    kernel: &'static Kernel<(*const u32, *mut u32, u32)>,
    threads: u32,
    width: usize,
    shared_bytes: u32,
) {
    conformance_from(capability, |device| {
        for rounds in [1, 2, 3, 9] {
            let values: Vec<u32> = Random(13).values(rounds * width);
            let (from, to) = (Buffer::new(device, &values), Buffer::empty(device, values.len()));
            let config = LaunchConfig::new(1, threads).shared_bytes(shared_bytes);
            let args = (from.pointer(), to.pointer_mut(), rounds as u32);
            // SAFETY: an element for each of a round's threads, and enough shared memory.
            unsafe { launch(device, kernel, config, args) };
            let mirrored = values.chunks(width).flat_map(|round| round.iter().rev().copied());
            assert_eq!(to.to_vec(), mirrored.collect::<Vec<_>>(), "{rounds} rounds");
        }
    });
}

#[test]
fn named_barriers_hand_over() {
    check_hand_over((7, 0), &named_barriers, 128, 64, 512);
}

#[test]
fn mbarriers_hand_over() {
    check_hand_over((8, 0), &mbarrier_test, 64, 32, 256);
    check_hand_over((9, 0), &mbarrier_wait, 64, 32, 256);
    check_hand_over((9, 0), &mbarrier_expect, 64, 32, 256);
    check_hand_over((9, 0), &mbarrier_of_warps, 64, 32, 256);
}

/// Hands over elements one by one, each to another lane.
fn check_one_lane_arrives(
    capability: (u32, u32),
    kernel: &'static Kernel<(*const u32, *mut u32, u32)>,
) {
    conformance_from(capability, |device| {
        let rounds = 70;
        let values: Vec<u32> = Random(15).values(rounds);
        let (from, to) = (Buffer::new(device, &values), Buffer::empty(device, rounds));
        let args = (from.pointer(), to.pointer_mut(), rounds as u32);
        let config = LaunchConfig::new(1, 64).shared_bytes(256);
        // SAFETY: an element for each round, and the shared memory that the kernel asks for.
        unsafe { launch(device, kernel, config, args) };
        assert_eq!(to.to_vec(), values);
    });
}

#[test]
fn one_lane_arrives_at_an_mbarrier() {
    check_one_lane_arrives((8, 0), &mbarrier_arrive_if);
    check_one_lane_arrives((9, 0), &mbarrier_expect_if);
}

#[test]
fn barriers_between_branches_stay_whole() {
    let ptx = KERNELS.get(Arch::Sm70, barriers_between_branches.name()).unwrap();
    assert_eq!(ptx.matches("bar.sync").count(), 2, "a barrier was copied:\n{ptx}");
    conformance(|device| {
        let values: Vec<u32> = Random(14).values(2);
        let (from, to) = (Buffer::new(device, &values), Buffer::empty(device, 64));
        let args = (from.pointer(), to.pointer_mut());
        let config = LaunchConfig::new(1, 64).shared_bytes(8);
        // SAFETY: two elements, one for each thread, and two words of shared memory.
        unsafe { launch(device, &barriers_between_branches, config, args) };
        assert_eq!(to.to_vec(), [values[0] ^ values[1]; 64]);
    });
}
