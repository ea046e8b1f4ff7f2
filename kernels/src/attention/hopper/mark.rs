//! The markers: which scores the mask hides, which probabilities dropout keeps, and biases of 16 bits, on
//! their way to the consumers.
//!
//! A marker's thread does so for more neighbours than a consumer's thread has together: for masks and
//! biases for runs of keys of two rows, as they lie in memory; for dropout for whole patches. What
//! consumers would have to wait for and to exchange they find in shared memory, of masks and dropout a
//! bit for each score.

use super::{
    cut::Cut,
    products::Factor,
    ring::Ring,
    score_marks::{Kind, add, biases_layout},
    tile::Tile,
};
use crate::attention::{
    bias,
    dropout::{Dropout, PATCH_KEYS},
    features::Features,
    lane_rows::{GROUP, GROUP_KEYS, MOST_FRAGMENTS, RUN, Runs},
    mask::{self, bank_index},
    per_score::{Fragments, HalfBiases, LoadPerScore, Masks, PerScore},
    portable::swizzle::CHUNK,
    problem::AttentionForward,
    row_facts::RowFacts,
};
use cuda_std::{
    block, hint, shared, thread,
    warp::{self, FULL_MASK},
};

/// The barrier at which they meet: behind those of the consumers' turns.
const BARRIER: u32 = 8;

/// Do markers have anything to do?
#[inline(always)]
pub fn has_marks<E, F: Features>(problem: &AttentionForward) -> bool {
    F::MASKS && (!problem.mask.is_null() || has_half_biases::<E>(problem))
        || F::ALL && problem.dropped != 0
}

/// Are there biases of 16 bits?
#[inline(always)]
fn has_half_biases<E>(problem: &AttentionForward) -> bool {
    !problem.bias.is_null() && !bias::are_single::<E>(problem)
}

/// Two rows, 8 apart, of neighbouring keys: of 32 they are the scores of four threads that are neighbours,
/// in a group of fragments. To the loads each of its runs stands for a group.
struct TwoRows<'a> {
    tile: Tile<'a>,
    facts: RowFacts,
    /// The first of them, of the tile's.
    row: u32,
}

impl<'a> TwoRows<'a> {
    /// The pair number `two` of the tile, 8 in each 16 rows.
    #[inline(always)]
    fn of(tile: &Tile<'a>, facts: RowFacts, two: u32) -> Self {
        TwoRows { tile: *tile, facts, row: two / 8 * 16 + two % 8 }
    }

    /// Loads what so many runs from key `key` on have, and asks for what those `block` keys before have,
    /// which the next block of keys will.
    ///
    /// # Safety
    /// The facts must be those of the tile, and the tensor valid for it.
    #[inline(always)]
    unsafe fn load_runs_of<P: PerScore<Words = [u32; 2]>>(
        &self,
        key: i32,
        runs: usize,
        block: u32,
    ) -> Fragments<[u32; 2]> {
        let mut words = [[0; 2]; MOST_FRAGMENTS];
        self.load::<P>(0, &mut words, key, (0, runs));
        let later = key - block as i32;
        if later >= 0 {
            self.fetch::<P, 1>(later, runs);
        }
        words
    }
}

impl Runs for TwoRows<'_> {
    const FRAGMENTS: usize = MOST_FRAGMENTS;
    const DISTANCE: i32 = RUN;
    const ROWS_AT_ONCE: usize = 1;

    #[inline(always)]
    fn problem(&self) -> &AttentionForward {
        self.tile.rows.problem
    }
    #[inline(always)]
    fn counts(&self) -> (i32, i32) {
        (self.tile.rows.sequence.queries, self.tile.rows.sequence.keys)
    }
    #[inline(always)]
    fn facts(&self, _: usize, h: usize) -> (RowFacts, u32) {
        (self.facts, self.row + 8 * h as u32)
    }
    #[inline(always)]
    fn first_run(&self, first: i32) -> i32 {
        first
    }
}

impl<
    const WARPGROUPS: u32,
    const PANELS: usize,
    const SCORES: usize,
    const OUTPUT: usize,
    const KEEPS_Q: bool,
> Cut<WARPGROUPS, PANELS, SCORES, OUTPUT, KEEPS_Q>
{
    /// Marks the scores of all blocks of keys of the block's tiles, and brings their biases, in the order in
    /// which consumers take them, if there are any.
    ///
    /// # Safety
    /// Convergent: each warp of the markers as a whole, `warp` its number, once the rings' barriers are
    /// there. `problem` as for the kernel's body.
    #[inline(always)]
    pub unsafe fn mark<E: Factor, F: Features>(
        problem: &AttentionForward,
        mut ring: Ring,
        warp: u32,
    ) {
        if !has_marks::<E, F>(problem) {
            return;
        }
        let (has_mask, has_biases) = (!problem.mask.is_null(), has_half_biases::<E>(problem));
        let drops = F::ALL && problem.dropped != 0;
        let dropout = Dropout::of(problem).uniform();
        let lane = warp::lane_id();
        let (block, mut turn) = (thread::block_idx_x(), 0);
        while let Some(number) = Self::next(&problem.anew(), block, &mut turn) {
            // What depends on the tile and the thread is computed anew: registers are rare.
            let of_tile = problem.anew();
            let tile = Self::tile(&of_tile, number);
            let index = bank_index(&of_tile, tile.rows.batch);
            let own = || hint::opaque(32 * warp + lane);
            if (has_mask || has_biases) && !tile.blocks.is_empty() {
                // Nobody reads the last tile's.
                block::barrier_sync(BARRIER, Self::MARKERS_THREADS);
                let mut row = own();
                while row < Self::ROWS {
                    let facts = Self::row_facts_of_markers();
                    facts.store::<E>(&tile.rows, index, (tile.first_row, row));
                    row += Self::MARKERS_THREADS;
                }
                block::barrier_sync(BARRIER, Self::MARKERS_THREADS);
            }
            let mut block = tile.blocks.end;
            while block > tile.blocks.first {
                block -= 1;
                ring.claim();
                let first_key = block * Self::KEYS as i32;
                // Without an index nothing is taken in.
                if has_mask && index.is_some() {
                    Self::mark_hidden(&tile, ring.tile(), own(), first_key);
                }
                if has_biases && index.is_some() {
                    Self::copy_biases::<E>(&tile, ring.tile(), own(), first_key);
                }
                if drops {
                    Self::mark_kept(&tile, dropout, ring.tile(), own(), first_key);
                }
                warp::sync_warp(FULL_MASK);
                ring.finish(lane == 0);
                ring.advance();
            }
        }
    }

    /// Marks what the mask hides in a block of keys: a thread has two rows of a group of fragments at a
    /// time, and its neighbour the next group.
    ///
    /// # Safety
    /// The facts must be those of the tile, the mask valid for it, and the stage of the marks claimed.
    #[inline(always)]
    unsafe fn mark_hidden(tile: &Tile, marks: u32, thread: u32, first_key: i32) {
        let flags = tile.rows.problem.flags;
        let mut i = thread;
        while i < Self::ROWS / 2 * Self::GROUPS {
            // The group, the same in each round, is computed anew: registers are rare.
            let anew = hint::opaque(i);
            let (two, group) = (anew / Self::GROUPS, anew % Self::GROUPS);
            let rows = TwoRows::of(tile, Self::row_facts_of_markers(), two);
            let key = first_key + group as i32 * GROUP_KEYS;
            let bytes = rows.load_runs_of::<Masks>(key, GROUP, Self::KEYS);
            // Four threads' two pairs have the lower and the upper four keys of each fragment.
            let mut words = [0; 2];
            unroll!(fragment in GROUP, up to 4 => {
                unroll!(pair in 2 => {
                    unroll!(h in 2 => {
                        let four = bytes[GROUP * fragment + 2 * pair][h];
                        add(&mut words[pair], mask::hidden(flags, four), fragment, h);
                    });
                });
            });
            unroll!(pair in 2 => {
                let at = Self::mark_of(marks, Kind::Hidden, 2 * two + pair as u32, group);
                shared::store(at, words[pair]);
            });
            i += Self::MARKERS_THREADS;
        }
    }

    /// Copies biases of 16 bits of a block of keys: a thread has two runs of two rows at a time, and its
    /// neighbour the next two.
    ///
    /// # Safety
    /// The facts must be those of the tile, the biases valid for it, and the stage of the marks claimed.
    #[inline(always)]
    unsafe fn copy_biases<E: Factor>(tile: &Tile, marks: u32, thread: u32, first_key: i32) {
        let runs = 2;
        let of_row = Self::KEYS / (runs * RUN as u32);
        let layout = biases_layout(SCORES as u32 / 4);
        let mut i = thread;
        while i < Self::ROWS / 2 * of_row {
            let anew = hint::opaque(i);
            let (two, part) = (anew / of_row, anew % of_row);
            let rows = TwoRows::of(tile, Self::row_facts_of_markers(), two);
            let key = first_key + (part * runs) as i32 * RUN;
            let words = rows.load_runs_of::<HalfBiases<E>>(key, runs as usize, Self::KEYS);
            let row = layout.address(Self::biases_of(marks, 0), rows.row, 0);
            let at = layout.along(row, part * runs);
            unroll!(h in 2 => {
                unroll!(run in 2 => {
                    let n = GROUP * run;
                    let four = [words[n][h], words[n + 1][h], words[n + 2][h], words[n + 3][h]];
                    shared::store(layout.down(at ^ (CHUNK * run as u32), 8 * h as u32), four);
                });
            });
            i += Self::MARKERS_THREADS;
        }
    }

    /// Marks what dropout keeps in a block of keys: a thread has four patches at a time, one of each
    /// fragment of a group, which have rows of two of the consumers' warps.
    ///
    /// # Safety
    /// The stage of the marks must be claimed, and heads not be packed.
    #[inline(always)]
    unsafe fn mark_kept(tile: &Tile, dropout: Dropout, marks: u32, thread: u32, first_key: i32) {
        let rows = &tile.rows;
        let plane = rows.batch * rows.problem.heads + rows.group;
        let mut i = thread;
        while i < Self::ROWS / 2 * Self::GROUPS {
            let (patch, group) = (i / Self::GROUPS, i % Self::GROUPS);
            let (half, row, two_warps) = (patch % 2, patch / 2 % 8, patch / 16);
            let query = tile.first_row as u32 + 32 * two_warps + row;
            let key = first_key as u32 + 32 * group + PATCH_KEYS * half;
            let patches = dropout.patches(plane, query, [key, key + 8, key + 16, key + 24]);
            let mut words = [0; 2];
            unroll!(fragment in GROUP, up to 4 => {
                unroll!(warp in 2 => {
                    unroll!(h in 2 => {
                        let kept = dropout.kept(patches[fragment][2 * warp + h]);
                        add(&mut words[warp], kept, fragment, h);
                    });
                });
            });
            unroll!(warp in 2 => {
                let pair = 16 * (2 * two_warps + warp as u32) + 2 * row + half;
                shared::store(Self::mark_of(marks, Kind::Kept, pair, group), words[warp]);
            });
            i += Self::MARKERS_THREADS;
        }
    }
}
