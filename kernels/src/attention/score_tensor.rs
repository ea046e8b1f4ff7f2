//! Tensors with an element for each score: masks and biases.

use super::problem::{AttentionForward, Strides, flags};
use crate::numbers::Element;

/// Where such a tensor's elements are.
#[derive(Clone, Copy)]
pub struct ScoreTensor<'a> {
    /// The first element, or null.
    from: *const u8,
    strides: &'a Strides,
    /// From one tensor of the bank to the next, in elements.
    bank: i64,
    /// Bytes of an element.
    size: i64,
}

impl<'a> ScoreTensor<'a> {
    /// The boolean mask.
    #[inline(always)]
    pub fn mask(problem: &'a AttentionForward) -> Self {
        let AttentionForward { mask, mask_strides, mask_bank, .. } = problem;
        ScoreTensor { from: *mask, strides: mask_strides, bank: *mask_bank, size: 1 }
    }

    /// The bias.
    #[inline(always)]
    pub fn bias<E: Element>(problem: &'a AttentionForward) -> Self {
        let AttentionForward { bias, bias_strides, bias_bank, flags, .. } = problem;
        let size = if flags & flags::BIAS_F32 != 0 { 4 } else { size_of::<E>() as i64 };
        ScoreTensor { from: bias.cast(), strides: bias_strides, bank: *bias_bank, size }
    }

    /// Where a query's row begins, of a batch entry whose index in the bank is `index`; null if there
    /// is no tensor.
    #[inline(always)]
    pub fn row(&self, batch: u32, head: u32, query: u32, index: i32) -> *const u8 {
        if self.from.is_null() {
            return self.from;
        }
        let elements = self.strides.offset(batch, head, query) + index as i64 * self.bank;
        self.from.wrapping_offset((elements * self.size) as isize)
    }
}
