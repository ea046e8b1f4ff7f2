//! Which scores of a block of keys a thread has, and how what they have of their own gets to it.

use super::{score_marks::biases_layout, tile::ThreadRows};
use crate::attention::{
    lane_rows::{GROUP, LaneRows, MOST_FRAGMENTS, Runs, first_run_of_four},
    per_score::{Fragments, PerScore},
    problem::AttentionForward,
    row_facts::RowFacts,
};
use cuda_std::{
    hint, matrix,
    warp::{self, FULL_MASK},
};

/// A thread's two rows of its warp's 16, in scores of `SCORES` registers.
#[derive(Clone, Copy)]
pub struct ScoreRows<'a, const SCORES: usize> {
    /// The rows.
    pub at: ThreadRows<'a>,
    /// Where the facts of the warp's rows are.
    pub facts: RowFacts,
    /// Where biases of 16 bits of the warp's rows are, once they are there.
    pub biases: u32,
}

impl<const SCORES: usize> ScoreRows<'_, SCORES> {
    /// The same, of which the compiler knows nothing: what depends on it is computed anew, and not kept
    /// in registers from one block of keys to the next.
    #[inline(always)]
    pub fn anew(mut self) -> Self {
        let sequence = &mut self.at.tile.rows.sequence;
        sequence.queries = hint::opaque(sequence.queries as u32) as i32;
        sequence.keys = hint::opaque(sequence.keys as u32) as i32;
        self.at.first = hint::opaque(self.at.first as u32) as i32;
        self.at.lane = hint::opaque(self.at.lane);
        self
    }
}

impl<const SCORES: usize> Runs for ScoreRows<'_, SCORES> {
    const FRAGMENTS: usize = SCORES / 4;
    const ROWS_AT_ONCE: usize = 1;

    #[inline(always)]
    fn problem(&self) -> &AttentionForward {
        self.at.tile.rows.problem
    }
    #[inline(always)]
    fn counts(&self) -> (i32, i32) {
        let sequence = self.at.tile.rows.sequence;
        (sequence.queries, sequence.keys)
    }
    #[inline(always)]
    fn facts(&self, _: usize, h: usize) -> (RowFacts, u32) {
        (self.facts, 8 * h as u32 + self.at.lane / 4)
    }
    #[inline(always)]
    fn first_run(&self, first: i32) -> i32 {
        first_run_of_four(first, self.at.lane)
    }
}

impl<const SCORES: usize> LaneRows for ScoreRows<'_, SCORES> {
    const SINGLES: usize = GROUP;
    const LOADS: bool = false;

    #[inline(always)]
    fn key(&self, first: i32) -> i32 {
        first + (self.at.lane % 4 * 2) as i32
    }
    #[inline(always)]
    fn offset(i: usize) -> i32 {
        (8 * (i / 2) + i % 2) as i32
    }
    /// Lane t of four has loaded what fragment t has, and needs, of each fragment, what keys 2 t and
    /// 2 t + 1 have.
    #[inline(always)]
    #[track_caller]
    unsafe fn exchange<P: PerScore>(&self, run: [u32; 8]) -> [u32; 8] {
        let (lane, [a, b, c, d, e, f, g, h]) = (self.at.lane, run);
        match P::SIZE {
            4 => {
                let pairs = transpose(lane, [[a, b], [c, d], [e, f], [g, h]]);
                let [[a, b], [c, d], [e, f], [g, h]] = pairs;
                [a, b, c, d, e, f, g, h]
            }
            // It does not load them.
            _ => run,
        }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn find_biases(&self) -> Fragments<[u32; 2]> {
        let mut words = [[0; 2]; MOST_FRAGMENTS];
        let layout = biases_layout(SCORES as u32 / 4);
        unroll!(two in SCORES / 8 => {
            let four = matrix::load_4(self.biases + layout.queries(self.at.lane, 2 * two as u32));
            [words[2 * two][0], words[2 * two][1], words[2 * two + 1][0], words[2 * two + 1][1]] = four;
        });
        words
    }
}

/// Of four neighbouring lanes: lane t's element i goes to lane i, as its element t.
#[inline(always)]
#[track_caller]
unsafe fn transpose<const WORDS: usize>(
    lane: u32,
    elements: [[u32; WORDS]; 4],
) -> [[u32; WORDS]; 4] {
    let [a, b, c, d] = elements;
    let (a, b) = swap(lane, 1, a, b);
    let (c, d) = swap(lane, 1, c, d);
    let (a, c) = swap(lane, 2, a, c);
    let (b, d) = swap(lane, 2, b, d);
    [a, b, c, d]
}

/// Of two lanes that differ by `bit`: the second element of the lower one for the first of the other.
#[inline(always)]
#[track_caller]
unsafe fn swap<const WORDS: usize>(
    lane: u32,
    bit: u32,
    first: [u32; WORDS],
    second: [u32; WORDS],
) -> ([u32; WORDS], [u32; WORDS]) {
    let upper = lane & bit != 0;
    let mut swapped = (first, second);
    unroll!(w in WORDS, up to 2 => {
        let given = if upper { first[w] } else { second[w] };
        let taken = warp::shuffle_xor(FULL_MASK, given, bit);
        swapped.0[w] = if upper { taken } else { first[w] };
        swapped.1[w] = if upper { second[w] } else { taken };
    });
    swapped
}
