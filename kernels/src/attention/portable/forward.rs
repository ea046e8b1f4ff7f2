//! Flash attention forward by `mma.sync` and `cp.async`.
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
    cut::{Cut, STAGES},
    facts::{Facts, Span},
    key_order,
    load::{KeyRows, copy_queries},
    operand::Operand,
    patches::Patches,
    scores::WarpRows,
    store::{Results, RowPlaces, store_rows},
};
use crate::attention::{
    adjust::{AdjustScores, scale},
    dropout::Dropout,
    features::{Features, scaling},
    lane_rows::MOST_FRAGMENTS,
    mask::bank_index,
    online_softmax::{Fragment, OnlineSoftmax},
    per_score::LoadPerScore,
    problem::{AttentionForward, Strides, flags},
    rows::Rows,
};
use cuda_std::{
    cp_async, hint, matrix, shared, thread,
    warp::{self, FULL_MASK},
};

impl<
    const BYTES: u32,
    const M: usize,
    const WARPS: usize,
    const DEPTH: usize,
    const COLUMNS: usize,
    const KEYS: usize,
> Cut<BYTES, M, WARPS, DEPTH, COLUMNS, KEYS>
{
    /// The kernel's body.
    ///
    /// # Safety
    /// `problem`'s tensors must be valid for its shape, its schedule one of the cut's rows, its
    /// features and dimensions those of the instance, and the launch of the cut's threads and shared
    /// memory.
    #[inline(always)]
    pub unsafe fn forward<E: Operand, F: Features>(problem: &AttentionForward) {
        let place = problem.schedule.place(thread::block_idx_x());
        let rows = Rows::of(problem, place);
        let first_row = (place.tile * Self::ROWS) as i32;
        if first_row >= rows.slots() {
            return;
        }
        let index = if F::MASKS { bank_index(problem, place.batch) } else { Some(0) };
        let (queries, keys) = (rows.sequence.queries, rows.sequence.keys);
        let span = Span { keys, queries, first_row, first_block: 0 };
        let thread = thread::thread_idx_x();

        // The keys that the block's rows see, in whole blocks.
        let at = Self::warp_rows(problem, span, thread);
        let seen = at.seen(first_row, Self::ROWS as i32).some;
        let count = Self::KEY_COUNT as i32;
        let span = Span { first_block: seen.0 / count, ..span };
        let blocks = (seen.1 + count - 1) / count - span.first_block;
        let mut blocks = if index.is_some() { blocks } else { 0 };

        let sources = Self::sources::<E>(&rows);
        let facts = Self::facts();
        if thread == 0 {
            facts.store((&rows, span), sources, scaling::<F>(problem), index);
        }
        if F::MASKS && blocks > 0 && thread < Self::ROWS {
            facts.of_rows().store::<E>(&rows, index, (first_row, thread));
        }
        let mut kept = [[[0; 4]; DEPTH]; M];
        if blocks > 0 {
            Self::copy_queries::<E, F>(&rows, at.first, thread);
            if Self::keeps_q::<F>() {
                cp_async::commit();
            }
            Self::copy_block::<E, F>(problem, sources, span, blocks - 1, thread);
            if Self::keeps_q::<F>() {
                cp_async::wait::<1>();
                warp::sync_warp(FULL_MASK);
                Self::load_queries(&mut kept, thread);
            }
        }
        // The facts are there.
        thread::sync_threads();

        // Masks or biases of the next block of keys.
        let mut ahead = [[[0; 2]; MOST_FRAGMENTS]; M];
        if F::MASKS && blocks > 0 {
            let at = Self::warp_rows(problem, facts.span(), hint::opaque(thread));
            at.load_ahead::<E, M>(F::AHEAD, &mut ahead, at.span.key(blocks - 1, count));
        }
        let mut softmax = OnlineSoftmax::<M>::EMPTY;
        let mut output = [[[0.0; 4]; COLUMNS]; M];
        while blocks > 0 {
            blocks -= 1;
            // What depends on the thread is found anew for each block: that is cheaper than to keep
            // it in registers.
            let thread = hint::opaque(thread);
            // This block's stage is there, and everybody is done with the other one.
            cp_async::wait::<0>();
            thread::sync_threads();
            let span = facts.span();
            if blocks > 0 {
                Self::copy_block::<E, F>(problem, facts.sources(), span, blocks - 1, thread);
            }
            let at = Self::warp_rows(problem, span, thread);
            let seen = at.seen(at.first, Self::WARP_ROWS as i32);
            if seen.sees(span.key(blocks, count), count) {
                let mut scores = [[[0.0; 4]; KEYS]; M];
                Self::multiply_keys::<E, F>(&mut scores, &kept, thread, Self::stage(blocks));
                let (prescale, exponents) = facts.scaling();
                if !F::MASKS && prescale != 1.0 {
                    scale(&mut scores, prescale);
                }
                let at = Self::warp_rows(problem, facts.span(), hint::opaque(thread));
                let first_key = at.span.key(blocks, count);
                let seen = at.seen(at.first, Self::WARP_ROWS as i32);
                let whole = seen.sees_all(first_key, count);
                if F::MASKS {
                    at.adjust::<E, F, M>(&mut scores, (F::AHEAD, &mut ahead), first_key, prescale);
                }
                if !whole {
                    at.hide(&mut scores, first_key);
                }
                if F::MASKS && blocks > 0 {
                    at.load_ahead::<E, M>(F::AHEAD, &mut ahead, first_key - count);
                }
                let stage = Self::stage(blocks);
                if F::ALL && problem.dropped != 0 {
                    let at = Self::warp_rows(problem, facts.span(), hint::opaque(thread));
                    let patches = Patches::of(&at, facts, at.span.key(blocks, count));
                    // No branch is between exponentials and products, so that they overlap.
                    softmax.take(&mut scores, &mut output, exponents);
                    softmax.settle();
                    Self::multiply_values_kept::<E>(&mut output, &scores, patches, thread, stage);
                } else {
                    softmax.take(&mut scores, &mut output, exponents);
                    if F::MASKS {
                        softmax.settle();
                    }
                    Self::multiply_values::<E>(&mut output, &scores, thread, stage);
                }
            } else if F::MASKS && blocks > 0 {
                let at = Self::warp_rows(problem, facts.span(), hint::opaque(thread));
                let first_key = at.span.key(blocks - 1, count);
                at.load_ahead::<E, M>(F::AHEAD, &mut ahead, first_key);
            }
        }
        Self::finish::<E, F>(problem, facts, &softmax, &output);
    }

    #[inline(always)]
    fn facts() -> Facts {
        Facts { at: shared::dynamic() + Self::FACTS }
    }

    /// The rows of a thread's warp.
    #[inline(always)]
    fn warp_rows(problem: &AttentionForward, span: Span, thread: u32) -> WarpRows<'_, KEYS> {
        let first = span.first_row + (thread / 32 * Self::WARP_ROWS) as i32;
        WarpRows { problem, span, facts: Self::facts().of_rows(), first, lane: thread % 32 }
    }

    /// Where the rows of q of a thread's warp are in shared memory.
    #[inline(always)]
    fn queries(thread: u32) -> u32 {
        shared::dynamic() + thread / 32 * Self::WARP_ROWS * Self::DEEP.row_bytes()
    }

    /// How far the stage of a block of keys, counted from the first one, is from the first stage.
    #[inline(always)]
    fn stage(block: i32) -> u32 {
        block as u32 % STAGES * Self::STAGE
    }

    /// Stores the output.
    #[inline(always)]
    unsafe fn finish<E: Operand, F: Features>(
        problem: &AttentionForward,
        facts: Facts,
        softmax: &OnlineSoftmax<M>,
        output: &[[Fragment; COLUMNS]; M],
    ) {
        let (rows, span) = facts.rows(problem);
        let (_, exponents) = facts.scaling();
        let (_, index) = facts.place();
        let thread = hint::opaque(thread::thread_idx_x());
        let WarpRows { first, lane, .. } = Self::warp_rows(problem, span, thread);
        let mut results: Results<M> = [[(0.0, 0.0); 2]; M];
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let (mut factor, mut lse) = softmax.finish(m, h, exponents);
                if F::ALL && problem.dropped != 0 {
                    factor *= Dropout::of(problem).factor();
                }
                if F::MASKS && index.is_none() {
                    (factor, lse) = (f32::NAN, f32::NAN);
                }
                if first + (16 * m + 8 * h) as i32 + (lane / 4) as i32 >= rows.count() {
                    (factor, lse) = (0.0, f32::NEG_INFINITY);
                }
                results[m][h] = (factor, lse);
            });
        });
        let staging = Self::queries(thread);
        if !Self::keeps_q::<F>() {
            // Other lanes have read q there.
            warp::sync_warp(FULL_MASK);
        }
        let at = RowPlaces { rows, first, lane };
        if F::ALL && problem.flags & flags::UNALIGNED != 0 {
            store_rows::<E, M, COLUMNS, false>(&at, output, &results, Self::WIDE, staging);
        } else {
            store_rows::<E, M, COLUMNS, true>(&at, output, &results, Self::WIDE, staging);
        }
    }

    /// Where the sequence's keys and values begin.
    #[inline(always)]
    unsafe fn sources<E>(rows: &Rows) -> [u64; 2] {
        let (problem, first, head) = (rows.problem, rows.sequence.first_key, rows.kv_head());
        let at = |strides: &Strides| strides.offset(rows.batch, head, first) as isize;
        const { assert!(size_of::<E>() as u32 == BYTES) };
        let k = problem.k.cast::<E>().wrapping_offset(at(&problem.k_strides));
        let v = problem.v.cast::<E>().wrapping_offset(at(&problem.v_strides));
        [k as u64, v as u64]
    }

    /// Copies a block of keys and values, counted from the first one, to its stage.
    #[inline(always)]
    unsafe fn copy_block<E: Operand, F: Features>(
        problem: &AttentionForward,
        sources: [u64; 2],
        span: Span,
        block: i32,
        thread: u32,
    ) {
        let k = KeyRows {
            from: sources[0] as *const u8,
            stride: problem.k_strides.row,
            dimension: problem.head_dim,
            keys: span.keys,
        };
        let v = KeyRows {
            from: sources[1] as *const u8,
            stride: problem.v_strides.row,
            dimension: problem.value_dim,
            keys: span.keys,
        };
        let (deep, wide) = (Self::DEEP_KEYS, Self::WIDE_KEYS);
        let threads = (Self::THREADS, thread);
        let base = shared::dynamic() + Self::stage(block);
        let keys = ((span.first_block + block) * Self::KEY_COUNT as i32, Self::KEY_COUNT);
        if F::ALL && problem.flags & flags::UNALIGNED != 0 {
            k.copy::<E, false>(deep, threads, keys, base + Self::K);
            v.copy::<E, false>(wide, threads, keys, base + Self::V);
        } else {
            k.copy::<E, true>(deep, threads, keys, base + Self::K);
            v.copy::<E, true>(wide, threads, keys, base + Self::V);
        }
        cp_async::commit();
    }

    /// Copies the warp's rows of q.
    #[inline(always)]
    unsafe fn copy_queries<E: Operand, F: Features>(rows: &Rows, first: i32, thread: u32) {
        let (layout, count, lane, to) =
            (Self::DEEP, Self::WARP_ROWS, thread % 32, Self::queries(thread));
        if F::ALL && rows.problem.flags & flags::UNALIGNED != 0 {
            copy_queries::<E, false>(rows, layout, count, first, lane, to);
        } else {
            copy_queries::<E, true>(rows, layout, count, first, lane, to);
        }
    }

    /// Loads all fragments of q.
    #[inline(always)]
    unsafe fn load_queries(fragments: &mut [[[u32; 4]; DEPTH]; M], thread: u32) {
        let q = Self::queries(thread);
        unroll!(m in M, up to 2 => {
            unroll!(depth in DEPTH, up to 32 => {
                fragments[m][depth] = Self::load_query(q, thread % 32, m, depth);
            });
        });
    }

    /// A step of 16 rows of q.
    #[inline(always)]
    unsafe fn load_query(q: u32, lane: u32, m: usize, depth: usize) -> [u32; 4] {
        let row = 16 * m as u32 * Self::DEEP.row_bytes();
        matrix::load_4(q + row + Self::DEEP.queries(lane, 2 * depth as u32))
    }

    /// The first product: scores, of q and the keys of the stage `offset` from the first one.
    #[inline(always)]
    unsafe fn multiply_keys<E: Operand, F: Features>(
        scores: &mut [[Fragment; KEYS]; M],
        kept: &[[[u32; 4]; DEPTH]; M],
        thread: u32,
        offset: u32,
    ) {
        let (q, k) = (Self::queries(thread), shared::dynamic() + Self::K + offset);
        let lane = thread % 32;
        // Where products are split, small parts have a sum of their own, and large ones one for every
        // few steps.
        let mut small = [[[0.0; 4]; KEYS]; M];
        let mut large = [[[0.0; 4]; KEYS]; M];
        unroll!(depth in DEPTH, up to 32 => {
            let mut left = [[0; 4]; M];
            unroll!(m in M, up to 2 => {
                left[m] = if Self::keeps_q::<F>() {
                    kept[m][depth]
                } else {
                    Self::load_query(q, lane, m, depth)
                };
            });
            let k = k + Self::DEEP_KEYS.keys(lane, 2 * depth as u32);
            if E::SPLITS {
                Self::multiply_depth::<E, true>(&mut small, &left, k);
                Self::multiply_depth::<E, false>(&mut large, &left, k);
                if depth % SUMMED == SUMMED - 1 || depth == DEPTH - 1 {
                    move_sums(scores, &mut large);
                }
            } else {
                Self::multiply_depth::<E, false>(scores, &left, k);
            }
        });
        if E::SPLITS {
            move_sums(scores, &mut small);
        }
    }

    /// One step along the head dimension, of products' small parts or of the rest.
    #[inline(always)]
    unsafe fn multiply_depth<E: Operand, const SMALL: bool>(
        scores: &mut [[Fragment; KEYS]; M],
        left: &[[u32; 4]; M],
        k: u32,
    ) {
        unroll!(n in KEYS / 2 => {
            let row = key_order::fragment(2 * n) * Self::DEEP_KEYS.row_bytes();
            let right = matrix::load_4(k + row);
            unroll!(m in M, up to 2 => {
                let (a, b) = (2 * n, 2 * n + 1);
                let (first, second) = ([right[0], right[1]], [right[2], right[3]]);
                scores[m][a] = E::multiply_part::<SMALL>(left[m], first, scores[m][a]);
                scores[m][b] = E::multiply_part::<SMALL>(left[m], second, scores[m][b]);
            });
        });
    }

    /// The second product: adds that of probabilities and a block of values to the output.
    #[inline(always)]
    unsafe fn multiply_values<E: Operand>(
        output: &mut [[Fragment; COLUMNS]; M],
        probabilities: &[[Fragment; KEYS]; M],
        thread: u32,
        offset: u32,
    ) {
        unroll!(step in KEYS / E::FRAGMENTS => {
            let left = Self::left::<E>(probabilities, step * E::FRAGMENTS);
            Self::multiply_step::<E>(output, &left, step * E::FRAGMENTS, (thread, offset));
        });
    }

    /// The same, with the probabilities that are kept.
    #[inline(always)]
    unsafe fn multiply_values_kept<E: Operand>(
        output: &mut [[Fragment; COLUMNS]; M],
        probabilities: &[[Fragment; KEYS]; M],
        patches: Patches,
        thread: u32,
        offset: u32,
    ) {
        // Half the registers, before there are products.
        let mut left = [[[0; 4]; M]; KEYS];
        unroll!(pair in KEYS / 2 => {
            let kept = patches.kept::<M>(2 * pair);
            unroll!(step in 2 / E::FRAGMENTS, up to 2 => {
                let first = 2 * pair + step;
                left[first] = Self::left::<E>(probabilities, first);
                unroll!(m in M, up to 2 => {
                    let kept = kept[m].map(|kept| kept >> (16 * step));
                    left[first][m] = E::keep(left[first][m], kept);
                });
            });
        });
        unroll!(step in KEYS / E::FRAGMENTS => {
            let first = step * E::FRAGMENTS;
            Self::multiply_step::<E>(output, &left[first], first, (thread, offset));
        });
    }

    /// The left operand of the step of the second product that begins with fragment `first`.
    #[inline(always)]
    fn left<E: Operand>(probabilities: &[[Fragment; KEYS]; M], first: usize) -> [[u32; 4]; M] {
        let mut left = [[0; 4]; M];
        unroll!(m in M, up to 2 => {
            let fragments = &probabilities[m];
            left[m] = E::left(fragments[first], fragments[first + E::FRAGMENTS - 1]);
        });
        left
    }

    /// The step that begins with fragment `first`.
    #[inline(always)]
    unsafe fn multiply_step<E: Operand>(
        output: &mut [[Fragment; COLUMNS]; M],
        left: &[[u32; 4]; M],
        first: usize,
        (thread, offset): (u32, u32),
    ) {
        let (lane, v) = (thread % 32, shared::dynamic() + Self::V + offset);
        let row = v + key_order::fragment(first) * Self::WIDE_KEYS.row_bytes();
        unroll!(n in COLUMNS / 2, up to 16 => {
            let right = E::right(Self::WIDE_KEYS, row, lane, n);
            unroll!(m in M, up to 2 => {
                let (a, b) = (2 * n, 2 * n + 1);
                output[m][a] = E::accumulate(left[m], right[0], output[m][a]);
                output[m][b] = E::accumulate(left[m], right[1], output[m][b]);
            });
        });
    }
}

/// Steps of the first product that tensor cores sum, where products are split.
const SUMMED: usize = 4;

/// Adds sums to scores here, and not only where the scores are used next: until then, they would take
/// registers. The sums begin anew.
#[inline(always)]
fn move_sums<const M: usize, const KEYS: usize>(
    scores: &mut [[Fragment; KEYS]; M],
    sums: &mut [[Fragment; KEYS]; M],
) {
    unroll!(m in M, up to 2 => {
        unroll!(n in KEYS, up to 16 => {
            scores[m][n] = hint::opaque([0, 1, 2, 3].map(|i| scores[m][n][i] + sums[m][n][i]));
            sums[m][n] = [0.0; 4];
        });
    });
}
