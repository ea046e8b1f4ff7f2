//! Clusters: blocks that reach each other's shared memory.

use super::{broken_kernels as broken, check_fault, check_line, emulators, fault, run};
use cuda_emulator::{Buffer, Emulator, FaultKind, LaunchConfig};

fn config(blocks: u32, cluster: u32) -> LaunchConfig {
    LaunchConfig::new(blocks, 40).cluster(cluster).shared_bytes(160)
}

fn checked() -> Emulator {
    Emulator::default().race_check(true)
}

#[test]
fn blocks_read_their_neighbours() {
    for emulator in emulators() {
        for cluster in [1, 2, 4, 8] {
            let output = Buffer::from(vec![0u32; 8 * 40]);
            let args = (output.as_mut_ptr(), 0);
            run(&emulator, &broken::neighbours, config(8, cluster), args);
            for (i, value) in output.iter().enumerate() {
                let (block, thread) = (i as u32 / 40, i as u32 % 40);
                assert_eq!(*value, (block % cluster + 1) % cluster * 1000 + thread);
            }
        }
    }
}

/// Without the first barrier the neighbour's word isn't there yet; without the second the
/// neighbour may be gone.
#[test]
fn both_barriers_around_a_remote_access_are_needed() {
    let output = Buffer::from(vec![0u32; 8 * 40]);
    let shuffled = emulators().filter(|emulator| emulator.seed().is_some());
    for emulator in shuffled.chain([checked()]) {
        for forgotten in 1..=2 {
            let args = (output.as_mut_ptr(), forgotten);
            let found = fault(&emulator, &broken::neighbours, config(8, 4), args);
            let kinds = [FaultKind::Cluster, FaultKind::Uninitialised];
            assert!(kinds.contains(&found.kind()), "{found}");
            check_line(&found, "blame: neighbour");
        }
    }
}

#[test]
fn a_block_that_has_ended_has_no_memory() {
    let output = Buffer::from(vec![0u32; 8 * 40]);
    let args = (output.as_mut_ptr(), 2);
    let found = fault(&checked(), &broken::neighbours, config(2, 2), args);
    assert_eq!(found.kind(), FaultKind::Cluster, "{found}");
    assert!(found.message().contains("ends, and nothing says"), "{found}");
}

#[test]
fn a_block_must_have_started() {
    let found = fault(&checked(), &broken::stores_before_the_start, config(2, 2), ());
    check_fault(&found, FaultKind::Cluster, "start", 0, 0);
}

#[test]
fn mapa_stays_within_the_cluster() {
    let found = fault(&checked(), &broken::maps_beyond_the_cluster, config(4, 2), ());
    check_fault(&found, FaultKind::Cluster, "mapa", 0, 0);
}

#[test]
fn remote_memory_has_an_end() {
    let config = config(2, 2).shared_bytes(64);
    let found = fault(&checked(), &broken::cluster_beyond_the_end, config, ());
    assert_eq!(found.kind(), FaultKind::OutOfBounds, "{found}");
    check_line(&found, "blame: remote out of bounds");
    assert!(found.message().contains("of the block of rank 1"), "{found}");
}

#[test]
fn races_are_found_between_blocks() {
    let found = fault(&checked(), &broken::cluster_race, config(4, 4), ());
    check_fault(&found, FaultKind::DataRace, "remote race", 1, 0);
    assert!(found.message().contains("thread 0 of the block of rank 0"), "{found}");
}

#[test]
fn a_deadlock_of_a_cluster_tells_of_every_block() {
    let config = LaunchConfig::new(2, 64).cluster(2);
    for emulator in emulators() {
        let found = fault(&emulator, &broken::cluster_deadlock, config, ());
        check_fault(&found, FaultKind::Deadlock, "cluster barrier", 0, 0);
        let text = found.message();
        assert!(text.contains("(0, 0, 0) threads 0-63: barrier.cluster.wait (64 of 96"), "{text}");
        assert!(text.contains("(1, 0, 0) threads 0-31: bar.sync 1, 64 (32 arrived)"), "{text}");
    }
}

#[test]
fn arrivals_and_waits_take_turns() {
    let found = fault(&checked(), &broken::cluster_arrives_twice, config(2, 2), ());
    check_fault(&found, FaultKind::Barrier, "twice", 0, 0);
    let found = fault(&checked(), &broken::cluster_waits_at_once, config(2, 2), ());
    check_fault(&found, FaultKind::Barrier, "wait", 0, 0);
}
