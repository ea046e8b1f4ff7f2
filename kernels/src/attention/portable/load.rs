//! Tiles of q, k and v on their way to shared memory.
//!
//! Neighbouring threads copy neighbouring chunks of a row, as many as the layout exchanges: a
//! thread's chunks of all its rows then lie at constant distances. What is beyond the head dimension
//! or the sequence is not read, and becomes 0.

use super::{
    rows::Rows,
    swizzle::{CHUNK, Swizzle},
};
use crate::attention::problem::flags;
use cuda_std::{cp_async, global, shared};

/// The elements of 16 bytes.
const CHUNK_ELEMENTS: u32 = 8;

/// A thread's part of the copies of blocks of keys of one tensor.
#[derive(Clone, Copy)]
pub struct KeySource {
    /// The thread's chunk of its first row in the sequence.
    from: *const u8,
    /// Bytes from one key to the next.
    row_bytes: i64,
    /// Chunks of a row from the thread's first on.
    chunks: i32,
    /// The thread's first row in a block.
    row: i32,
    /// Where the thread's first chunk goes in a block.
    to: u32,
    /// Chunks may be copied whole.
    aligned: bool,
}

impl KeySource {
    /// Of a tensor of `dimension` elements a row, of which the sequence begins at `from`.
    #[inline(always)]
    pub fn new(
        rows: &Rows,
        from: *const u8,
        row_stride: i64,
        dimension: u32,
        layout: Swizzle,
        thread: u32,
    ) -> Self {
        let (row, chunk) = (thread / layout.group(), thread % layout.group());
        let row_bytes = row_stride * 2;
        KeySource {
            from: from
                .wrapping_offset((row as i64 * row_bytes) as isize + (chunk * CHUNK) as isize),
            row_bytes,
            chunks: (dimension / CHUNK_ELEMENTS) as i32 - chunk as i32,
            row: row as i32,
            to: layout.address(0, row, chunk),
            aligned: rows.problem.flags & flags::UNALIGNED == 0,
        }
    }

    /// Copies the block of `count` keys that begins at key `first`, of `keys` in all, to `to`.
    ///
    /// # Safety
    /// The tensor must be valid, and the block's place in shared memory free.
    #[inline(always)]
    pub unsafe fn copy<const MAY_BE_UNALIGNED: bool>(
        &self,
        layout: Swizzle,
        threads: u32,
        count: u32,
        first: i32,
        keys: i32,
        to: u32,
    ) {
        let rows_at_once = (threads / layout.group()) as i32;
        let to = to + self.to;
        let from = self.from.wrapping_offset((first as i64 * self.row_bytes) as isize);
        let pitch = rows_at_once as i64 * self.row_bytes;
        let left = keys - first - self.row;
        let mut row = 0;
        let mut from = from;
        while row < count as i32 {
            let mut chunk = 0;
            while chunk < layout.chunks {
                let exists = row < left && (chunk as i32) < self.chunks;
                let at = (to + row as u32 * layout.row_bytes() + chunk * CHUNK, from, chunk);
                copy_chunk::<MAY_BE_UNALIGNED>(at, exists, self.aligned);
                chunk += layout.group();
            }
            row += rows_at_once;
            from = from.wrapping_offset(pitch as isize);
        }
    }
}

/// Copies a chunk, or fills it with zeros.
#[inline(always)]
unsafe fn copy_chunk<const MAY_BE_UNALIGNED: bool>(
    (to, row, chunk): (u32, *const u8, u32),
    exists: bool,
    aligned: bool,
) {
    let from = row.wrapping_add((chunk * CHUNK) as usize);
    if !MAY_BE_UNALIGNED || aligned {
        cp_async::copy_16(to, from, if exists { CHUNK } else { 0 });
        return;
    }
    let element = |i: usize| global::load_cached_if(exists, from.cast::<u16>().wrapping_add(i), 0);
    let pair = |i: usize| element(2 * i) as u32 | (element(2 * i + 1) as u32) << 16;
    shared::store(to, [pair(0), pair(1), pair(2), pair(3)]);
}

/// Copies the warp's `count` rows of q from row `first` on to `to`.
///
/// # Safety
/// Convergent: the whole warp. The tensor must be valid, and the place in shared memory free.
#[inline(always)]
pub unsafe fn copy_queries<const MAY_BE_UNALIGNED: bool>(
    rows: &Rows,
    layout: Swizzle,
    count: u32,
    first: i32,
    lane: u32,
    to: u32,
) {
    let problem = rows.problem;
    let aligned = problem.flags & flags::UNALIGNED == 0;
    let (lane_row, lane_chunk) = (lane / layout.group(), lane % layout.group());
    let chunks = (problem.head_dim / CHUNK_ELEMENTS) as i32 - lane_chunk as i32;
    let mut row = lane_row;
    while row < count {
        let exists = first + (row as i32) < rows.count();
        let offset = if exists { rows.offset(&problem.q_strides, first + row as i32) } else { 0 };
        let from = problem.q.cast::<u16>().wrapping_offset(offset).cast::<u8>();
        let from = from.wrapping_add((lane_chunk * CHUNK) as usize);
        let to = layout.address(to, row, lane_chunk);
        let mut chunk = 0;
        while chunk < layout.chunks {
            let exists = exists && (chunk as i32) < chunks;
            copy_chunk::<MAY_BE_UNALIGNED>((to + chunk * CHUNK, from, chunk), exists, aligned);
            chunk += layout.group();
        }
        row += 32 / layout.group();
    }
}
