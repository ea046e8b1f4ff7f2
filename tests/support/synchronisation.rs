//! Kernels without one of their synchronisations: somebody must notice.

use cuda_emulator::{Emulator, SiteRecorder, SyncSite};
use fused_attention::Device;
use std::fmt::Display;

/// Schedules that are tried until one shows it.
pub const SEEDS: u64 = 20;

/// The synchronisations that a check comes to.
///
/// # Panics
/// It fails, though nothing is left out.
pub fn sites(check: impl Fn(&Device) -> Result<(), String>) -> Vec<SyncSite> {
    let recorder = SiteRecorder::default();
    let emulator = Emulator::default().recording(&recorder);
    if let Err(error) = check(&Device::emulator_with(emulator)) {
        panic!("{error}");
    }
    recorder.sites()
}

/// Checks that a check fails without any one of these synchronisations, under one of the schedules.
///
/// # Panics
/// Nobody misses one.
pub fn assert_needed(
    what: impl Display,
    sites: Vec<SyncSite>,
    check: impl Fn(&Device) -> Result<(), String>,
) {
    for site in sites {
        let noticed = (0..SEEDS).any(|seed| {
            let emulator = Emulator::adversarial(seed).omitting(site);
            check(&Device::emulator_with(emulator)).is_err()
        });
        assert!(noticed, "{what}: nobody misses {site}");
    }
}

/// Checks that a check passes with all synchronisations, under so many of the same schedules.
///
/// # Panics
/// It does not.
pub fn assert_enough(
    what: impl Display,
    seeds: u64,
    check: impl Fn(&Device) -> Result<(), String>,
) {
    for seed in 0..seeds {
        if let Err(error) = check(&Device::emulator_with(Emulator::adversarial(seed))) {
            panic!("{what}, seed {seed}: {error}");
        }
    }
}
