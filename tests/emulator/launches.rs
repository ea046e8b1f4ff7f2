//! Launches that are refused, and what faults tell of a launch.

use super::{broken_kernels as broken, fault, index, run};
use cuda_emulator::{Dim3, Emulator, FaultKind, LaunchConfig, LaunchError};

#[track_caller]
fn check_refused(config: LaunchConfig, error: LaunchError) {
    let fault = fault(&Emulator::default(), &broken::does_nothing, config, ());
    assert_eq!(fault.kind(), FaultKind::Refused(error));
    assert_eq!((fault.block(), fault.thread()), (None, None));
    assert_eq!(fault.to_string(), format!("does_nothing: {error}"));
}

#[test]
fn empty_launches_are_refused() {
    for grid in [(0, 1, 1), (1, 0, 1), (1, 1, 0)].map(Dim3::from) {
        check_refused(LaunchConfig::new(grid, 1), LaunchError::EmptyGrid { grid });
    }
    for block in [(0, 1, 1), (1, 0, 1), (1, 1, 0)].map(Dim3::from) {
        check_refused(LaunchConfig::new(1, block), LaunchError::EmptyBlock { block });
    }
}

#[test]
fn grids_have_limits() {
    for grid in [(1 << 31, 1, 1), (1, 65536, 1), (1, 1, 65536)].map(Dim3::from) {
        check_refused(LaunchConfig::new(grid, 1), LaunchError::GridTooLarge { grid });
    }
    run(&Emulator::default(), &broken::does_nothing, LaunchConfig::new((1, 65535), 1), ());
}

#[test]
fn blocks_keep_to_the_launch_bounds() {
    for block in [(129, 1, 1), (64, 3, 1), (1, 1, 65)].map(Dim3::from) {
        let error = LaunchError::BlockTooLarge { block, limit: 128 };
        check_refused(LaunchConfig::new(1, block), error);
    }
    run(&Emulator::default(), &broken::does_nothing, LaunchConfig::new(1, (64, 2)), ());
}

#[test]
fn shared_memory_has_a_limit() {
    let bytes = 227 * 1024;
    run(
        &Emulator::default(),
        &broken::does_nothing,
        LaunchConfig::new(1, 1).shared_bytes(bytes),
        (),
    );
    let config = LaunchConfig::new(1, 1).shared_bytes(bytes + 1);
    check_refused(config, LaunchError::SharedMemoryTooLarge { bytes: bytes + 1 });
}

#[test]
fn grids_are_made_of_whole_clusters() {
    let grid = Dim3::from((6, 4));
    let config = LaunchConfig::new(grid, 1);
    run(&Emulator::default(), &broken::does_nothing, config.cluster(3), ());
    check_refused(config.cluster(4), LaunchError::PartialCluster { grid, cluster: 4 });
    check_refused(config.cluster(0), LaunchError::ClusterSize { cluster: 0 });
    check_refused(config.cluster(17), LaunchError::ClusterSize { cluster: 17 });
}

#[test]
fn faults_name_the_seed() {
    for seed in 0..4 {
        let emulator = Emulator::adversarial(seed);
        let fault = fault(&emulator, &broken::panics, LaunchConfig::new(1, 2), (0,));
        assert_eq!(fault.seed(), Some(seed));
        for text in [fault.to_string(), format!("{fault:?}")] {
            assert!(text.contains(&format!("seed {seed}")), "{text}");
        }
    }
}

/// Of many faults, that of the first block, though blocks run in parallel.
#[test]
fn faults_are_reproducible() {
    for _ in 0..20 {
        let config = LaunchConfig::new(200, 32);
        let fault = fault(&Emulator::default(), &broken::panics, config, (31,));
        assert_eq!(fault.block(), Some(index(0)));
        assert_eq!(fault.thread(), Some(index(31)));
    }
}
