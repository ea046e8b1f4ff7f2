//! Which keys a query sees: the visible range, and boolean masks.

use super::{
    problem::{AttentionForward, MAX_SEQUENCE, flags},
    score_tensor::ScoreTensor,
};
use crate::marks;
use cuda_std::global;

/// The keys that lengths, causal mask and window leave to each query.
#[derive(Clone, Copy)]
pub struct VisibleRange {
    /// The first key that query 0 would see; that of query i is i further.
    left: i32,
    /// The key after the last that query 0 would see.
    right: i32,
    /// The sequence's keys.
    keys: i32,
}

impl VisibleRange {
    /// Of a sequence of so many queries and keys.
    #[inline(always)]
    pub fn of(problem: &AttentionForward, queries: i32, keys: i32) -> Self {
        let top_left = problem.flags & flags::TOP_LEFT != 0;
        let diagonal = if top_left { 0 } else { keys - queries };
        // A side without a limit reaches beyond every key.
        let reach = |window: i32| {
            let far = MAX_SEQUENCE as i32;
            if window < 0 || window > far { far } else { window }
        };
        VisibleRange {
            left: diagonal - reach(problem.window_left),
            right: diagonal + reach(problem.window_right) + 1,
            keys,
        }
    }

    /// The first key that the query may see.
    #[inline(always)]
    pub fn first(&self, query: i32) -> i32 {
        let first = query + self.left;
        if first > 0 { first } else { 0 }
    }

    /// The key after the last that the query may see; at most `first` if there is none.
    #[inline(always)]
    pub fn end(&self, query: i32) -> i32 {
        let end = query + self.right;
        if end < self.keys { end } else { self.keys }
    }
}

/// A row's boolean mask.
#[derive(Clone, Copy)]
pub struct RowMask {
    /// The row's first byte, or null.
    bytes: *const u8,
    /// Keys are bytes apart, and not all one.
    moves: bool,
    /// What a byte's being nonzero is where the key is visible.
    keep: bool,
}

impl RowMask {
    /// Of a query: `index` is the batch entry's in the bank.
    ///
    /// # Safety
    /// The problem's mask must be valid for the row.
    #[inline(always)]
    pub unsafe fn of(
        problem: &AttentionForward,
        (batch, head, query): (u32, u32, u32),
        index: i32,
    ) -> Self {
        RowMask {
            bytes: ScoreTensor::mask(problem).row(batch, head, query, index),
            moves: problem.flags & flags::MASK_BROADCAST == 0,
            keep: problem.flags & flags::KEEP != 0,
        }
    }

    /// Does the mask leave the key visible?
    ///
    /// # Safety
    /// The mask must be valid for the key.
    #[inline(always)]
    pub unsafe fn shows(&self, key: i32) -> bool {
        if self.bytes.is_null() {
            return true;
        }
        let byte = global::load_cached(self.bytes.add(if self.moves { key as usize } else { 0 }));
        (byte != 0) == self.keep
    }
}

/// Marks which of four keys a mask hides, by the problem's flags and their bytes.
#[inline(always)]
pub fn hidden(flags: u32, bytes: u32) -> u32 {
    let inverted = if flags & flags::KEEP != 0 { !0 } else { 0 };
    marks::nonzero(bytes) ^ inverted
}

/// The score, or -inf where `hidden` is all ones and not zeros.
#[inline(always)]
pub fn hide(score: f32, hidden: u32) -> f32 {
    f32::from_bits(score.to_bits() & !hidden | f32::NEG_INFINITY.to_bits() & hidden)
}

/// A batch entry's index in the bank of masks and biases, `None` if the bank does not have it.
pub type BankIndex = Option<i32>;

/// The batch entry's index in the bank of masks and biases, 0 without one.
///
/// # Safety
/// The problem's index must be valid for the batch entry.
#[inline(always)]
pub unsafe fn bank_index(problem: &AttentionForward, batch: u32) -> BankIndex {
    if problem.bank_index.is_null() {
        return Some(0);
    }
    let offset = batch as i64 * problem.bank_index_stride;
    let index = global::load_cached(problem.bank_index.offset(offset as isize));
    if (index as u32) < problem.bank_size { Some(index) } else { None }
}
