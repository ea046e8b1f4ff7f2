//! Tiles of q, k and v on their way to shared memory.
//!
//! Neighbouring threads copy neighbouring chunks of a row, as many as the layout exchanges: a
//! thread's chunks of all its rows then lie at constant distances. What is beyond the head dimension
//! or the sequence is not read, and becomes 0.

use super::swizzle::{CHUNK, Swizzle};
use crate::{attention::rows::Rows, numbers::Element};
use cuda_std::{cp_async, global, shared};

/// Rows of keys or values of one sequence.
#[derive(Clone, Copy)]
pub struct KeyRows {
    /// Where the first one begins.
    pub from: *const u8,
    /// From one to the next, in elements.
    pub stride: i64,
    /// Elements of a row.
    pub dimension: u32,
    /// The rows.
    pub keys: i32,
}

impl KeyRows {
    /// Copies a thread's part of a block of `count` rows, of which the first is `first`, to `to`.
    /// `ALIGNED`: chunks may be copied whole.
    ///
    /// # Safety
    /// `thread` is one of `threads` of the block. The rows must be valid and some, and their place in
    /// shared memory free.
    #[inline(always)]
    pub unsafe fn copy<E: Element, const ALIGNED: bool>(
        &self,
        layout: Swizzle,
        (threads, thread): (u32, u32),
        (first, count): (i32, u32),
        to: u32,
    ) {
        let (lane_row, lane_chunk) = (thread / layout.group(), thread % layout.group());
        let rows_at_once = threads / layout.group();
        let to = layout.address(to, lane_row, lane_chunk);
        let row_bytes = self.stride * size_of::<E>() as i64;
        let pitch = rows_at_once as i64 * row_bytes;
        let rows = self.keys - first - lane_row as i32;
        let chunks = (self.dimension / E::LANES as u32) as i32 - lane_chunk as i32;
        let offset = (first as i64 + lane_row as i64) * row_bytes + (lane_chunk * CHUNK) as i64;
        let mut from = self.from.wrapping_offset(offset as isize);
        let mut row = 0;
        while row < count {
            let mut chunk = 0;
            while chunk < layout.chunks {
                let exists = (row as i32) < rows && (chunk as i32) < chunks;
                let to = layout.down(to, row) + chunk * CHUNK;
                let from = from.wrapping_add((chunk * CHUNK) as usize);
                copy_chunk::<E, ALIGNED>(to, from, exists, self.from);
                chunk += layout.group();
            }
            row += rows_at_once;
            from = from.wrapping_offset(pitch as isize);
        }
    }
}

/// Copies a chunk; or fills it with zeros, and may read the one at `other` then.
#[inline(always)]
unsafe fn copy_chunk<E: Element, const ALIGNED: bool>(
    to: u32,
    from: *const u8,
    exists: bool,
    other: *const u8,
) {
    if ALIGNED {
        cp_async::copy_16(to, from, if exists { CHUNK } else { 0 });
        return;
    }
    let from = if exists { from } else { other };
    let mut words = [0; 4];
    unroll!(i in 4 => {
        let word = if size_of::<E>() == 4 {
            global::load_cached(from.cast::<u32>().add(i))
        } else {
            let half = from.cast::<u16>().add(2 * i);
            global::load_cached(half) as u32 | (global::load_cached(half.add(1)) as u32) << 16
        };
        words[i] = if exists { word } else { 0 };
    });
    shared::store(to, words);
}

/// Copies the warp's `count` rows of q from row `first` on to `to`. `ALIGNED`: chunks may be copied
/// whole.
///
/// # Safety
/// Convergent: the whole warp. The tensor must be valid, some row count, and the place in shared
/// memory free.
#[inline(always)]
pub unsafe fn copy_queries<E: Element, const ALIGNED: bool>(
    rows: &Rows,
    layout: Swizzle,
    count: u32,
    first: i32,
    lane: u32,
    to: u32,
) {
    let problem = rows.problem;
    let (lane_row, lane_chunk) = (lane / layout.group(), lane % layout.group());
    let chunks = (problem.head_dim / E::LANES as u32) as i32 - lane_chunk as i32;
    let mut row = lane_row;
    while row < count {
        let (number, last) = (first + row as i32, rows.count() - 1);
        let exists = number <= last;
        let offset = rows.offset(&problem.q_strides, if exists { number } else { last });
        let start = problem.q.cast::<E>().wrapping_offset(offset).cast::<u8>();
        let from = start.wrapping_add((lane_chunk * CHUNK) as usize);
        let to = layout.address(to, row, lane_chunk);
        let mut chunk = 0;
        while chunk < layout.chunks {
            let exists = exists && (chunk as i32) < chunks;
            let from = from.wrapping_add((chunk * CHUNK) as usize);
            copy_chunk::<E, ALIGNED>(to + chunk * CHUNK, from, exists, start);
            chunk += layout.group();
        }
        row += 32 / layout.group();
    }
}
