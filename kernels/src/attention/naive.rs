//! Attention by its definition, in f64: what the other kernels are compared with where a CPU is too
//! slow.
//!
//! - Shapes: those of [`AttentionForward`], with all features, but heads are not packed; `o` and
//!   `lse` are f64.
//! - Tiling: a warp computes a row. Its lanes take a key each, in two walks over the visible ones,
//!   first for the log-sum-exp, then for the output, whose columns are the lanes' by turns.
//! - Nothing here is fast.

use super::{
    bias::{self, RowBias},
    dropout::Dropout,
    mask::{RowMask, VisibleRange, bank_index},
    problem::AttentionForward,
    sequence::Sequence,
};
use crate::numbers::Element;
use cuda_std::{
    global, math, thread,
    warp::{self, FULL_MASK, lane_id},
};

/// Rows of a block: what the problem's schedule has as its tile.
pub const NAIVE_ROWS: u32 = 4;

/// Threads of a block.
pub const NAIVE_THREADS: u32 = 32 * NAIVE_ROWS;

/// What scores are made of, for one row.
struct Row<'a, E> {
    problem: &'a AttentionForward,
    sequence: Sequence,
    mask: RowMask,
    bias: RowBias,
    q: *const E,
    k: *const E,
    query: i32,
    scale: f64,
    slope: f64,
}

impl<E: Element<Accumulator = f32>> Row<'_, E> {
    /// The score of a key; -inf if it is hidden. The key is in the visible range.
    #[inline(always)]
    unsafe fn score<const ROUNDED: bool>(&self, key: i32) -> f64 {
        if !self.mask.shows(key) {
            return f64::NEG_INFINITY;
        }
        let k = self.k.offset((key as i64 * self.problem.k_strides.row) as isize);
        let (mut product, mut d) = (0.0, 0);
        while d < self.problem.head_dim as usize {
            let (q, k) = (E::load(self.q.add(d)).widen(), E::load(k.add(d)).widen());
            product = math::fma_f64(q as f64, k as f64, product);
            d += 1;
        }
        let mut score = product * self.scale;
        let softcap = self.problem.softcap as f64;
        if softcap > 0.0 {
            // tanh x = 1 - 2 / (e^2x + 1)
            let power = math::exp_f64(2.0 * (score / softcap));
            score = softcap * (1.0 - 2.0 / (power + 1.0));
        }
        // A bias or a penalty may be larger than any element.
        if ROUNDED {
            score = rounded::<E>(score);
        }
        score += self.bias.of_key::<E>(key) as f64;
        score - self.slope * bias::distance(&self.sequence, self.query, key) as f64
    }
}

/// Rounded to an element.
#[inline(always)]
fn rounded<E: Element<Accumulator = f32>>(value: f64) -> f64 {
    E::narrow(value as f32).widen() as f64
}

/// The kernel's body. With `ROUNDED`, scores and probabilities are rounded to elements, as they are
/// when each step is a kernel of its own: what such rounding costs is the yardstick of others.
///
/// # Safety
/// `problem`'s tensors must be valid for its shape, without packed heads, its head dimensions at
/// most 256, and its schedule one of tiles of [`NAIVE_ROWS`] rows.
#[inline(always)]
pub unsafe fn naive<E: Element<Accumulator = f32>, const ROUNDED: bool>(
    problem: &AttentionForward,
) {
    let (place, lane) = (problem.schedule.place(thread::block_idx_x()), lane_id());
    let (batch, head) = (place.batch, place.group);
    let query = place.tile * NAIVE_ROWS + thread::thread_idx_x() / 32;
    let sequence = Sequence::of(problem, batch);
    if query as i32 >= sequence.slot_queries {
        return;
    }
    let kv_head = problem.heads_per_kv.divide(head).0;
    let q_row = sequence.first_query + query;
    let index = bank_index(problem, batch);
    let at = |strides: &super::problem::Strides, head: u32, row: u32| {
        strides.offset(batch, head, row) as isize
    };
    let row = Row::<E> {
        problem,
        sequence,
        mask: RowMask::of(problem, (batch, head, query), index.unwrap_or(0)),
        bias: RowBias::of::<E>(problem, (batch, head, query), index.unwrap_or(0)),
        q: problem.q.cast::<E>().offset(at(&problem.q_strides, head, q_row)),
        k: problem.k.cast::<E>().offset(at(&problem.k_strides, kv_head, sequence.first_key)),
        query: query as i32,
        scale: if problem.scale_pointer.is_null() {
            problem.scale
        } else {
            global::load_cached(problem.scale_pointer)
        } as f64,
        slope: bias::slope(problem, batch, head) as f64,
    };
    let v = problem.v.cast::<E>().offset(at(&problem.v_strides, kv_head, sequence.first_key));
    let range = VisibleRange::of(problem, sequence.queries, sequence.keys);
    let (first, mut end) = (range.first(query as i32), range.end(query as i32));
    if query as i32 >= sequence.queries || index.is_none() {
        end = first;
    }

    // The log-sum-exp: of the lane's keys, then of all.
    let (mut max, mut sum) = (f64::NEG_INFINITY, 0.0);
    let mut key = first + lane as i32;
    while key < end {
        let score = row.score::<ROUNDED>(key);
        if score != f64::NEG_INFINITY {
            let larger = if score > max { score } else { max };
            // A NaN alone leaves the maximum at -inf.
            let reference = if larger == f64::NEG_INFINITY { 0.0 } else { larger };
            sum = sum * math::exp_f64(max - reference) + math::exp_f64(score - reference);
            max = larger;
        }
        key += 32;
    }
    let row_max = crate::reduction::warp::reduce_max(max, 32);
    let reference = if row_max == f64::NEG_INFINITY { 0.0 } else { row_max };
    let row_sum = crate::reduction::warp::reduce_sum(sum * math::exp_f64(max - reference), 32);
    let mut lse =
        if row_sum == 0.0 { f64::NEG_INFINITY } else { reference + math::ln_f64(row_sum) };

    // The output.
    let plane = batch * problem.heads + head;
    let dropout = Dropout::of(problem);
    let mut o = [0.0f64; 8];
    let mut chunk = first;
    while chunk < end && row_sum != 0.0 {
        let key = chunk + lane as i32;
        let score = if key < end { row.score::<ROUNDED>(key) } else { f64::NEG_INFINITY };
        // Not relative to the log-sum-exp, in which the sum is lost if scores are huge.
        let mut p = if score == f64::NEG_INFINITY {
            0.0
        } else {
            math::exp_f64(score - reference) / row_sum
        };
        if ROUNDED {
            p = rounded::<E>(p);
        }
        if problem.dropped != 0 {
            let keeps = dropout.keeps_element(plane, query, key as u32);
            let kept = 256.0 / (256 - problem.dropped) as f64;
            p *= if keeps { kept } else { 0.0 };
        }
        let mut source = 0;
        while source < 32 && chunk + (source as i32) < end {
            let weight = warp::shuffle_idx(FULL_MASK, p, source);
            let hidden = warp::shuffle_idx(FULL_MASK, score, source) == f64::NEG_INFINITY;
            let v = v.offset(((chunk + source as i32) as i64 * problem.v_strides.row) as isize);
            unroll!(i in 8 => {
                let d = lane + 32 * i as u32;
                if d < problem.value_dim && !hidden {
                    let v = E::load(v.add(d as usize)).widen() as f64;
                    o[i] = math::fma_f64(weight, v, o[i]);
                }
            });
            source += 1;
        }
        chunk += 32;
    }
    if index.is_none() && (query as i32) < sequence.queries {
        (o, lse) = ([f64::NAN; 8], f64::NAN);
    }

    let to = problem.o.cast::<f64>().offset(at(&problem.o_strides, head, q_row));
    unroll!(i in 8 => {
        let d = lane + 32 * i as u32;
        if d < problem.value_dim {
            global::store(to.add(d as usize), o[i]);
        }
    });
    if lane == 0 && !problem.lse.is_null() {
        let to = problem.lse.cast::<f64>().offset(at(&problem.lse_strides, head, q_row));
        global::store(to, lse);
    }
}
