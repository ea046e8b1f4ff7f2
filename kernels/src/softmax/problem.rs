//! What the host tells a softmax kernel, and how a row's number becomes addresses.

use core::ffi::c_void;
use cuda_std::hint::{self, Registers};

/// Dimensions that rows are counted in, at most, once the host has merged those it can.
pub const MAX_ROW_DIMENSIONS: usize = 7;

/// A divisor that is not a constant, as a multiplication (Granlund and Montgomery, "Division by
/// invariant integers using multiplication", 1994, figure 4.1).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Divisor {
    value: u32,
    multiplier: u32,
    shift: u32,
}

impl Divisor {
    /// For division by `value`; 0 counts as 1.
    pub const fn new(value: u32) -> Self {
        let value = if value == 0 { 1 } else { value };
        // ceil(log2(value))
        let shift = 32 - (value - 1).leading_zeros();
        let multiplier =
            ((1u64 << 32) * ((1u64 << shift) - value as u64) / value as u64 + 1) as u32;
        Divisor { value, multiplier, shift }
    }

    /// The divisor.
    #[inline(always)]
    pub const fn value(self) -> u32 {
        self.value
    }

    /// Quotient and remainder of `n`.
    #[inline(always)]
    pub const fn divide(self, n: u32) -> (u32, u32) {
        let high = ((self.multiplier as u64 * n as u64) >> 32) as u32;
        let quotient = ((high as u64 + n as u64) >> (self.shift & 63)) as u32;
        (quotient, n.wrapping_sub(quotient.wrapping_mul(self.value)))
    }
}

impl Registers for Divisor {
    #[inline(always)]
    fn opaque(self) -> Self {
        let [value, multiplier, shift] = hint::opaque([self.value, self.multiplier, self.shift]);
        Divisor { value, multiplier, shift }
    }
}

/// One dimension that rows are counted in, and how far each tensor moves for a step along it.
/// Strides are in elements of the tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowDimension {
    /// The dimension's size.
    pub size: Divisor,
    /// Of the input.
    pub x: i64,
    /// Of the output.
    pub y: i64,
    /// Of the byte mask.
    pub bytes: i64,
    /// Of the additive mask.
    pub additive: i64,
    /// Of the row lengths.
    pub lengths: i64,
    /// Of the mask bank's index.
    pub bank_index: i64,
    /// Of the log-sum-exp.
    pub lse: i64,
}

impl RowDimension {
    /// Of size 1, along which nothing moves.
    pub const NONE: Self = RowDimension {
        size: Divisor::new(1),
        x: 0,
        y: 0,
        bytes: 0,
        additive: 0,
        lengths: 0,
        bank_index: 0,
        lse: 0,
    };
}

/// A forward problem, passed to the kernel by value. Pointers that are null stand for what the
/// problem does not have.
///
/// Rows are numbered by their position in `dimensions`, the first fastest; with a causal mask or a
/// window that one is the query dimension.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SoftmaxForward {
    /// Scores before scaling, of the kernel's element type; the last dimension's stride is 1.
    pub x: *const c_void,
    /// Probabilities, of the same type; the last dimension's stride is 1.
    pub y: *mut c_void,
    /// Log-sum-exp of each row: f32, or f64 for f64 tensors.
    pub lse: *mut c_void,
    /// The scale in device memory: f32, or f64 for f64 tensors. Null: `scale` counts.
    pub scale_pointer: *const c_void,
    /// The scale.
    pub scale: f64,

    /// A byte for each element; [`flags::KEEP`] says whether nonzero means visible.
    pub bytes: *const u8,
    /// Added to the scaled scores: f32 with [`flags::ADDITIVE_F32`], else of the element type.
    pub additive: *const c_void,
    /// The number of columns that a row sees at most; beyond `columns` counts as `columns`.
    pub lengths: *const i32,
    /// Which mask of a bank a row takes.
    pub bank_index: *const i32,
    /// Masks in the bank. A row whose index is outside of it becomes NaN.
    pub bank_size: u32,
    /// Bits of [`flags`].
    pub flags: u32,
    /// From one byte mask of the bank to the next; 0 if the byte mask is not in the bank.
    pub bytes_bank: i64,
    /// From one additive mask of the bank to the next; 0 if the additive mask is not in it.
    pub additive_bank: i64,

    /// Columns of a row.
    pub columns: u64,
    /// Columns visible to the left of the diagonal; negative: all.
    pub window_left: i64,
    /// Columns visible to the right of the diagonal, 0 for causal; negative: all.
    pub window_right: i64,
    /// Rows in the query dimension of the whole problem, which place the diagonal.
    pub queries: u64,
    /// The index in the query dimension of this launch's first row.
    pub first_query: u64,

    /// Rows of this launch.
    pub rows: u32,
    /// log2 of the lanes that share a row, where several rows share a warp.
    pub row_lanes_log2: u32,
    /// How many of `dimensions` count.
    pub rank: u32,
    /// Stretches of a row that a block keeps in shared memory, where a kernel does.
    pub slots: u32,
    /// Slots beyond these, into which stretches of a row are copied while the row before it is at
    /// work, where the same threads take rows in turn.
    pub slots_ahead: u32,
    /// Rows of a group, which the same threads take in turn, where a kernel does: neighbours along the
    /// first dimension, a divisor of its size. They share all masks.
    pub turns: u32,
    /// Such groups; the rows behind them are taken one by one, so that all multiprocessors come to an
    /// end together.
    pub groups: u32,
    /// The dimensions that rows are counted in, that of neighbouring rows first.
    pub dimensions: [RowDimension; MAX_ROW_DIMENSIONS],
}

impl SoftmaxForward {
    /// The first row of those that are numbered `group` of what is taken in turn, and how many they are.
    #[inline(always)]
    pub fn rows_of_group(&self, group: u32) -> (u32, u32) {
        if group < self.groups {
            (group * self.turns, self.turns)
        } else {
            (self.groups * self.turns + (group - self.groups), 1)
        }
    }
}

/// A backward problem, passed to the kernel by value.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SoftmaxBackward {
    /// The rows, as in the forward: x is what was saved, probabilities or the forward's input, y is
    /// dX, and there is no lse.
    pub rows: SoftmaxForward,
    /// dP, of the same type; the last dimension's stride is 1.
    pub gradient: *const c_void,
    /// Its strides along the rows' dimensions, in elements.
    pub gradient_strides: [i64; MAX_ROW_DIMENSIONS],
}

/// The bits of [`SoftmaxForward::flags`].
pub mod flags {
    /// A nonzero byte means visible, not masked.
    pub const KEEP: u32 = 1;
    /// The byte mask has one byte for a whole row.
    pub const BYTES_BROADCAST: u32 = 2;
    /// The additive mask is f32, whatever the element type.
    pub const ADDITIVE_F32: u32 = 4;
    /// The additive mask has one element for a whole row.
    pub const ADDITIVE_BROADCAST: u32 = 8;
    /// The diagonal starts in the top left corner, instead of ending in the bottom right one.
    pub const TOP_LEFT: u32 = 16;
}

/// Where a row's data are, in elements from each tensor's start.
#[derive(Clone, Copy)]
pub struct RowOffsets {
    /// The row's index in the query dimension.
    pub query: u32,
    /// In the input.
    pub x: i64,
    /// In the byte mask, without the bank.
    pub bytes: i64,
    /// In the additive mask, without the bank.
    pub additive: i64,
    /// In the row lengths.
    pub lengths: i64,
    /// In the bank's index.
    pub bank_index: i64,
}

impl RowOffsets {
    /// Of the row numbered `row`.
    #[inline(always)]
    #[expect(unused_assignments, reason = "the last step of the unrolled loop leaves no rest")]
    pub fn of(problem: &SoftmaxForward, row: u32) -> Self {
        let mut rest = row;
        let mut offsets =
            RowOffsets { query: 0, x: 0, bytes: 0, additive: 0, lengths: 0, bank_index: 0 };
        unroll!(i in MAX_ROW_DIMENSIONS => {
            if (i as u32) < problem.rank {
                let dimension = &problem.dimensions[i];
                let (quotient, index) = dimension.size.divide(rest);
                rest = quotient;
                if i == 0 {
                    offsets.query = index;
                }
                let index = index as i64;
                offsets.x += index * dimension.x;
                offsets.bytes += index * dimension.bytes;
                offsets.additive += index * dimension.additive;
                offsets.lengths += index * dimension.lengths;
                offsets.bank_index += index * dimension.bank_index;
            }
        });
        offsets
    }
}

/// Where a row's output begins, in elements from the output's start. Apart from [`RowOffsets`],
/// because it is found late: until the sum is known, its registers have better uses.
#[inline(always)]
pub fn output_offset(problem: &SoftmaxForward, row: u32) -> i64 {
    row_offset(problem, hint::opaque(row), |i| problem.dimensions[i].y)
}

/// Where a row's gradient begins, in elements from the gradient's start.
#[inline(always)]
pub fn gradient_offset(problem: &SoftmaxBackward, row: u32) -> i64 {
    row_offset(&problem.rows, hint::opaque(row), |i| problem.gradient_strides[i])
}

/// Where a row begins in a tensor of these strides along the rows' dimensions.
#[inline(always)]
#[expect(unused_assignments, reason = "the last step of the unrolled loop leaves no rest")]
pub fn row_offset(problem: &SoftmaxForward, row: u32, stride: impl Fn(usize) -> i64) -> i64 {
    let (mut rest, mut offset) = (row, 0);
    unroll!(i in MAX_ROW_DIMENSIONS => {
        if (i as u32) < problem.rank {
            let (quotient, index) = problem.dimensions[i].size.divide(rest);
            rest = quotient;
            offset += index as i64 * stride(i);
        }
    });
    offset
}
