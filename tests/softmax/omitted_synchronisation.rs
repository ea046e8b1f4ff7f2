//! Every synchronisation of every kernel is needed, and its absence would be noticed.

use fused_attention::Device;
use kernels::{
    softmax::entries::FORWARD_VARIANTS,
    tiles::{Residence, Sharing, SoftmaxTile},
};
use support::{
    placement::Placement,
    softmax_case::{SoftmaxCase, SolvedCase},
    synchronisation::{SEEDS, assert_enough, assert_needed, sites},
};

/// A problem that several warps of a block, and two blocks of a cluster, share.
fn problem(tile: &SoftmaxTile) -> SolvedCase<f32> {
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
    SoftmaxCase { x, ..SoftmaxCase::new(&[2, columns]) }.solve::<f32>().with_tile(tile.name)
}

#[test]
fn every_site_is_needed() {
    for variant in FORWARD_VARIANTS {
        let tile = variant.tile;
        // Rings are needed by longer problems, in blocks of fewer threads.
        if tile.residence == Residence::Ring {
            continue;
        }
        let problem = problem(&tile);
        let check = |device: &Device| problem.check(device);
        let sites = if tile.sharing == Sharing::Warp { Vec::new() } else { sites(check) };
        let expected = match (tile.sharing, tile.residence) {
            // Lanes of a warp exchange by shuffles, which synchronise themselves.
            (Sharing::Warp, _) => 0,
            (Sharing::Block, Residence::SharedMemory) => 5,
            (Sharing::Block, _) => 1,
            (Sharing::Cluster, Residence::SharedMemory) => 9,
            (Sharing::Cluster, _) => 5,
        };
        assert_eq!(sites.len(), expected, "{}: {sites:#?}", tile.name);
        assert_needed(tile.name, sites, check);
    }
}

/// The same seeds find nothing in the kernels as they are.
#[test]
fn nothing_is_found_with_all_of_them() {
    for variant in FORWARD_VARIANTS {
        let tile = variant.tile;
        if tile.sharing == Sharing::Warp {
            continue;
        }
        let problem = problem(&tile);
        assert_enough(tile.name, SEEDS, |device| problem.check(device));
    }
}
