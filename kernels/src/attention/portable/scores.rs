//! A warp's rows, and which of their scores a lane has.

use super::{facts::Span, key_order};
use crate::attention::{
    lane_rows::{LaneRows, MOST_FRAGMENTS, Runs, first_run_of_four},
    mask::VisibleRange,
    online_softmax::Fragment,
    per_score::{Fragments, PerScore},
    problem::AttentionForward,
    row_facts::RowFacts,
    seen::{Seen, hide_row},
};

/// A warp's rows, and a lane's place in the `KEYS` fragments of their scores.
#[derive(Clone, Copy)]
pub struct WarpRows<'a, const KEYS: usize> {
    /// The problem.
    pub problem: &'a AttentionForward,
    /// The rows and keys of its block.
    pub span: Span,
    /// Where the facts of the block's rows are.
    pub facts: RowFacts,
    /// The warp's first row.
    pub first: i32,
    /// The lane.
    pub lane: u32,
}

impl<const KEYS: usize> WarpRows<'_, KEYS> {
    /// The query of a row.
    #[inline(always)]
    fn query(&self, row: i32) -> i32 {
        self.problem.packed_heads.divide(row as u32).0 as i32
    }

    #[inline(always)]
    fn range(&self) -> VisibleRange {
        VisibleRange::of(self.problem, self.span.queries, self.span.keys)
    }

    /// Which keys the `count` rows from row `first` on see, as far as they count.
    #[inline(always)]
    pub fn seen(&self, first: i32, count: i32) -> Seen {
        Seen::of(self.problem, (self.span.queries, self.span.keys), (first, count))
    }

    /// A row of the lane: half `h` of fragment `m`.
    #[inline(always)]
    pub fn row(&self, m: usize, h: usize) -> i32 {
        self.first + (16 * m + 8 * h) as i32 + (self.lane / 4) as i32
    }

    /// Hides the scores that are outside of the visible range.
    #[inline(always)]
    pub fn hide<const M: usize>(&self, scores: &mut [[Fragment; KEYS]; M], first_key: i32) {
        let (key, range) = (self.key(first_key), self.range());
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let query = self.query(self.row(m, h));
                let range = (range.first(query) - key, range.end(query) - key);
                hide_row(&mut scores[m], h, range, Self::offset);
            });
        });
    }
}

impl<const KEYS: usize> Runs for WarpRows<'_, KEYS> {
    const FRAGMENTS: usize = KEYS;
    const ROWS_AT_ONCE: usize = 2;

    #[inline(always)]
    fn problem(&self) -> &AttentionForward {
        self.problem
    }
    #[inline(always)]
    fn counts(&self) -> (i32, i32) {
        (self.span.queries, self.span.keys)
    }
    #[inline(always)]
    fn facts(&self, m: usize, h: usize) -> (RowFacts, u32) {
        (self.facts, (self.row(m, h) - self.span.first_row) as u32)
    }
    #[inline(always)]
    fn first_run(&self, first: i32) -> i32 {
        first_run_of_four(first, self.lane)
    }
}

impl<const KEYS: usize> LaneRows for WarpRows<'_, KEYS> {
    const SINGLES: usize = KEYS;
    const LOADS: bool = true;

    #[inline(always)]
    fn key(&self, first: i32) -> i32 {
        first + key_order::first(self.lane) as i32
    }
    #[inline(always)]
    fn offset(i: usize) -> i32 {
        key_order::offset(i / 2, i % 2) as i32
    }
    /// The keys of a lane's scores are those of its runs.
    #[inline(always)]
    unsafe fn exchange<P: PerScore>(&self, run: [u32; 8]) -> [u32; 8] {
        run
    }
    /// There are none.
    #[inline(always)]
    unsafe fn find_biases(&self) -> Fragments<[u32; 2]> {
        [[0; 2]; MOST_FRAGMENTS]
    }
}
