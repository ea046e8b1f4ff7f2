//! The types of the C interface, under their names in C.

#![allow(non_camel_case_types, reason = "names of C")]

use fused_attention::Device;
use std::ffi::c_void;

/// The most dimensions of a tensor.
pub const FA_MAX_RANK: usize = 8;

/// A GPU, or the emulator. Made by `fa_device_create_..`, destroyed by `fa_device_destroy`; may
/// be used from any thread, by several at once.
pub struct fa_device(pub(crate) Device);

/// The type of a tensor's elements.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fa_dtype {
    /// IEEE 754 binary16.
    F16 = 1,
    /// 16 bits with the range of f32.
    Bf16 = 2,
    /// 32-bit float.
    F32 = 3,
    /// 64-bit float.
    F64 = 4,
    /// Unsigned byte: masks.
    U8 = 5,
    /// Signed 32-bit integer: lengths and indices.
    I32 = 6,
    /// 64-bit integer: seeds of random numbers.
    I64 = 7,
}

/// What a nonzero byte of a mask means.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fa_polarity {
    /// Nonzero hides the element (Megatron's convention).
    Exclude = 1,
    /// Nonzero shows the element (PyTorch's convention).
    Keep = 2,
}

/// What there is one length for.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fa_per {
    /// Each index of x's first dimension: shape [batch].
    Batch = 1,
    /// Each row: a shape that broadcasts to x's without the last dimension.
    Row = 2,
}

/// The corner of the scores that the diagonal of causal masks and windows goes through.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fa_diagonal {
    /// The last query's diagonal key is the last key.
    BottomRight = 0,
    /// The first query's diagonal key is the first key.
    TopLeft = 1,
}

/// A tensor in device memory, which stays the caller's. This struct does not grow.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fa_tensor {
    /// The address of the element at index 0, on the device.
    pub pointer: *mut c_void,
    /// An fa_dtype.
    pub dtype: u32,
    /// The number of dimensions, at most FA_MAX_RANK.
    pub rank: u32,
    /// The size of each dimension; only the first `rank` are read.
    pub shape: [i64; FA_MAX_RANK],
    /// The distance of neighbours in each dimension, in elements, 0 included; only the first
    /// `rank` are read.
    pub strides: [i64; FA_MAX_RANK],
}

/// The options of a softmax over the last dimension: y = softmax(scale * x + mask). The last
/// dimension holds the keys, the one before it the queries.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fa_softmax_options {
    /// sizeof(fa_softmax_options).
    pub struct_size: usize,
    /// The number that x is multiplied by.
    pub scale: f64,
    /// Nonzero: hide the keys to the right of the diagonal.
    pub is_causal: u32,
    /// An fa_diagonal.
    pub diagonal: u32,
    /// Nonzero: show only the keys of the window.
    pub has_window: u32,
    /// Must be 0.
    pub reserved: u32,
    /// How many keys before the diagonal the window shows; negative: all.
    pub window_left: i64,
    /// How many keys after the diagonal the window shows; negative: all.
    pub window_right: i64,
}

/// What hides parts of rows, beside the options. Null: not given. All that is given applies
/// together. Masks broadcast to x's shape: sizes of 1, and missing dimensions in front, repeat.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fa_mask {
    /// sizeof(fa_mask).
    pub struct_size: usize,
    /// A byte for each element.
    pub bytes: *const fa_tensor,
    /// A number for each element that is added to the scaled x, of x's type, or f32 for f16 and
    /// bf16; -inf hides.
    pub additive: *const fa_tensor,
    /// i32: how many columns a row sees at most. Values below 0 count as 0, values beyond the row
    /// as the row's length.
    pub lengths: *const fa_tensor,
    /// i32, shape [batch]: which mask of a bank each index of x's first dimension takes; bytes and
    /// additive have a further dimension in front then. A row whose index is outside of the bank
    /// becomes NaN.
    pub bank_index: *const fa_tensor,
    /// An fa_polarity; read if there are bytes.
    pub polarity: u32,
    /// An fa_per; read if there are lengths.
    pub lengths_per: u32,
}

/// The tensors of a softmax's forward.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fa_softmax_forward_tensors {
    /// sizeof(fa_softmax_forward_tensors).
    pub struct_size: usize,
    /// The input, with a stride of 1 in the last dimension.
    pub x: *const fa_tensor,
    /// The output: x's shape and type. No other tensor lies between its first byte and its last.
    pub y: *const fa_tensor,
    /// Null, or the log-sum-exp of each row: x's shape without the last dimension, contiguous,
    /// f32, or f64 for f64.
    pub lse: *const fa_tensor,
    /// Null, or the scale in device memory, in place of the options': one element, f32, or f64
    /// for f64.
    pub scale: *const fa_tensor,
    /// Null, or what hides parts of rows.
    pub mask: *const fa_mask,
}

/// The tensors of a softmax's backward: either p or x is given, and the other null.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fa_softmax_backward_tensors {
    /// sizeof(fa_softmax_backward_tensors).
    pub struct_size: usize,
    /// The probabilities, which the forward wrote, with a stride of 1 in the last dimension.
    pub p: *const fa_tensor,
    /// The forward's input, with a stride of 1 in the last dimension: the probabilities are computed
    /// again.
    pub x: *const fa_tensor,
    /// The gradient of the probabilities, of the same shape and type.
    pub dp: *const fa_tensor,
    /// The output, the gradient of x, of the same shape and type. It may be p, x or dp, with the
    /// same strides; else no other tensor lies between its first byte and its last.
    pub dx: *const fa_tensor,
    /// Null, or the forward's scale in device memory, in place of the options'.
    pub scale: *const fa_tensor,
    /// Null, or the forward's mask. From p, masks with a value for each element are not read.
    pub mask: *const fa_mask,
}

/// The options of attention: o_i = sum_j softmax_j(s_ij) v_j, with the scores s_ij =
/// softcap(scale * q_i . k_j) + bias_ij - slope * |i + Sk - Sq - j|, softcap(x) = c tanh(x / c).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fa_attention_options {
    /// sizeof(fa_attention_options).
    pub struct_size: usize,
    /// The number that products of queries and keys are multiplied by; read with `has_scale`.
    pub scale: f64,
    /// 0: the scale is one over the square root of the head dimension.
    pub has_scale: u32,
    /// Nonzero: hide the keys to the right of the diagonal.
    pub is_causal: u32,
    /// An fa_diagonal.
    pub diagonal: u32,
    /// Nonzero: show only the keys of the window.
    pub has_window: u32,
    /// How many keys before the diagonal the window shows; negative: all.
    pub window_left: i64,
    /// How many keys after the diagonal the window shows; negative: all.
    pub window_right: i64,
    /// What scaled products stay below in magnitude; 0: no cap.
    pub softcap: f64,
    /// The probability of dropout, rounded to 256ths; 0: none.
    pub dropout: f64,
}

/// Packed sequences: sequence b has the rows from its offset to the next one.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fa_sequences {
    /// sizeof(fa_sequences).
    pub struct_size: usize,
    /// i32, contiguous: the first row of each sequence, and the last one's end. They ascend, within
    /// the rows of the tensors.
    pub offsets: *const fa_tensor,
    /// The length of the longest, or more. Queries beyond it are not computed.
    pub longest: i64,
}

/// The tensors of attention's forward. Dimensions are batch, heads, rows, elements, without the
/// first where sequences are packed; all strides are free but those of the elements, which are 1.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fa_attention_forward_tensors {
    /// sizeof(fa_attention_forward_tensors).
    pub struct_size: usize,
    /// Queries: f16, bf16 or f32.
    pub q: *const fa_tensor,
    /// Keys, of the same type. Their heads divide the number of those of the queries.
    pub k: *const fa_tensor,
    /// Values, of the same type; their elements may be of another number.
    pub v: *const fa_tensor,
    /// The output: q's shape with v's elements, and q's type. No other tensor lies between its first
    /// byte and its last.
    pub o: *const fa_tensor,
    /// Null, or the natural log-sum-exp of each row, before dropout: f32, q's shape without the
    /// elements.
    pub lse: *const fa_tensor,
    /// Null, or the scale in device memory, in place of the options': one f32.
    pub scale: *const fa_tensor,
    /// Null, or what hides scores, and what is added to them: masks in a shape that broadcasts to
    /// batch, query heads, queries, keys. Lengths are those of the keys, for each batch entry.
    pub mask: *const fa_mask,
    /// Null, or how many queries of each batch entry count: i32, shape [batch]. The others give 0.
    pub query_lengths: *const fa_tensor,
    /// Null, or q, o and lse are packed sequences.
    pub query_sequences: *const fa_sequences,
    /// Null, or k and v are packed sequences.
    pub key_sequences: *const fa_sequences,
    /// Null, or ALiBi's slopes: f32, in a shape that broadcasts to batch, query heads.
    pub slopes: *const fa_tensor,
    /// Null, or the seed of dropout in device memory, in place of `seed`: one i64.
    pub seed_tensor: *const fa_tensor,
    /// Given with `seed_tensor`, in place of `offset`: one i64, of which the lower half counts.
    pub offset_tensor: *const fa_tensor,
    /// The seed of dropout: the key of its random numbers. Read with `has_seed`.
    pub seed: u64,
    /// Which of the random numbers that belong to the seed. Read with `has_seed`.
    pub offset: u32,
    /// Nonzero: `seed` and `offset` are given.
    pub has_seed: u32,
}
