//! What a block has found out about its tile, in shared memory: there it takes no registers, of
//! which the products need nearly all, and is read where it is needed, once for each block of keys.

use crate::attention::{
    mask::BankIndex, online_softmax::Exponents, problem::AttentionForward, row_facts::RowFacts,
    rows::Rows, schedule::Place, sequence::Sequence,
};
use cuda_std::shared;

/// Bytes that the facts take.
pub const FACTS_BYTES: u32 = 80;

/// Where the facts are in shared memory. They are five vectors of 16 bytes.
#[derive(Clone, Copy)]
pub struct Facts {
    /// Their address, aligned to 16.
    pub at: u32,
}

/// The rows that a block works on, and the keys.
#[derive(Clone, Copy)]
pub struct Span {
    /// Keys of the sequence that count.
    pub keys: i32,
    /// Its queries that count.
    pub queries: i32,
    /// The block's first row.
    pub first_row: i32,
    /// The first block of keys that one of its rows sees.
    pub first_block: i32,
}

impl Span {
    /// The first key of a block of `count` keys, numbered from the first block on.
    #[inline(always)]
    pub fn key(self, block: i32, count: i32) -> i32 {
        (self.first_block + block) * count
    }
}

impl Facts {
    /// Those of the block's rows, behind these.
    #[inline(always)]
    pub fn of_rows(self) -> RowFacts {
        RowFacts { at: self.at + FACTS_BYTES }
    }

    /// Puts the facts there; a barrier must follow.
    ///
    /// # Safety
    /// One thread of the block. The place must be free.
    #[inline(always)]
    pub unsafe fn store(
        self,
        (rows, span): (&Rows, Span),
        sources: [u64; 2],
        (prescale, exponents): (f32, Exponents),
        index: BankIndex,
    ) {
        let Exponents { unit, coefficient } = exponents;
        shared::store(self.at, sources);
        let Span { keys, queries, first_row, first_block } = span;
        shared::store(self.at + 16, [keys, queries, first_row, first_block].map(|x| x as u32));
        shared::store(self.at + 32, [prescale, unit, coefficient, 0.0]);
        let in_bank = index.is_some() as u32;
        shared::store(self.at + 48, [rows.batch, rows.group, index.unwrap_or(0) as u32, in_bank]);
        let Sequence { first_query, first_key, slot_queries, .. } = rows.sequence;
        shared::store(self.at + 64, [first_query, first_key, slot_queries as u32, 0]);
    }

    /// Where the thread-independent parts of the copies of k and v begin.
    ///
    /// # Safety
    /// The facts must be there.
    #[inline(always)]
    pub unsafe fn sources(self) -> [u64; 2] {
        shared::load(self.at)
    }

    /// The rows and keys.
    ///
    /// # Safety
    /// The facts must be there.
    #[inline(always)]
    pub unsafe fn span(self) -> Span {
        let [keys, queries, first_row, first_block] =
            shared::load::<[u32; 4]>(self.at + 16).map(|x| x as i32);
        Span { keys, queries, first_row, first_block }
    }

    /// What products are multiplied by, and how what comes of it becomes exponents.
    ///
    /// # Safety
    /// The facts must be there.
    #[inline(always)]
    pub unsafe fn scaling(self) -> (f32, Exponents) {
        let [prescale, unit, coefficient, _] = shared::load::<[f32; 4]>(self.at + 32);
        (prescale, Exponents { unit, coefficient })
    }

    /// Batch entry, row group and bank index.
    ///
    /// # Safety
    /// The facts must be there.
    #[inline(always)]
    pub unsafe fn place(self) -> (Place, BankIndex) {
        let [batch, group, index, in_bank] = shared::load::<[u32; 4]>(self.at + 48);
        let index = if in_bank != 0 { Some(index as i32) } else { None };
        (Place { batch, group, tile: 0 }, index)
    }

    /// The row group, and the block's span in it.
    ///
    /// # Safety
    /// The facts must be there.
    #[inline(always)]
    pub unsafe fn rows(self, problem: &AttentionForward) -> (Rows<'_>, Span) {
        let span = self.span();
        let (Place { batch, group, .. }, _) = self.place();
        let [first_query, first_key, slot_queries, _] = shared::load::<[u32; 4]>(self.at + 64);
        let sequence = Sequence {
            first_query,
            first_key,
            slot_queries: slot_queries as i32,
            queries: span.queries,
            keys: span.keys,
        };
        (Rows { problem, sequence, batch, group }, span)
    }
}
