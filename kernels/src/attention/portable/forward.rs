//! Flash attention forward by `mma.sync` and `cp.async`, of 16-bit elements.
//!
//! `o = softmax(q k^T) v` row by row, blocks of keys one after the other: neither scores nor
//! probabilities ever leave the registers.
//!
//! - Shapes: q and o are rows of queries, k and v rows of keys, at free strides; head dimensions are
//!   padded to the tile's in shared memory.
//! - Tiling: a block takes a tile of rows of one head, each warp 16 or 32 of them, and walks over
//!   the blocks of keys that these rows see, from the last to the first. Whatever hides keys is
//!   looked at only in blocks where it does.
//! - Registers: a warp of 32 rows and 128 columns holds its output in 128, a block of 64 scores in
//!   64 registers; the probabilities take the scores' place, as fragments of the second product.
//! - Shared memory: the rows of q, and two stages of k and v; swizzled, so that neither copies nor
//!   `ldmatrix` meet bank conflicts.
//! - Roofline: the tensor cores, by `mma.sync`. A warp reads each key's k and v from shared memory
//!   for all of its rows: with 16 rows that takes longer than the products, with 32 it does not.

use super::{
    cut::Cut,
    half::Half,
    load::{KeySource, copy_queries},
    rows::Rows,
    scores::{Features, WarpRows, scaling},
    store::{Results, store_rows},
};
use crate::attention::{
    dropout::Dropout,
    mask::{VisibleRange, bank_index},
    online_softmax::{Fragment, OnlineSoftmax},
    problem::AttentionForward,
};
use cuda_std::{
    cp_async, matrix, shared, thread,
    warp::{self, FULL_MASK},
};

impl<
    const M: usize,
    const WARPS: usize,
    const DEPTH: usize,
    const COLUMNS: usize,
    const KEYS: usize,
> Cut<M, WARPS, DEPTH, COLUMNS, KEYS>
{
    /// The kernel's body.
    ///
    /// # Safety
    /// `problem`'s tensors must be valid for its shape, its schedule one of the cut's rows, its
    /// features and dimensions those of the instance, and the launch of the cut's threads and shared
    /// memory.
    #[inline(always)]
    pub unsafe fn forward<E: Half, F: Features>(problem: &AttentionForward) {
        let place = problem.schedule.place(thread::block_idx_x());
        let rows = Rows::of(problem, place);
        let first_row = (place.tile * Self::ROWS) as i32;
        if first_row >= rows.slots() {
            return;
        }
        let (index, in_bank) = match F::ALL {
            true => match bank_index(problem, place.batch) {
                Some(index) => (index, true),
                None => (0, false),
            },
            false => (0, true),
        };
        let thread = thread::thread_idx_x();
        let (warp, lane) = (thread / 32, thread % 32);
        let at = WarpRows {
            rows,
            range: VisibleRange::of(problem, &rows.sequence),
            first: first_row + (warp * Self::WARP_ROWS) as i32,
            lane,
            bank_index: index,
        };

        // The keys that the block's rows see, in whole blocks; those that the warp's rows do.
        let of_block = at.seen(first_row, Self::ROWS as i32);
        let of_warp = at.seen(at.first, Self::WARP_ROWS as i32);
        let count = Self::KEY_COUNT as i32;
        let first_block = of_block.some.0 / count;
        let mut block = if in_bank { (of_block.some.1 + count - 1) / count } else { 0 };

        let base = shared::dynamic();
        let q = base + warp * Self::WARP_ROWS * Self::DEEP.row_bytes();
        let (k, v) = Self::sources::<E>(&rows, thread);
        let copy = |block: i32, stage: u32| {
            let (first, keys) = (block * count, rows.sequence.keys);
            let to = base + stage * Self::STAGE;
            Self::copy_keys::<F>(&k, &v, first, keys, to);
            cp_async::commit();
        };
        let mut kept = [[[0; 4]; DEPTH]; M];
        let q_lane = Self::DEEP.address(q, lane % 16, lane / 16);
        if block > first_block {
            Self::copy_queries::<F>(&at, q);
            if Self::KEEPS_Q {
                cp_async::commit();
                copy(block - 1, 0);
                cp_async::wait::<1>();
                warp::sync_warp(FULL_MASK);
                Self::load_queries(&mut kept, q_lane);
            } else {
                copy(block - 1, 0);
            }
        }

        let (prescale, exponents) = scaling::<F>(&rows);
        let k_lane = Self::DEEP.address(base + Self::K, lane % 8 + lane / 16 * 8, lane / 8 % 2);
        let v_lane = Self::WIDE.address(base + Self::V, lane % 16, lane / 16);
        let mut softmax = OnlineSoftmax::<M>::EMPTY;
        let mut output = [[[0.0; 4]; COLUMNS]; M];
        let mut stage = 0;
        while block > first_block {
            block -= 1;
            // What this stage has is there, and everybody is done with the other one.
            cp_async::wait::<0>();
            thread::sync_threads();
            if block > first_block {
                copy(block - 1, stage ^ 1);
            }
            let first_key = block * count;
            if of_warp.sees(first_key, count) {
                let offset = stage * Self::STAGE;
                let mut scores = [[[0.0; 4]; KEYS]; M];
                Self::multiply_keys::<E>(&mut scores, &kept, q_lane, k_lane + offset);
                let whole = of_warp.sees_all(first_key, count);
                if F::ALL || prescale != 1.0 {
                    scale(&mut scores, prescale);
                }
                if F::ALL {
                    at.adjust::<E, M, KEYS>(&mut scores, first_key, whole);
                }
                if !whole {
                    at.hide(&mut scores, first_key);
                }
                softmax.take(&mut scores, &mut output, exponents);
                if F::ALL && problem.dropped != 0 {
                    at.drop(&Dropout::of(problem), &mut scores, first_key);
                }
                Self::multiply_values::<E>(&mut output, &scores, v_lane + offset);
            }
            stage ^= 1;
        }

        let mut results: Results<M> = [[(0.0, 0.0); 2]; M];
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let (mut factor, mut lse) = softmax.finish(m, h, exponents);
                if F::ALL && problem.dropped != 0 {
                    factor *= Dropout::of(problem).factor();
                }
                if !in_bank {
                    (factor, lse) = (f32::NAN, f32::NAN);
                }
                if at.row(m, h) >= rows.count() {
                    (factor, lse) = (0.0, f32::NEG_INFINITY);
                }
                results[m][h] = (factor, lse);
            });
        });
        if F::ALL {
            store_rows::<E, M, COLUMNS, true>(&at, &output, &results, Self::WIDE, q);
        } else {
            store_rows::<E, M, COLUMNS, false>(&at, &output, &results, Self::WIDE, q);
        }
    }

    /// The thread's parts of the copies of k and v.
    #[inline(always)]
    unsafe fn sources<E>(rows: &Rows, thread: u32) -> (KeySource, KeySource) {
        let (problem, first) = (rows.problem, rows.sequence.first_key);
        let head = rows.kv_head();
        let k = problem
            .k
            .cast::<E>()
            .offset(problem.k_strides.offset(rows.batch, head, first) as isize);
        let v = problem
            .v
            .cast::<E>()
            .offset(problem.v_strides.offset(rows.batch, head, first) as isize);
        let (k_row, v_row) = (problem.k_strides.row, problem.v_strides.row);
        (
            KeySource::new(rows, k.cast(), k_row, problem.head_dim, Self::DEEP, thread),
            KeySource::new(rows, v.cast(), v_row, problem.value_dim, Self::WIDE, thread),
        )
    }

    /// Copies a block of keys and values to a stage, at `to` from its place in the first one.
    #[inline(always)]
    unsafe fn copy_keys<F: Features>(k: &KeySource, v: &KeySource, first: i32, keys: i32, to: u32) {
        let (threads, count) = (Self::THREADS, Self::KEY_COUNT);
        if F::ALL {
            k.copy::<true>(Self::DEEP, threads, count, first, keys, to + Self::K);
            v.copy::<true>(Self::WIDE, threads, count, first, keys, to + Self::V);
        } else {
            k.copy::<false>(Self::DEEP, threads, count, first, keys, to + Self::K);
            v.copy::<false>(Self::WIDE, threads, count, first, keys, to + Self::V);
        }
    }

    /// Copies the warp's rows of q.
    #[inline(always)]
    unsafe fn copy_queries<F: Features>(at: &WarpRows, to: u32) {
        let (rows, layout, count) = (&at.rows, Self::DEEP, Self::WARP_ROWS);
        if F::ALL {
            copy_queries::<true>(rows, layout, count, at.first, at.lane, to);
        } else {
            copy_queries::<false>(rows, layout, count, at.first, at.lane, to);
        }
    }

    /// Loads all fragments of q.
    #[inline(always)]
    unsafe fn load_queries(fragments: &mut [[[u32; 4]; DEPTH]; M], q: u32) {
        unroll!(m in M, up to 2 => {
            unroll!(depth in DEPTH, up to 16 => {
                fragments[m][depth] = Self::load_query(q, m, depth);
            });
        });
    }

    #[inline(always)]
    unsafe fn load_query(q: u32, m: usize, depth: usize) -> [u32; 4] {
        let row = 16 * m as u32 * Self::DEEP.row_bytes();
        matrix::load_4(Self::DEEP.along(q, 2 * depth as u32) + row)
    }

    /// The first product: scores, of q and a block of keys.
    #[inline(always)]
    unsafe fn multiply_keys<E: Half>(
        scores: &mut [[Fragment; KEYS]; M],
        kept: &[[[u32; 4]; DEPTH]; M],
        q: u32,
        k: u32,
    ) {
        unroll!(depth in DEPTH, up to 16 => {
            let mut left = [[0; 4]; M];
            unroll!(m in M, up to 2 => {
                left[m] = if Self::KEEPS_Q { kept[m][depth] } else { Self::load_query(q, m, depth) };
            });
            Self::multiply_depth::<E>(scores, &left, Self::DEEP.along(k, 2 * depth as u32));
        });
    }

    /// One step of 16 along the head dimension.
    #[inline(always)]
    unsafe fn multiply_depth<E: Half>(
        scores: &mut [[Fragment; KEYS]; M],
        left: &[[u32; 4]; M],
        k: u32,
    ) {
        unroll!(n in KEYS / 2 => {
            let right = matrix::load_4(k + 16 * n as u32 * Self::DEEP.row_bytes());
            unroll!(m in M, up to 2 => {
                let (a, b) = (2 * n, 2 * n + 1);
                scores[m][a] = E::multiply(left[m], [right[0], right[1]], scores[m][a]);
                scores[m][b] = E::multiply(left[m], [right[2], right[3]], scores[m][b]);
            });
        });
    }

    /// The second product: adds that of probabilities and a block of values to the output.
    #[inline(always)]
    unsafe fn multiply_values<E: Half>(
        output: &mut [[Fragment; COLUMNS]; M],
        probabilities: &[[Fragment; KEYS]; M],
        v: u32,
    ) {
        unroll!(n in KEYS / 2 => {
            let mut left = [[0; 4]; M];
            unroll!(m in M, up to 2 => {
                let (a, b) = (probabilities[m][2 * n], probabilities[m][2 * n + 1]);
                left[m] = [
                    E::pair(a[0], a[1]),
                    E::pair(a[2], a[3]),
                    E::pair(b[0], b[1]),
                    E::pair(b[2], b[3]),
                ];
            });
            Self::multiply_rows::<E>(output, &left, v + 16 * n as u32 * Self::WIDE.row_bytes());
        });
    }

    /// One step of 16 keys.
    #[inline(always)]
    unsafe fn multiply_rows<E: Half>(
        output: &mut [[Fragment; COLUMNS]; M],
        left: &[[u32; 4]; M],
        v: u32,
    ) {
        unroll!(n in COLUMNS / 2, up to 16 => {
            let right = matrix::load_4_transposed(Self::WIDE.along(v, 2 * n as u32));
            unroll!(m in M, up to 2 => {
                let (a, b) = (2 * n, 2 * n + 1);
                output[m][a] = E::multiply(left[m], [right[0], right[1]], output[m][a]);
                output[m][b] = E::multiply(left[m], [right[2], right[3]], output[m][b]);
            });
        });
    }
}

#[inline(always)]
fn scale<const M: usize, const KEYS: usize>(scores: &mut [[Fragment; KEYS]; M], factor: f32) {
    unroll!(m in M, up to 2 => {
        unroll!(n in KEYS, up to 16 => {
            unroll!(i in 4 => {
                scores[m][n][i] *= factor;
            });
        });
    });
}
