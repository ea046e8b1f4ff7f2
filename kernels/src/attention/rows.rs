//! From rows of a tile to queries and heads.

use super::{
    problem::{AttentionForward, Strides},
    schedule::Place,
    sequence::Sequence,
};

/// The rows of a row group: its queries, or pairs of query and head where heads are packed.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// The problem.
    pub problem: &'a AttentionForward,
    /// The batch entry's rows in the tensors.
    pub sequence: Sequence,
    /// The batch entry.
    pub batch: u32,
    /// The row group in it.
    pub group: u32,
}

impl<'a> Rows<'a> {
    /// Of a block's place.
    ///
    /// # Safety
    /// The problem's offsets and lengths must be valid.
    #[inline(always)]
    pub unsafe fn of(problem: &'a AttentionForward, place: Place) -> Self {
        let sequence = Sequence::of(problem, place.batch);
        Rows { problem, sequence, batch: place.batch, group: place.group }
    }

    /// The rows that exist in the tensors.
    #[inline(always)]
    pub fn slots(&self) -> i32 {
        self.sequence.slot_queries * self.problem.packed_heads.value() as i32
    }

    /// The rows that count.
    #[inline(always)]
    pub fn count(&self) -> i32 {
        self.sequence.queries * self.problem.packed_heads.value() as i32
    }

    /// The query of a row, and its head.
    #[inline(always)]
    pub fn query_and_head(&self, row: i32) -> (i32, u32) {
        let packed = self.problem.packed_heads;
        let (query, head) = packed.divide(row as u32);
        (query as i32, self.group * packed.value() + head)
    }

    /// The K/V head of the row group.
    #[inline(always)]
    pub fn kv_head(&self) -> u32 {
        let head = self.group * self.problem.packed_heads.value();
        self.problem.heads_per_kv.divide(head).0
    }

    /// Where a row is in a tensor of queries, in elements from its start.
    #[inline(always)]
    pub fn offset(&self, strides: &Strides, row: i32) -> isize {
        let (query, head) = self.query_and_head(row);
        strides.offset(self.batch, head, self.sequence.first_query + query as u32) as isize
    }
}
