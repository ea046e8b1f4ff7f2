//! What is added to scores: a bias for each pair of query and key, and ALiBi.

use super::{
    problem::{AttentionForward, flags},
    score_tensor::ScoreTensor,
    sequence::Sequence,
};
use crate::numbers::{Accumulator, Element};
use cuda_std::{convert, global};
use half::{bf16, f16};

/// An element type of biases.
pub trait BiasElement: Element {
    /// The elements in a word: two, or one twice.
    fn widen_word(word: u32) -> [f32; 2];
}

impl BiasElement for f16 {
    #[inline(always)]
    fn widen_word(word: u32) -> [f32; 2] {
        convert::unpack_f16x2(word)
    }
}

impl BiasElement for bf16 {
    #[inline(always)]
    fn widen_word(word: u32) -> [f32; 2] {
        convert::unpack_bf16x2(word)
    }
}

impl BiasElement for f32 {
    #[inline(always)]
    fn widen_word(word: u32) -> [f32; 2] {
        [f32::from_bits(word); 2]
    }
}

/// Are biases f32, in a kernel for elements of type E?
#[inline(always)]
pub fn are_single<E>(problem: &AttentionForward) -> bool {
    size_of::<E>() == 4 || problem.flags & flags::BIAS_F32 != 0
}

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
        RowBias {
            elements: ScoreTensor::bias::<E>(problem).row(batch, head, query, index),
            moves: problem.flags & flags::BIAS_BROADCAST == 0,
            wide: problem.flags & flags::BIAS_F32 != 0,
        }
    }

    /// The bias of a key; 0 without any.
    ///
    /// # Safety
    /// The bias must be valid for the key.
    #[inline(always)]
    pub unsafe fn of_key<E: Element>(&self, key: i32) -> E::Accumulator {
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
