//! A batch entry's rows in the tensors, and which of them count.

use super::problem::AttentionForward;
use cuda_std::global;

/// The rows of one batch entry.
#[derive(Clone, Copy)]
pub struct Sequence {
    /// The number of its first query in the tensor.
    pub first_query: u32,
    /// The number of its first key in the tensor.
    pub first_key: u32,
    /// Its queries in the tensor, whether they count or not.
    pub slot_queries: i32,
    /// Its queries that count.
    pub queries: i32,
    /// Its keys that count.
    pub keys: i32,
}

impl Sequence {
    /// Finds the rows of batch entry `batch`.
    ///
    /// # Safety
    /// The problem's offsets and lengths must be valid for it.
    #[inline(always)]
    pub unsafe fn of(problem: &AttentionForward, batch: u32) -> Self {
        let (first_query, slot_queries) = slot(problem.q_offsets, problem.queries, batch);
        let (first_key, slot_keys) = slot(problem.k_offsets, problem.keys, batch);
        let queries = length(problem.q_lengths, slot_queries, batch);
        let keys = length(problem.k_lengths, slot_keys, batch);
        Sequence { first_query, first_key, slot_queries, queries, keys }
    }
}

/// The first row of a batch entry's slot, and its rows.
#[inline(always)]
unsafe fn slot(offsets: *const i32, rows: u32, batch: u32) -> (u32, i32) {
    if offsets.is_null() {
        return (0, rows as i32);
    }
    let from = global::load_cached(offsets.add(batch as usize));
    let to = global::load_cached(offsets.add(batch as usize + 1));
    (from as u32, to.wrapping_sub(from))
}

/// How many of the slot's rows count.
#[inline(always)]
unsafe fn length(lengths: *const i32, slot: i32, batch: u32) -> i32 {
    if lengths.is_null() {
        return slot;
    }
    let length = global::load_cached(lengths.add(batch as usize));
    let length = if length < slot { length } else { slot };
    if length > 0 { length } else { 0 }
}
