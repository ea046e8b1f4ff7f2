//! What the host tells an attention kernel.
//!
//! `o[i] = sum_j p_ij v[j]`, `p_ij = exp(s_ij - lse_i)` where visible, else 0, with
//! `s_ij = softcap(scale * q[i] . k[j]) + bias_ij - slope * |i + Sk - Sq - j|`.

use super::schedule::Schedule;
use crate::softmax::problem::Divisor;
use core::ffi::c_void;
use cuda_std::hint;

/// The longest sequence: sums of two positions and a tile fit in an i32.
pub const MAX_SEQUENCE: u32 = 1 << 29;

/// How far a tensor moves for a step along each dimension, in its elements.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Strides {
    /// To the next batch entry; 0 for packed sequences.
    pub batch: i64,
    /// To the next head: a query head in what queries have, a K/V head in K and V.
    pub head: i64,
    /// To the next row: a query or a key.
    pub row: i64,
}

impl Strides {
    /// Where a row is, in elements from the tensor's start.
    #[inline(always)]
    pub const fn offset(&self, batch: u32, head: u32, row: u32) -> i64 {
        batch as i64 * self.batch + head as i64 * self.head + row as i64 * self.row
    }
}

/// A forward problem, passed to the kernel by value. Pointers that are null stand for what the
/// problem does not have.
///
/// A *slot* is a batch entry's rows in a tensor: all of them, or with packed sequences those from
/// its offset to the next. A *length* is the number of the slot's rows that count: rows of K and V
/// beyond do not count, whatever they hold; rows of the output beyond become 0, with a log-sum-exp of -inf.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AttentionForward {
    /// Queries, of the kernel's element type; the last dimension's stride is 1.
    pub q: *const c_void,
    /// Keys, likewise.
    pub k: *const c_void,
    /// Values, likewise.
    pub v: *const c_void,
    /// Output, likewise; f64 in the naive kernels.
    pub o: *mut c_void,
    /// Log-sum-exp of each row, f32; f64 in the naive kernels.
    pub lse: *mut c_void,
    /// Of `q`.
    pub q_strides: Strides,
    /// Of `k`.
    pub k_strides: Strides,
    /// Of `v`.
    pub v_strides: Strides,
    /// Of `o`.
    pub o_strides: Strides,
    /// Of `lse`.
    pub lse_strides: Strides,

    /// Where each packed sequence's queries begin, `batch + 1` row numbers.
    pub q_offsets: *const i32,
    /// Where each packed sequence's keys begin, `batch + 1` row numbers.
    pub k_offsets: *const i32,
    /// The queries of each batch entry that count; beyond the slot counts as the slot.
    pub q_lengths: *const i32,
    /// The keys of each batch entry that count; beyond the slot counts as the slot.
    pub k_lengths: *const i32,

    /// A byte for each score; [`flags::KEEP`] says whether nonzero means visible. A row's keys are
    /// contiguous, or one byte with [`flags::MASK_BROADCAST`].
    pub mask: *const u8,
    /// Of `mask`, by query heads.
    pub mask_strides: Strides,
    /// From one mask of the bank to the next; 0 if the mask is not in the bank.
    pub mask_bank: i64,
    /// Added to the scores: f32 with [`flags::BIAS_F32`], else of the element type. A row's keys
    /// are contiguous, or one element with [`flags::BIAS_BROADCAST`].
    pub bias: *const c_void,
    /// Of `bias`, by query heads.
    pub bias_strides: Strides,
    /// From one bias of the bank to the next; 0 if the bias is not in the bank.
    pub bias_bank: i64,
    /// Which mask and bias of the bank each batch entry takes.
    pub bank_index: *const i32,
    /// From one batch entry's index to the next.
    pub bank_index_stride: i64,

    /// The ALiBi slope of each query head.
    pub slopes: *const f32,
    /// From one batch entry's slopes to the next.
    pub slopes_batch: i64,
    /// From one head's slope to the next.
    pub slopes_head: i64,

    /// The dropout's seed in device memory. Null: `seed` counts.
    pub seed_pointer: *const u64,
    /// The dropout's offset in device memory, of which the lower half counts. Null: `offset` counts.
    pub offset_pointer: *const u64,
    /// The dropout's seed: the key of its random numbers.
    pub seed: u64,
    /// The dropout's offset: the last word of the random numbers' counter.
    pub offset: u32,
    /// Scores are dropped with a probability of so many 256ths: 0 to 255, 0 without dropout.
    pub dropped: u32,

    /// The scale in device memory. Null: `scale` counts.
    pub scale_pointer: *const f32,
    /// The scale.
    pub scale: f32,
    /// Scores s become `softcap * tanh(s / softcap)`; 0: they stay.
    pub softcap: f32,
    /// 1 / `softcap`.
    pub softcap_inverse: f32,

    /// Masks and biases in the bank. A batch entry whose index is outside of it becomes NaN.
    pub bank_size: u32,
    /// Bits of [`flags`].
    pub flags: u32,
    /// Keys visible to the left of the diagonal; negative: all.
    pub window_left: i32,
    /// Keys visible to the right of the diagonal, 0 for causal; negative: all.
    pub window_right: i32,

    /// Queries of a slot; with packed sequences of the longest.
    pub queries: u32,
    /// Keys of a slot; with packed sequences of the longest.
    pub keys: u32,
    /// Elements of a row of q and k that count: a multiple of 8.
    pub head_dim: u32,
    /// Elements of a row of v and o that count: a multiple of 8.
    pub value_dim: u32,
    /// Query heads.
    pub heads: u32,
    /// Query heads that share a K/V head.
    pub heads_per_kv: Divisor,
    /// Query heads that share a tile: 1, or, without dropout, all that share a K/V head. Row r of such a row group is
    /// query r / `packed_heads` of head r % `packed_heads`.
    pub packed_heads: Divisor,
    /// Which tile a block computes: tiles of the kernel's tile size, cut from
    /// `queries * packed_heads` rows; row groups are `heads / packed_heads` in each batch entry.
    pub schedule: Schedule,
}

impl AttentionForward {
    /// The same, of which the compiler does not know what tiles are found by, nor the scale, the flags,
    /// the window, or whether there are masks or dropout: what is computed from that is computed anew each
    /// time, and not kept in registers.
    #[inline(always)]
    pub fn anew(&self) -> Self {
        let pointer = |pointer: *const i32| hint::opaque(pointer as i64) as *const i32;
        AttentionForward {
            q_offsets: pointer(self.q_offsets),
            k_offsets: pointer(self.k_offsets),
            q_lengths: pointer(self.q_lengths),
            k_lengths: pointer(self.k_lengths),
            bank_index: pointer(self.bank_index),
            scale: hint::opaque(self.scale),
            scale_pointer: hint::opaque(self.scale_pointer as i64) as *const f32,
            mask: hint::opaque(self.mask as i64) as *const u8,
            dropped: hint::opaque(self.dropped),
            flags: hint::opaque(self.flags),
            window_left: hint::opaque(self.window_left as u32) as i32,
            window_right: hint::opaque(self.window_right as u32) as i32,
            schedule: hint::opaque(self.schedule),
            ..*self
        }
    }
}

/// The bits of [`AttentionForward::flags`].
pub mod flags {
    /// A nonzero mask byte means visible, not masked.
    pub const KEEP: u32 = 1;
    /// The mask has one byte for a whole row.
    pub const MASK_BROADCAST: u32 = 2;
    /// The bias is f32, whatever the element type.
    pub const BIAS_F32: u32 = 4;
    /// The bias has one element for a whole row.
    pub const BIAS_BROADCAST: u32 = 8;
    /// The diagonal starts in the top left corner, instead of ending in the bottom right one.
    pub const TOP_LEFT: u32 = 16;
    /// Not all rows of q, k, v and o begin on a 16-byte boundary: only kernels with all features
    /// take such.
    pub const UNALIGNED: u32 = 32;
    /// Each row of the mask has a byte for each key, and begins on an 8-byte boundary.
    pub const MASK_ALIGNED: u32 = 64;
    /// Each row of the bias has an element for each key, and begins on a 16-byte boundary.
    pub const BIAS_ALIGNED: u32 = 128;
}
