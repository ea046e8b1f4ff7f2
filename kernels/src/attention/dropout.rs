//! Dropout: which probabilities are kept.
//!
//! Random words come for patches of 4 x 4 elements, a byte each, from one Philox call: key = seed,
//! counter = (i', j', batch * heads + head, offset). Rows of a patch are 8 apart, and so are its
//! columns, as in the fragments of matrix instructions: i' = (i / 32) * 8 + i % 8 and
//! a = (i / 8) % 4 for queries, likewise j' and b for keys. Byte `4 a + b`, counted from the lowest
//! of the first word, decides: the element is kept if it is at least the number of dropped 256ths.

use super::problem::AttentionForward;
use cuda_std::{global, random::philox4x32_10};

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
        let key = [seed as u32, (seed >> 32) as u32];
        Dropout { key, offset, dropped: problem.dropped }
    }

    /// The words of the patch that holds an element of head `plane = batch * heads + head`.
    #[inline(always)]
    pub fn patch(&self, plane: u32, query: u32, key: u32) -> [u32; 4] {
        let place = |i: u32| i / 32 * 8 + i % 8;
        philox4x32_10([place(query), place(key), plane, self.offset], self.key)
    }

    /// Is the element of column `b` kept, by the word of its row in the patch?
    #[inline(always)]
    pub fn keeps(&self, word: u32, b: u32) -> bool {
        (word >> (8 * b) & 0xff) >= self.dropped
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
        self.keeps(word, key / 8 % 4)
    }

    /// What is kept is multiplied by this.
    #[inline(always)]
    pub fn factor(&self) -> f32 {
        256.0 / (256 - self.dropped) as f32
    }
}
