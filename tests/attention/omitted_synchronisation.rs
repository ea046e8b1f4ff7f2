//! Every synchronisation of every kernel is needed, and its absence would be noticed.

use cuda_emulator::{Emulator, SiteRecorder, SyncSite};
use fused_attention::{Device, Element, attention_tile_names};
use half::{bf16, f16};
use support::{
    attention_case::{AttentionCase, SolvedAttention},
    softmax_case::ByteMask,
};

/// Schedules that are tried until one shows it.
const SEEDS: u64 = 20;

/// Problems on each tile: of several blocks of keys, without and with all features, and one of which
/// nobody sees anything.
fn problems<T: Element>() -> Vec<Vec<SolvedAttention<T>>> {
    let mut problems = Vec::new();
    for tile in attention_tile_names() {
        let case = AttentionCase { tile: Some(tile), ..AttentionCase::new((1, 1, 70, 300, 64)) };
        let bytes = Some(ByteMask { hidden: 0.2, ..ByteMask::new(&[70, 300]) });
        let blind = AttentionCase { key_lengths: Some(vec![0]), ..case.clone() };
        for cases in [
            vec![case.clone().causal(), blind.clone()],
            vec![AttentionCase { bytes: bytes.clone(), ..case }, AttentionCase { bytes, ..blind }],
        ] {
            let solved: Vec<_> = cases.iter().map(AttentionCase::solve::<T>).collect();
            // The tile may be one for other elements or head dimensions.
            if solved[0].explain(&Device::emulator()).is_ok() {
                problems.push(solved);
            }
        }
    }
    assert!(!problems.is_empty());
    problems
}

/// The synchronisations that the problem's kernel comes to.
fn sites<T: Element>(problem: &SolvedAttention<T>) -> Vec<SyncSite> {
    let recorder = SiteRecorder::default();
    let emulator = Emulator::default().recording(&recorder);
    problem.assert_right(&Device::emulator_with(emulator));
    recorder.sites()
}

fn every_site_is_needed<T: Element>() {
    for problems in problems::<T>() {
        let sites = sites(&problems[0]);
        let tile = problems[0].case.tile;
        assert!(!sites.is_empty(), "{tile:?}");
        for site in sites {
            let noticed = (0..SEEDS).any(|seed| {
                let emulator = Emulator::adversarial(seed).omitting(site);
                let device = Device::emulator_with(emulator);
                problems.iter().any(|problem| problem.check(&device).is_err())
            });
            assert!(noticed, "{tile:?}: nobody misses {site}");
        }
    }
}

#[test]
fn every_site_is_needed_f16() {
    every_site_is_needed::<f16>();
}

#[test]
fn every_site_is_needed_f32() {
    every_site_is_needed::<f32>();
}

/// The same seeds find nothing in the kernels as they are.
#[test]
fn nothing_is_found_with_all_of_them() {
    for problem in problems::<bf16>().iter().flatten() {
        for seed in 0..SEEDS / 4 {
            problem.assert_right(&Device::emulator_with(Emulator::adversarial(seed)));
        }
    }
}
