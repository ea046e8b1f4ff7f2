//! Dropout: which probabilities are kept.
//!
//! Random words come for patches of 4 x 4 elements, a byte each, from one Philox call: key = seed,
//! counter = (i', j', batch * heads + head, offset). Rows of a patch are 8 apart, and its columns
//! are neighbours, as a lane has them: i' = (i / 32) * 8 + i % 8 and a = (i / 8) % 4 for queries,
//! j' = j / 4 and b = j % 4 for keys. Byte `4 a + b`, counted from the lowest of the first word,
//! decides: the element is kept if it is at least the number of dropped 256ths.

use super::problem::AttentionForward;
use crate::marks::{self, Limit};
use cuda_std::{
    global, hint,
    random::philox4x32_10_of,
    warp::{self, FULL_MASK},
};

/// Neighbouring keys of a patch.
pub const PATCH_KEYS: u32 = 4;

/// A problem's dropout.
#[derive(Clone, Copy)]
pub struct Dropout {
    key: [u32; 2],
    offset: u32,
    /// Bytes below are dropped.
    dropped: u32,
}

impl Dropout {
    /// Reads seed and offset.
    ///
    /// # Safety
    /// The problem's pointers to them must be valid.
    #[inline(always)]
    pub unsafe fn of(problem: &AttentionForward) -> Self {
        let seed = if problem.seed_pointer.is_null() {
            problem.seed
        } else {
            global::load_cached(problem.seed_pointer)
        };
        let offset = if problem.offset_pointer.is_null() {
            problem.offset
        } else {
            global::load_cached(problem.offset_pointer) as u32
        };
        // The keys of the rounds are not kept in registers from one block of keys to the next.
        let key = hint::opaque([seed as u32, (seed >> 32) as u32]);
        Dropout { key, offset, dropped: problem.dropped }
    }

    /// The same, of which the assembler knows that it is the same in all lanes.
    ///
    /// # Safety
    /// Convergent: the whole warp.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn uniform(self) -> Self {
        let first = |value| warp::shuffle_idx(FULL_MASK, value, 0);
        let [low, high] = self.key;
        Dropout { key: [first(low), first(high)], offset: first(self.offset), ..self }
    }

    /// The words of the patch that holds an element of head `plane = batch * heads + head`, one for
    /// each of its rows.
    #[inline(always)]
    pub fn patch(&self, plane: u32, query: u32, key: u32) -> [u32; 4] {
        let [words] = self.patches(plane, query, [key]);
        words
    }

    /// The same of several patches of the same rows.
    #[inline(always)]
    pub fn patches<const COUNT: usize>(
        &self,
        plane: u32,
        query: u32,
        keys: [u32; COUNT],
    ) -> [[u32; 4]; COUNT] {
        let row = query / 32 * 8 + query % 8;
        let counters = keys.map(|key| [row, key / PATCH_KEYS, plane, self.offset]);
        philox4x32_10_of(counters, self.key)
    }

    /// Marks what is kept of a row of a patch, by its word.
    #[inline(always)]
    pub fn kept(&self, word: u32) -> u32 {
        marks::at_least(word, Limit::new(self.dropped))
    }

    /// Is an element kept?
    #[inline(always)]
    pub fn keeps_element(&self, plane: u32, query: u32, key: u32) -> bool {
        let words = self.patch(plane, query, key);
        let word = match query / 8 % 4 {
            0 => words[0],
            1 => words[1],
            2 => words[2],
            _ => words[3],
        };
        (word >> (8 * (key % PATCH_KEYS)) & 0xff) >= self.dropped
    }

    /// What is kept is multiplied by this, which is computed where it is needed.
    #[inline(always)]
    pub fn factor(&self) -> f32 {
        256.0 / (256 - hint::opaque(self.dropped)) as f32
    }
}
