//! The rows that a block, and a thread, works on, and the blocks of keys that they see.

use super::cut::{CONSUMER_ROWS, Cut, WARP_ROWS, WARPS};
use crate::attention::{
    mask::VisibleRange,
    problem::AttentionForward,
    row_elements::RowElements,
    rows::Rows,
    seen::{Seen, hide_row},
};
use cuda_std::{
    hint,
    warp::{self, FULL_MASK},
};

/// Blocks of keys, from one on up to another.
#[derive(Clone, Copy)]
pub struct Blocks {
    /// The first.
    pub first: i32,
    /// The one after the last.
    pub end: i32,
}

impl Blocks {
    /// Blocks of `count` keys in which there are some of these keys.
    #[inline(always)]
    fn of(keys: (i32, i32), count: u32) -> Self {
        if keys.0 >= keys.1 {
            return Blocks { first: 0, end: 0 };
        }
        let count = count as i32;
        Blocks { first: keys.0 / count, end: (keys.1 + count - 1) / count }
    }

    /// Is there none?
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.first >= self.end
    }
}

/// A tile.
#[derive(Clone, Copy)]
pub struct Tile<'a> {
    /// Its row group.
    pub rows: Rows<'a>,
    /// Its first row.
    pub first_row: i32,
    /// The blocks of keys that some of its rows see.
    pub blocks: Blocks,
}

impl Tile<'_> {
    /// Where a row is in the tensors of queries: the coordinates behind that of the element.
    #[inline(always)]
    pub fn at_row(&self, row: i32) -> [i32; 3] {
        let (query, head) = self.rows.query_and_head(row);
        let first = self.rows.sequence.first_query as i32;
        [first + query, head as i32, self.entry(self.rows.problem.q_offsets)]
    }

    /// The same of a key.
    #[inline(always)]
    pub fn at_key(&self, key: i32) -> [i32; 3] {
        let first = self.rows.sequence.first_key as i32;
        let head = self.rows.kv_head() as i32;
        [first + key, head, self.entry(self.rows.problem.k_offsets)]
    }

    /// The batch entry of a tensor: packed sequences are one.
    #[inline(always)]
    fn entry(&self, offsets: *const i32) -> i32 {
        if offsets.is_null() { self.rows.batch as i32 } else { 0 }
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
    /// How many values of the tile's last block may be multiplied: all, unless rows of others, or some
    /// that do not count, may be behind them. Even 0 times one of these need not be 0.
    #[inline(always)]
    pub fn values_of_last_block(tile: &Tile) -> u32 {
        let (problem, keys) = (tile.rows.problem, tile.rows.sequence.keys);
        let others = !problem.k_offsets.is_null() || keys < problem.keys as i32;
        let last = (keys - (tile.blocks.end - 1) * Self::KEYS as i32) as u32;
        if others && last < Self::KEYS { last } else { Self::KEYS }
    }

    /// The number of the next tile of block `block`, at its turn number `turn` or later. There are tiles
    /// for the longest of packed sequences: those beyond the end of a shorter one are passed over.
    ///
    /// # Safety
    /// Convergent: the whole warp. The problem's offsets and lengths must be valid.
    #[inline(always)]
    pub unsafe fn next(problem: &AttentionForward, block: u32, turn: &mut u32) -> Option<u32> {
        let mut found = u32::MAX;
        while let Some(number) = problem.schedule.number(block, *turn) {
            *turn += 1;
            // Found out anew for each tile: registers are rarer.
            if hint::opaque(problem.q_offsets as i64) == 0 {
                found = number;
                break;
            }
            let tile = Self::tile(problem, number);
            if tile.first_row < tile.rows.slots() {
                found = number;
                break;
            }
        }
        // By the shuffle the assembler knows that it is the same in all lanes.
        let found = warp::shuffle_idx(FULL_MASK, found, 0);
        if found == u32::MAX { None } else { Some(found) }
    }

    /// The tile of this number in the schedule.
    ///
    /// # Safety
    /// The problem's offsets and lengths must be valid.
    #[inline(always)]
    pub unsafe fn tile(problem: &AttentionForward, number: u32) -> Tile<'_> {
        let place = problem.schedule.place(number);
        let rows = Rows::of(problem, place);
        let first_row = (place.tile * Self::ROWS) as i32;
        let seen = seen(&rows, first_row, Self::ROWS);
        Tile { rows, first_row, blocks: Blocks::of(seen.some, Self::KEYS) }
    }
}

/// Which keys `count` rows from row `first` on see.
#[inline(always)]
fn seen(rows: &Rows, first: i32, count: u32) -> Seen {
    let counts = (rows.sequence.queries, rows.sequence.keys);
    Seen::of(rows.problem, counts, (first, count as i32))
}

/// A thread's rows of a tile, two of its warp's 16.
#[derive(Clone, Copy)]
pub struct ThreadRows<'a> {
    /// The tile.
    pub tile: Tile<'a>,
    /// The first row of its consumer.
    consumer_first: i32,
    /// The first row of its warp.
    pub first: i32,
    /// Its lane.
    pub lane: u32,
}

impl<'a> ThreadRows<'a> {
    /// Of lane `lane` of warp `warp` of the consumers.
    #[inline(always)]
    pub fn of(tile: Tile<'a>, warp: u32, lane: u32) -> Self {
        ThreadRows {
            tile,
            consumer_first: tile.first_row + (warp / WARPS * CONSUMER_ROWS) as i32,
            first: tile.first_row + (warp * WARP_ROWS) as i32,
            lane,
        }
    }

    /// The blocks of `count` keys that some row of its consumer sees, among those of the tile.
    #[inline(always)]
    pub fn blocks(&self, count: u32) -> Blocks {
        let seen = seen(&self.tile.rows, self.consumer_first, CONSUMER_ROWS);
        let blocks = Blocks::of(seen.some, count);
        let none = self.tile.blocks.first;
        if blocks.is_empty() { Blocks { first: none, end: none } } else { blocks }
    }

    /// The keys that all rows of its warp see.
    #[inline(always)]
    pub fn seen_by_all(&self) -> Seen {
        seen(&self.tile.rows, self.first, WARP_ROWS)
    }

    /// Row `h` of the thread, 0 or 1.
    #[inline(always)]
    pub fn row(&self, h: usize) -> i32 {
        self.first + 8 * h as i32 + (self.lane / 4) as i32
    }

    /// Hides the scores that are outside of the visible range.
    #[inline(always)]
    pub fn hide(&self, scores: &mut impl RowElements, first_key: i32) {
        let sequence = self.tile.rows.sequence;
        let range = VisibleRange::of(self.tile.rows.problem, sequence.queries, sequence.keys);
        let key = first_key + (self.lane % 4 * 2) as i32;
        unroll!(h in 2 => {
            let query = self.tile.rows.query_and_head(self.row(h)).0;
            let range = (range.first(query) - key, range.end(query) - key);
            hide_row(scores, h, range, |i| (8 * (i / 2) + i % 2) as i32);
        });
    }
}
