//! Every synchronisation of every kernel is needed, and its absence would be noticed.

use cuda_emulator::{Emulator, SiteRecorder, SyncSite};
use fused_attention::{Device, reference::softmax::Saved};
use kernels::{
    softmax::entries::BACKWARD_VARIANTS,
    tiles::{Residence, Sharing, SoftmaxTile},
};
use support::{
    placement::Placement,
    softmax_case::{BackwardCase, SOURCES, SoftmaxCase, SolvedBackward},
};

/// Schedules that are tried until one shows it.
const SEEDS: u64 = 20;

/// A problem that several warps of a block, and blocks of a cluster, share.
fn problem(tile: &SoftmaxTile, saved: Saved) -> SolvedBackward<f32> {
    // Staged rows in several stretches, of which each block of a cluster has one at least.
    let threads = match (tile.residence, tile.sharing) {
        (Residence::SharedMemory, Sharing::Cluster) => 640,
        (Residence::SharedMemory, _) => 280,
        _ => 140,
    };
    let columns = threads * 4 * tile.vectors as usize;
    let (x, columns) = match tile.aligned {
        true => (Placement::Contiguous, columns),
        false => (Placement::Offset(1), columns + 1),
    };
    let forward = SoftmaxCase { x, ..SoftmaxCase::new(&[2, columns]) };
    let case = BackwardCase { dp: x, ..BackwardCase::new(saved, forward) };
    case.solve::<f32>().with_tile(tile.name)
}

/// The synchronisations that the problem's kernel comes to.
fn sites(problem: &SolvedBackward<f32>) -> Vec<SyncSite> {
    let recorder = SiteRecorder::default();
    let emulator = Emulator::default().recording(&recorder);
    problem.assert_right(&Device::emulator_with(emulator));
    recorder.sites()
}

#[test]
fn every_site_is_needed() {
    for variant in BACKWARD_VARIANTS {
        let tile = &variant.tile;
        for saved in SOURCES {
            let problem = problem(tile, saved);
            let sites = if tile.sharing == Sharing::Warp { Vec::new() } else { sites(&problem) };
            // Lanes of a warp exchange by shuffles, which synchronise themselves.
            assert_eq!(sites.is_empty(), tile.sharing == Sharing::Warp, "{}", tile.name);
            for site in sites {
                let noticed = (0..SEEDS).any(|seed| {
                    let emulator = Emulator::adversarial(seed).omitting(site);
                    problem.check(&Device::emulator_with(emulator)).is_err()
                });
                assert!(noticed, "{} from {saved:?}: nobody misses {site}", tile.name);
            }
        }
    }
}

/// The same seeds find nothing in the kernels as they are.
#[test]
fn nothing_is_found_with_all_of_them() {
    for variant in BACKWARD_VARIANTS.iter().filter(|v| v.tile.sharing != Sharing::Warp) {
        for saved in SOURCES {
            let problem = problem(&variant.tile, saved);
            for seed in 0..SEEDS {
                let emulator = Emulator::adversarial(seed);
                if let Err(error) = problem.check(&Device::emulator_with(emulator)) {
                    panic!("{} from {saved:?}, seed {seed}: {error}", variant.tile.name);
                }
            }
        }
    }
}
