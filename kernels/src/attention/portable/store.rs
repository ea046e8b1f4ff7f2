//! The output on its way to global memory.

use super::{
    operand::Operand,
    swizzle::{CHUNK, Swizzle},
};
use crate::{
    attention::{online_softmax::Fragment, rows::Rows},
    numbers::Element,
};
use cuda_std::{
    global, shared,
    warp::{self, FULL_MASK},
};

/// What the output of a lane's rows is multiplied by, and their log-sum-exp.
pub type Results<const M: usize> = [[(f32, f32); 2]; M];

/// Where a lane's rows are.
#[derive(Clone, Copy)]
pub struct RowPlaces<'a> {
    /// The row group.
    pub rows: Rows<'a>,
    /// The warp's first row.
    pub first: i32,
    /// The lane.
    pub lane: u32,
}

/// Stores the warp's rows, by way of shared memory at `staging`, where only this warp's rows of q
/// were: fragments are 4 bytes of a row, and 16 bytes are stored at once, if `ALIGNED`.
///
/// # Safety
/// Convergent: the whole warp. The problem's output must be valid, and nobody may still read q.
#[inline(always)]
pub unsafe fn store_rows<E: Operand, const M: usize, const COLUMNS: usize, const ALIGNED: bool>(
    at: &RowPlaces,
    output: &[[Fragment; COLUMNS]; M],
    results: &Results<M>,
    layout: Swizzle,
    staging: u32,
) {
    let (rows, problem, lane) = (&at.rows, at.rows.problem, at.lane);
    unroll!(m in M, up to 2 => {
        unroll!(h in 2 => {
            let row = (16 * m + 8 * h) as u32 + lane / 4;
            let to = (layout, layout.address(staging, row, 0), lane);
            stage_row::<E, COLUMNS>(&output[m], h, results[m][h].0, to);
        });
    });
    warp::sync_warp(FULL_MASK);

    let (lane_row, lane_chunk) = (lane / layout.group(), lane % layout.group());
    let mut row = lane_row;
    while row < 16 * M as u32 {
        if at.first + (row as i32) < rows.slots() {
            let to = rows.offset(&problem.o_strides, at.first + row as i32);
            let to = problem.o.cast::<E>().offset(to);
            let from = layout.address(staging, row, lane_chunk);
            let mut chunk = 0;
            while chunk < layout.chunks {
                let column = (chunk + lane_chunk) * E::LANES as u32;
                if column < problem.value_dim {
                    let words: [u32; 4] = shared::load(from + chunk * CHUNK);
                    store_chunk::<E, ALIGNED>(to.add(column as usize), words);
                }
                chunk += layout.group();
            }
        }
        row += 32 / layout.group();
    }

    if lane.is_multiple_of(4) && !problem.lse.is_null() {
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let row = at.first + (16 * m + 8 * h) as i32 + (lane / 4) as i32;
                if row < rows.slots() {
                    let to = rows.offset(&problem.lse_strides, row);
                    global::store(problem.lse.cast::<f32>().offset(to), results[m][h].1);
                }
            });
        });
    }
}

/// Puts a lane's part of a row into shared memory.
#[inline(always)]
unsafe fn stage_row<E: Operand, const COLUMNS: usize>(
    output: &[Fragment; COLUMNS],
    h: usize,
    factor: f32,
    (layout, row, lane): (Swizzle, u32, u32),
) {
    // A row that sees nothing is 0, whatever v holds.
    let scaled = |value: f32| if factor == 0.0 { 0.0 } else { value * factor };
    unroll!(n in COLUMNS, up to 32 => {
        let columns = [scaled(output[n][2 * h]), scaled(output[n][2 * h + 1])];
        E::stage(layout, row, lane, n, columns);
    });
}

/// Stores 16 bytes, at once if they may be.
#[inline(always)]
unsafe fn store_chunk<E: Element, const ALIGNED: bool>(to: *mut E, words: [u32; 4]) {
    if ALIGNED {
        global::store(to.cast::<[u32; 4]>(), words);
        return;
    }
    unroll!(i in 4 => {
        if size_of::<E>() == 4 {
            global::store(to.cast::<u32>().add(i), words[i]);
        } else {
            let to = to.cast::<u16>().add(2 * i);
            global::store(to, words[i] as u16);
            global::store(to.add(1), (words[i] >> 16) as u16);
        }
    });
}
