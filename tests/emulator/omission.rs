//! Leaving out one synchronisation of a launch.

use super::{broken_kernels as broken, line, run};
use cuda_emulator::{Buffer, Emulator, FaultKind, LaunchConfig, Launcher, SiteRecorder, SyncSite};

fn config() -> LaunchConfig {
    LaunchConfig::new(3, 64).shared_bytes(256)
}

fn sites(emulator: &Emulator, output: &Buffer<u32>) -> Vec<SyncSite> {
    let recorder = SiteRecorder::default();
    let emulator = emulator.clone().recording(&recorder);
    run(&emulator, &broken::sums, config(), (output.as_mut_ptr(),));
    recorder.sites()
}

#[test]
fn sites_are_listed_in_order() {
    let output = Buffer::from(vec![0u32; 2]);
    let expected = [
        ("bar.sync", "site: stores"),
        ("bar.sync", "site: halves"),
        ("fence.acq_rel.cta", "site: fence"),
        ("bar.sync", "site: next round"),
    ];
    for _ in 0..5 {
        let sites = sites(&Emulator::default(), &output);
        let found: Vec<_> = sites.iter().map(|s| (s.instruction(), s.location().line())).collect();
        assert_eq!(found, expected.map(|(instruction, comment)| (instruction, line(comment))));
    }
    for seed in 0..4 {
        let emulator = Emulator::adversarial(seed);
        assert_eq!(sites(&emulator, &output), sites(&emulator, &output));
    }
    assert_eq!(output[..], [2016, 2080]);
}

#[test]
fn the_absence_of_a_barrier_is_noticed() {
    let output = Buffer::from(vec![0u32; 2]);
    let sites = sites(&Emulator::default(), &output);
    assert_eq!(sites.len(), 4);
    for site in sites {
        let emulator = Emulator::default().race_check(true).omitting(site);
        let args = (output.as_mut_ptr(),);
        // SAFETY: the kernel writes two words, all blocks the same.
        let result = unsafe { emulator.launch(&broken::sums, config(), args) };
        match site.instruction() {
            // The barrier beside it does the same.
            "fence.acq_rel.cta" => result.expect("nothing depends on the fence"),
            _ => {
                let kind = result.expect_err("it was needed").kind();
                assert!([FaultKind::DataRace, FaultKind::Uninitialised].contains(&kind), "{site}");
            }
        }
    }
    run(&Emulator::default().race_check(true), &broken::sums, config(), (output.as_mut_ptr(),));
}
