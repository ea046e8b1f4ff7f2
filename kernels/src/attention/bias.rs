//! What is added to scores: a bias for each pair of query and key, and ALiBi.

use super::{
    online_softmax::Fragment,
    pair::Places,
    portable::operand::Operand,
    problem::{AttentionForward, flags},
    sequence::Sequence,
};
use crate::numbers::{Accumulator, Element};
use cuda_std::global;

/// A row's additive bias.
#[derive(Clone, Copy)]
pub struct RowBias {
    /// The row's first element, or null.
    elements: *const u8,
    /// Keys are elements apart, and not all one.
    moves: bool,
    /// f32, whatever the element type.
    wide: bool,
}

impl RowBias {
    /// Of a query: `index` is the batch entry's in the bank.
    ///
    /// # Safety
    /// The problem's bias must be valid for the row.
    #[inline(always)]
    pub unsafe fn of<E: Element>(
        problem: &AttentionForward,
        (batch, head, query): (u32, u32, u32),
        index: i32,
    ) -> Self {
        let wide = problem.flags & flags::BIAS_F32 != 0;
        let size = if wide { 4 } else { size_of::<E>() as i64 };
        let offset =
            problem.bias_strides.offset(batch, head, query) + index as i64 * problem.bias_bank;
        let elements = problem.bias.cast::<u8>();
        RowBias {
            elements: if elements.is_null() {
                elements
            } else {
                elements.wrapping_offset((offset * size) as isize)
            },
            moves: problem.flags & flags::BIAS_BROADCAST == 0,
            wide,
        }
    }

    /// The bias of a key; 0 without any.
    ///
    /// # Safety
    /// The bias must be valid for the key.
    #[inline(always)]
    pub unsafe fn at<E: Element>(&self, key: i32) -> E::Accumulator {
        if self.elements.is_null() {
            return E::Accumulator::ZERO;
        }
        let key = if self.moves { key as usize } else { 0 };
        if self.wide {
            E::Accumulator::from_f32(global::load_cached(self.elements.cast::<f32>().add(key)))
        } else {
            E::load(self.elements.cast::<E>().add(key)).widen()
        }
    }

    /// Adds the biases of a lane's keys to its scores of a row: `key` is the first of them. Only
    /// those in `range`, relative to it, are read.
    ///
    /// # Safety
    /// The row must have a bias, valid for those keys.
    #[inline(always)]
    pub unsafe fn add_to<E: Operand, const KEYS: usize>(
        &self,
        scores: &mut [Fragment; KEYS],
        h: usize,
        key: i32,
        range: (i32, i32),
    ) {
        let step = self.moves as i32;
        let size = if self.wide { 4 } else { size_of::<E>() as i32 };
        let row = self.elements.wrapping_offset(key as isize * (step * size) as isize);
        unroll!(n in KEYS, up to 16 => {
            let column = 8 * n as i32;
            let places = Places::of(column, range);
            let pair = if self.wide {
                f32::load_pair(places, row, column * step, step)
            } else {
                E::load_pair(places, row, column * step, step)
            };
            scores[n][2 * h] += pair[0];
            scores[n][2 * h + 1] += pair[1];
        });
    }
}

/// The slope of a head's ALiBi; 0 without any.
///
/// # Safety
/// The problem's slopes must be valid for the head.
#[inline(always)]
pub unsafe fn slope(problem: &AttentionForward, batch: u32, head: u32) -> f32 {
    if problem.slopes.is_null() {
        return 0.0;
    }
    let offset = batch as i64 * problem.slopes_batch + head as i64 * problem.slopes_head;
    global::load_cached(problem.slopes.offset(offset as isize))
}

/// How far a key is from the diagonal through the bottom right corner: what a slope counts.
#[inline(always)]
pub fn distance(sequence: &Sequence, query: i32, key: i32) -> i32 {
    let distance = query + sequence.keys - sequence.queries - key;
    if distance < 0 { -distance } else { distance }
}
