//! Every synchronisation of every kernel is needed, and its absence would be noticed.

use fused_attention::{Device, reference::softmax::Saved};
use kernels::{
    softmax::entries::BACKWARD_VARIANTS,
    tiles::{Residence, Sharing, SoftmaxTile},
};
use support::{
    placement::Placement,
    softmax_case::{BackwardCase, SOURCES, SoftmaxCase, SolvedBackward},
    synchronisation::{SEEDS, assert_enough, assert_needed, sites},
};

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

#[test]
fn every_site_is_needed() {
    for variant in BACKWARD_VARIANTS {
        let tile = &variant.tile;
        for saved in SOURCES {
            let problem = problem(tile, saved);
            let check = |device: &Device| problem.check(device);
            let sites = if tile.sharing == Sharing::Warp { Vec::new() } else { sites(check) };
            // Lanes of a warp exchange by shuffles, which synchronise themselves.
            assert_eq!(sites.is_empty(), tile.sharing == Sharing::Warp, "{}", tile.name);
            assert_needed(format!("{} from {saved:?}", tile.name), sites, check);
        }
    }
}

/// The same seeds find nothing in the kernels as they are.
#[test]
fn nothing_is_found_with_all_of_them() {
    for variant in BACKWARD_VARIANTS.iter().filter(|v| v.tile.sharing != Sharing::Warp) {
        for saved in SOURCES {
            let problem = problem(&variant.tile, saved);
            let what = format!("{} from {saved:?}", variant.tile.name);
            assert_enough(what, SEEDS, |device| problem.check(device));
        }
    }
}
