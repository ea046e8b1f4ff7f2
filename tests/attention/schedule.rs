//! Which tiles blocks take: each one once, whoever takes it.

use kernels::attention::schedule::Schedule;

/// The tiles of a launch, by block.
fn taken(schedule: &Schedule) -> Vec<Vec<u32>> {
    let of_block = |block| (0..).map_while(move |turn| schedule.number(block, turn)).collect();
    (0..schedule.blocks()).map(of_block).collect()
}

#[test]
fn each_tile_is_taken_once() {
    for (batch, groups, tiles, set) in [(1, 1, 1, 1), (2, 3, 5, 2), (4, 16, 32, 8), (1, 7, 9, 7)] {
        for last_first in [false, true] {
            for staying in [1, 2, 7, 132] {
                for pair_blocks in [2, 33, 500] {
                    let schedule = Schedule::new(batch, groups, tiles, set, last_first);
                    let schedule = schedule.in_turns(staying, pair_blocks);
                    let mut numbers = taken(&schedule).concat();
                    numbers.sort_unstable();
                    assert!(numbers.into_iter().eq(0..batch * groups * tiles), "{schedule:?}");
                }
                let schedule =
                    Schedule::new(batch, groups, tiles, set, last_first).staying(staying);
                let mut numbers = taken(&schedule).concat();
                numbers.sort_unstable();
                assert!(numbers.into_iter().eq(0..batch * groups * tiles), "{schedule:?}");
                assert_eq!(schedule.blocks(), staying);
            }
        }
    }
}

/// Without turns each block takes the tile of its number.
#[test]
fn a_block_takes_one_tile() {
    let schedule = Schedule::new(2, 3, 5, 6, true);
    assert!(taken(&schedule).concat().into_iter().eq(0..30));
    assert_eq!(schedule.blocks(), 30);
}

/// Blocks that stay take as many keys each, under a causal mask of as many keys as queries.
#[test]
fn pairs_are_as_long() {
    let schedule = Schedule::new(1, 16, 8, 16, true).in_turns(8, 9);
    let seen = |number: &u32| schedule.place(*number).tile + 1;
    let sums: Vec<u32> = taken(&schedule).iter().map(|of| of.iter().map(seen).sum()).collect();
    assert_eq!(sums, [72; 8]);
}

/// What is left for blocks that follow comes longest first, as far as pairs of one set go.
#[test]
fn the_last_tiles_are_taken_one_by_one() {
    let schedule = Schedule::new(1, 4, 16, 4, true).in_turns(10, 100);
    let taken = taken(&schedule);
    assert_eq!(taken.len() as u32, schedule.blocks());
    let (staying, following) = taken.split_at(10);
    assert!(staying.iter().all(|of| of.len() == 4), "{taken:?}");
    assert!(following.iter().all(|of| of.len() == 1), "{taken:?}");
    let tiles = following.concat().iter().map(|n| schedule.place(*n).tile).collect::<Vec<_>>();
    assert!(tiles.is_sorted_by(|a, b| a >= b), "{tiles:?}");
}
