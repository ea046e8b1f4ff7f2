//! Warps and blocks that don't come together.

use super::{broken_kernels as broken, check_fault, check_line, emulators, fault, run};
use cuda_emulator::{Buffer, Emulator, FaultKind, LaunchConfig};
use std::time::Duration;

#[test]
fn lanes_at_different_shuffles_have_diverged() {
    let config = LaunchConfig::new(1, 32);
    let found = fault(&Emulator::default(), &broken::divergent_shuffle, config, ());
    check_fault(&found, FaultKind::Divergence, "other shuffle", 0, 16);
    let one = format!("broken_kernels.rs:{}:", super::line("blame: one shuffle"));
    assert!(found.message().contains(&one), "{found}");
    for emulator in emulators() {
        let found = fault(&emulator, &broken::divergent_shuffle, config, ());
        assert_eq!(found.kind(), FaultKind::Divergence, "{found}");
    }
}

#[test]
fn lanes_of_a_shuffle_bring_values_of_one_size() {
    let config = LaunchConfig::new(1, 32);
    let found = fault(&Emulator::default(), &broken::shuffle_of_two_sizes, config, ());
    check_fault(&found, FaultKind::Divergence, "double word", 0, 16);
}

#[test]
fn a_lane_is_in_its_own_mask() {
    let config = LaunchConfig::new(1, 32);
    let found = fault(&Emulator::default(), &broken::shuffle_without_oneself, config, ());
    check_fault(&found, FaultKind::Divergence, "mask", 0, 16);
}

#[test]
fn a_warp_meets_a_barrier_at_one_place() {
    let config = LaunchConfig::new(1, 64);
    let found = fault(&Emulator::default(), &broken::divergent_barrier, config, ());
    check_fault(&found, FaultKind::Divergence, "divergent barrier", 0, 1);
}

#[test]
fn a_barrier_of_the_block_passes_over_threads_that_have_ended() {
    for emulator in emulators() {
        for n in [1, 31, 32, 33, 100] {
            let output = Buffer::from(vec![0u32; n]);
            let config = LaunchConfig::new(1, 100).shared_bytes(400);
            run(&emulator, &broken::ends_early, config, (output.as_mut_ptr(), n as u32));
            assert!((0..n).all(|i| output[i] as usize == (i + 1) % n));
        }
    }
}

#[test]
fn a_deadlock_tells_who_waits_where() {
    for emulator in emulators() {
        let config = LaunchConfig::new(1, 64);
        let found = fault(&emulator, &broken::barrier_without_others, config, ());
        check_fault(&found, FaultKind::Deadlock, "deadlock", 0, 0);
        let text = found.message();
        assert!(text.contains("threads 0-31: bar.sync 1, 64 (32 arrived) at "), "{text}");
        assert!(text.contains("threads 32-63: exited"), "{text}");
    }
}

#[test]
fn mbarriers_that_wait_for_each_other_are_a_deadlock() {
    let config = LaunchConfig::new(1, 64).shared_bytes(16);
    let found = fault(&Emulator::default(), &broken::mbarriers_crossed, config, ());
    check_fault(&found, FaultKind::Deadlock, "mbarriers", 0, 0);
    assert!(found.message().contains("32 of 32 arrivals and 0 bytes missing"), "{found}");
}

#[test]
fn a_barrier_has_one_count() {
    let config = LaunchConfig::new(1, 96);
    let found = fault(&Emulator::default(), &broken::barrier_of_two_counts, config, ());
    check_fault(&found, FaultKind::Barrier, "counts", 0, 32);
}

#[test]
fn polling_for_ever_is_a_livelock() {
    let emulator = Emulator::default().patience(Duration::from_millis(50));
    let found = fault(&emulator, &broken::polls_for_ever, LaunchConfig::new(1, 32), ());
    assert_eq!(found.kind(), FaultKind::Livelock, "{found}");
    check_line(&found, "blame: livelock");
}

#[test]
fn a_loop_that_looks_at_memory_lets_others_run() {
    for emulator in emulators() {
        let flag = Buffer::from(vec![0u32]);
        run(&emulator, &broken::spins, LaunchConfig::new(1, 128), (flag.as_mut_ptr(), 0));
        let emulator = emulator.patience(Duration::from_millis(50));
        let flag = Buffer::from(vec![0u32]);
        let config = LaunchConfig::new(1, 2);
        let found = fault(&emulator, &broken::spins, config, (flag.as_mut_ptr(), 1));
        assert_eq!(found.kind(), FaultKind::Livelock, "{found}");
        check_line(&found, "blame: spin");
    }
}

#[test]
fn a_panic_is_a_fault() {
    let found = fault(&Emulator::default(), &broken::panics, LaunchConfig::new(2, 32), (20,));
    check_fault(&found, FaultKind::Panic, "panic", 0, 20);
    assert!(found.message().contains("thread 20 isn't below 20"), "{found}");
}
