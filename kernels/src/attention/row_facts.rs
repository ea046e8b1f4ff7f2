//! What has been found out about each row of a tile, in shared memory: where scores have something of
//! their own, and read where it is needed.

use super::{bias, mask::BankIndex, rows::Rows, score_tensor::ScoreTensor};
use crate::numbers::Element;
use cuda_std::shared;

/// Bytes that the facts of a row take: two vectors of 16.
pub const ROW_FACTS_BYTES: u32 = 32;

/// Where the facts of some rows of a tile are in shared memory.
#[derive(Clone, Copy)]
pub struct RowFacts {
    /// Their address, aligned to 16.
    pub at: u32,
}

/// What ALiBi takes from a row.
#[derive(Clone, Copy)]
pub struct Alibi {
    /// The slope of its head.
    pub slope: f32,
    /// Its query.
    pub query: i32,
}

impl RowFacts {
    /// Puts the facts of row `i` of those from row `first` on there; a barrier must follow. A row that
    /// does not count gets those of the last that does; some do.
    ///
    /// # Safety
    /// One thread for each row. The place must be free, and the problem's slopes valid.
    #[inline(always)]
    pub unsafe fn store<E: Element>(self, rows: &Rows, index: BankIndex, (first, i): (i32, u32)) {
        let (problem, index, batch) = (rows.problem, index.unwrap_or(0), rows.batch);
        let (row, last) = (first + i as i32, rows.count() - 1);
        let (query, head) = rows.query_and_head(if row < last { row } else { last });
        let tensors = [ScoreTensor::mask(problem), ScoreTensor::bias::<E>(problem)];
        let pointers = tensors.map(|tensor| tensor.row(batch, head, query as u32, index) as u64);
        let slope = bias::slope(problem, batch, head);
        shared::store(self.of(i), pointers);
        shared::store(self.of(i) + 16, [slope.to_bits(), query as u32]);
    }

    /// Where row `i` begins in the mask.
    ///
    /// # Safety
    /// The facts must be there.
    #[inline(always)]
    pub unsafe fn mask(self, i: u32) -> *const u8 {
        shared::load::<u64>(self.of(i)) as *const u8
    }

    /// Where row `i` begins in the bias.
    ///
    /// # Safety
    /// The facts must be there.
    #[inline(always)]
    pub unsafe fn bias(self, i: u32) -> *const u8 {
        shared::load::<u64>(self.of(i) + 8) as *const u8
    }

    /// What ALiBi takes from row `i`.
    ///
    /// # Safety
    /// The facts must be there.
    #[inline(always)]
    pub unsafe fn alibi(self, i: u32) -> Alibi {
        let [slope, query] = shared::load::<[u32; 2]>(self.of(i) + 16);
        Alibi { slope: f32::from_bits(slope), query: query as i32 }
    }

    #[inline(always)]
    fn of(self, i: u32) -> u32 {
        self.at + ROW_FACTS_BYTES * i
    }
}
