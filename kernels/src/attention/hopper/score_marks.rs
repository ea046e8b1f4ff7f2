//! Marks for scores, a bit each, and biases behind them, on their way from the markers to the consumers.
//!
//! A word is for two threads whose keys are neighbours, and a group of four fragments of their scores:
//! the first thread's marks are in the lower half. There, of fragment `f` of the group and row `h` of
//! the thread's, the first of two keys is bit `7 - (2 f + h)`, and the second 8 further: shifted to
//! the left by `2 f + h`, it has them on top of its bytes, as [`marks`] have them.

use super::{cut::Cut, products::Left};
use crate::{
    attention::{
        lane_rows::{GROUP, GROUP_KEYS},
        mask,
        portable::swizzle::Swizzle,
        row_elements::RowElements,
    },
    marks,
};
use cuda_std::{bits, shared};

/// What marks say.
#[derive(Clone, Copy)]
pub enum Kind {
    /// The mask hides the score.
    Hidden,
    /// Dropout keeps the probability.
    Kept,
}

/// The top bit of each byte.
const TOP_BITS: u32 = 0x8080_8080;

/// How rows of biases of 16 bits lie behind marks: a chunk for each fragment.
#[inline(always)]
pub const fn biases_layout(fragments: u32) -> Swizzle {
    Swizzle { chunks: fragments, of_keys: false }
}

/// Adds marks of four neighbouring keys, of fragment `fragment` of a group and row `h`, to a word.
#[inline(always)]
pub fn add(word: &mut u32, marks: u32, fragment: usize, h: usize) {
    *word |= (marks & TOP_BITS) >> (2 * fragment + h);
}

/// Marks for a thread's scores of a block of keys, of each group of fragments half a word.
#[derive(Clone, Copy)]
pub struct ScoreMarks([u32; 2]);

impl ScoreMarks {
    /// Hides the scores that are marked.
    #[inline(always)]
    pub fn hide(self, scores: &mut impl RowElements) {
        scores.map(|h, i, score| {
            let n = i / 2;
            let hidden = marks::words(self.on_top(n, h));
            mask::hide(score, hidden[n / GROUP % 2 * 2 + i % 2])
        });
    }

    /// Leaves zeros for what is not marked in the left factor of a product.
    #[inline(always)]
    pub fn keep<const SCORES: usize>(self, probabilities: &mut Left) {
        unroll!(n in SCORES / 4, up to 16 => {
            unroll!(h in 2 => {
                let kept = marks::halves(self.on_top(n, h));
                probabilities[n / 2][2 * (n % 2) + h] &= kept[n / GROUP % 2];
            });
        });
    }

    /// The word with the marks of fragment `n` and row `h` on top of the bytes of its half.
    #[inline(always)]
    fn on_top(self, n: usize, h: usize) -> u32 {
        self.0[n / (2 * GROUP)] << (2 * (n % GROUP) + h)
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
    /// Groups of fragments of a block of keys.
    pub const GROUPS: u32 = Self::KEYS / GROUP_KEYS as u32;
    /// Bytes from the words of a pair of threads to those of the next pair.
    const PAIR_BYTES: u32 = 4 * Self::GROUPS.next_power_of_two();
    /// Bytes of the marks of a kind: there are as many pairs of threads as rows, 16 in a warp.
    const KIND_BYTES: u32 = Self::ROWS * Self::PAIR_BYTES;
    /// Bytes of a block's marks, and of the biases behind them.
    pub const MARKS_BYTES: u32 = 2 * Self::KIND_BYTES + 2 * Self::ROWS * Self::KEYS;

    /// Where the word of a pair of threads, counted from the tile's first, and a group is in a block's
    /// marks.
    #[inline(always)]
    pub fn mark_of(marks: u32, kind: Kind, pair: u32, group: u32) -> u32 {
        marks + kind as u32 * Self::KIND_BYTES + pair * Self::PAIR_BYTES + 4 * group
    }

    /// Where biases of a row of the tile begin, behind a block's marks.
    #[inline(always)]
    pub fn biases_of(marks: u32, row: u32) -> u32 {
        marks + 2 * Self::KIND_BYTES + 2 * row * Self::KEYS
    }

    /// The marks of a thread: `is_second` of its pair.
    ///
    /// # Safety
    /// They must be there.
    #[inline(always)]
    pub unsafe fn marks_of(marks: u32, kind: Kind, pair: u32, is_second: bool) -> ScoreMarks {
        let at = Self::mark_of(marks, kind, pair, 0);
        let words = match Self::GROUPS {
            1 => [shared::load(at), 0, 0, 0],
            2 => {
                let [a, b] = shared::load(at);
                [a, b, 0, 0]
            }
            3 => {
                let [a, b] = shared::load(at);
                [a, b, shared::load(at + 8), 0]
            }
            _ => shared::load(at),
        };
        let halves = if is_second { 0x7632 } else { 0x5410 };
        let [a, b, c, d] = words;
        ScoreMarks([bits::permute_by(a, b, halves), bits::permute_by(c, d, halves)])
    }
}
