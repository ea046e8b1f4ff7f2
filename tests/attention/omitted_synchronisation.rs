//! Every synchronisation of every kernel is needed, and its absence would be noticed.

use fused_attention::{Device, Element, attention_tile_names};
use half::{bf16, f16};
use support::{
    attention_case::{AttentionCase, SolvedAttention},
    softmax_case::ByteMask,
    synchronisation::{SEEDS, assert_enough, assert_needed, sites},
};

/// Problems on each tile: of several blocks of keys, without and with all features, and one of which
/// nobody sees anything; where blocks take several tiles, of more than there are blocks, and with rows
/// that see nothing.
fn problems<T: Element>() -> Vec<Vec<SolvedAttention<T>>> {
    let mut problems = Vec::new();
    for tile in attention_tile_names() {
        if tile.starts_with("hopper") {
            let case = |heads, queries, keys| AttentionCase {
                tile: Some(tile),
                ..AttentionCase::new((1, heads, queries, keys, 64))
            };
            // In the last one there are warpgroups that have no rows.
            let cases = [case(5, 200, 390).causal(), case(2, 400, 100).causal(), case(2, 60, 700)];
            let solved: Vec<_> = cases.iter().map(AttentionCase::solve::<T>).collect();
            if solved[0].explain(&Device::emulator()).is_ok() {
                problems.push(solved);
            }
            continue;
        }
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

fn every_site_is_needed<T: Element>() {
    for problems in problems::<T>() {
        let sites = sites(|device| problems[0].check(device));
        let tile = problems[0].case.tile;
        assert!(!sites.is_empty(), "{tile:?}");
        assert_needed(format!("{tile:?}"), sites, |device| {
            problems.iter().try_for_each(|problem| problem.check(device))
        });
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
