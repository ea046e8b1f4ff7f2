//! Every synchronisation of every kernel is needed, and its absence would be noticed.

use cuda_emulator::SyncSite;
use fused_attention::{Device, Element, attention_tile_names};
use half::{bf16, f16};
use support::{
    attention_case::{AttentionCase, SolvedAttention},
    softmax_case::{AdditiveMask, ByteMask},
    synchronisation::{SEEDS, assert_enough, assert_needed, sites},
};

/// Problems on each portable tile: of several blocks of keys, without and with all features, and one of
/// which nobody sees anything. And such of all tiles for Hopper, which have one body: a site is needed
/// if one of them needs it.
fn problems<T: Element>() -> Vec<Vec<SolvedAttention<T>>> {
    let (hopper, portable): (Vec<_>, Vec<_>) =
        attention_tile_names().partition(|tile| tile.starts_with("hopper"));
    let mut problems = vec![hopper.into_iter().flat_map(hopper_problems).collect::<Vec<_>>()];
    // There are none for f32.
    problems.retain(|problems| !problems.is_empty());
    for tile in portable {
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

/// Of more tiles than blocks take at once, with rows that see nothing, and with warpgroups that have no
/// rows.
fn hopper_problems<T: Element>(tile: &'static str) -> Vec<SolvedAttention<T>> {
    let case = |heads, queries, keys| AttentionCase {
        tile: Some(tile),
        ..AttentionCase::new((1, heads, queries, keys, 64))
    };
    let bytes = |queries, keys| Some(ByteMask::new(&[queries, keys]));
    let dropout = Some((0.5, 1, 2));
    // Sequences whose last rows and values others follow, and of which some are short.
    let packed = AttentionCase {
        query_offsets: Some(vec![0, 150, 159, 330]),
        key_offsets: Some(vec![0, 70, 80, 400]),
        ..case(7, 0, 0)
    };
    let cases = [
        case(5, 200, 390).causal(),
        case(1, 200, 60).causal(),
        case(1, 60, 500),
        packed,
        AttentionCase { bytes: bytes(200, 390), ..case(5, 200, 390) }.causal(),
        AttentionCase { dropout, bytes: bytes(60, 500), ..case(1, 60, 500) },
        AttentionCase { bias: Some(AdditiveMask::new(&[200, 390])), ..case(5, 200, 390) }.causal(),
    ];
    let solved = cases.iter().map(AttentionCase::solve::<T>);
    solved.filter(|problem| problem.explain(&Device::emulator()).is_ok()).collect()
}

/// Is it the wait by which a block takes back the turn that nobody takes? It leaves the barrier with no
/// arrivals at the block's end, where nobody would meet them.
fn takes_the_last_turn_back(site: &SyncSite) -> bool {
    site.instruction() == "bar.sync" && site.location().file().ends_with("hopper/turns.rs")
}

fn every_site_is_needed<T: Element>() {
    for problems in problems::<T>() {
        let check = |device: &Device| problems.iter().try_for_each(|problem| problem.check(device));
        let mut sites = sites(check);
        sites.retain(|site| !takes_the_last_turn_back(site));
        let tile = problems[0].case.tile;
        assert!(!sites.is_empty(), "{tile:?}");
        assert_needed(format!("{tile:?}"), sites, check);
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
        let what = format!("{:?}", problem.case);
        assert_enough(what, SEEDS / 4, |device| problem.check(device));
    }
}
