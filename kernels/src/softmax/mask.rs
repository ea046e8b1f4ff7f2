//! Which columns a row sees: the visible range, byte masks, additive masks, mask banks.

use super::problem::{RowOffsets, SoftmaxForward, flags};
use crate::numbers::{Accumulator, Element};
use cuda_std::global;

/// Which element masks an instance of a kernel knows.
pub trait MaskKind: Copy + 'static {
    /// Byte masks.
    const BYTES: bool;
    /// Additive masks.
    const ADDITIVE: bool;
}

/// No mask with a value for each element.
#[derive(Clone, Copy)]
pub struct Unmasked;

/// A byte mask.
#[derive(Clone, Copy)]
pub struct Bytes;

/// An additive mask, a byte mask, or both.
#[derive(Clone, Copy)]
pub struct Additive;

impl MaskKind for Unmasked {
    const BYTES: bool = false;
    const ADDITIVE: bool = false;
}
impl MaskKind for Bytes {
    const BYTES: bool = true;
    const ADDITIVE: bool = false;
}
impl MaskKind for Additive {
    const BYTES: bool = true;
    const ADDITIVE: bool = true;
}

/// The masks of one row.
#[derive(Clone, Copy)]
pub struct RowMask {
    /// The first column that may be visible.
    pub start: i64,
    /// The column after the last that may be visible.
    pub end: i64,
    /// The row's byte mask, or null.
    pub bytes: *const u8,
    /// The row's additive mask, or null.
    pub additive: *const u8,
    /// The row has no mask of its own in the bank: it becomes NaN.
    pub outside_bank: bool,
}

impl RowMask {
    /// Finds the masks of the row at `offsets`. Everything that is known without reading masks
    /// element by element narrows `start..end`, and what lies outside of it is not read.
    ///
    /// # Safety
    /// The problem's pointers must be valid for the row.
    #[inline(always)]
    pub unsafe fn of<K: MaskKind, E: Element>(
        problem: &SoftmaxForward,
        offsets: &RowOffsets,
    ) -> Self {
        let (start, end) = visible_range(problem, offsets);
        let mut mask = RowMask {
            start,
            end,
            bytes: core::ptr::null(),
            additive: core::ptr::null(),
            outside_bank: false,
        };
        if !K::BYTES {
            return mask;
        }
        let mut index = 0;
        if !problem.bank_index.is_null() {
            let word = global::load_cached(problem.bank_index.offset(offsets.bank_index as isize));
            if word as u32 >= problem.bank_size {
                mask.outside_bank = true;
                mask.end = mask.start;
                return mask;
            }
            index = word as i64;
        }
        if !problem.bytes.is_null() {
            let offset = offsets.bytes + index * problem.bytes_bank;
            mask.bytes = problem.bytes.offset(offset as isize);
            if problem.flags & flags::BYTES_BROADCAST != 0 {
                // One byte for the row: it sees nothing, or the byte mask is of no concern.
                if is_masked(problem, global::load_cached(mask.bytes) as u64) {
                    mask.end = mask.start;
                }
                mask.bytes = core::ptr::null();
            }
        }
        if K::ADDITIVE && !problem.additive.is_null() {
            let offset = offsets.additive + index * problem.additive_bank;
            let size = if problem.flags & flags::ADDITIVE_F32 != 0 { 4 } else { size_of::<E>() };
            mask.additive = problem.additive.cast::<u8>().offset(offset as isize * size as isize);
        }
        mask
    }
}

/// The columns within the row's length, the causal range and the window.
///
/// With `n` columns (the row's length), column j is visible to query i if
/// `-left <= j - (i + n - queries) <= right`; the diagonal of [`flags::TOP_LEFT`] is `j = i`.
///
/// # Safety
/// The problem's row lengths must be valid for the row.
#[inline(always)]
unsafe fn visible_range(problem: &SoftmaxForward, offsets: &RowOffsets) -> (i64, i64) {
    let mut end = problem.columns as i64;
    if !problem.lengths.is_null() {
        let length = global::load_cached(problem.lengths.offset(offsets.lengths as isize)) as i64;
        end = length.clamp_to(0, end);
    }
    let mut start = 0;
    if problem.window_left >= 0 || problem.window_right >= 0 {
        let top_left = problem.flags & flags::TOP_LEFT != 0;
        let shift = if top_left { 0 } else { end - problem.queries as i64 };
        let diagonal = problem.first_query as i64 + offsets.query as i64 + shift;
        if problem.window_left >= 0 {
            start = (diagonal - problem.window_left).clamp_to(0, end);
        }
        if problem.window_right >= 0 {
            end = (diagonal + problem.window_right + 1).clamp_to(start, end);
        }
    }
    (start, end)
}

/// `Ord::clamp` without its panic.
trait ClampTo {
    fn clamp_to(self, low: Self, high: Self) -> Self;
}

impl ClampTo for i64 {
    #[inline(always)]
    fn clamp_to(self, low: i64, high: i64) -> i64 {
        if self > high {
            high
        } else if self < low {
            low
        } else {
            self
        }
    }
}

/// Does this byte mask its column?
#[inline(always)]
pub fn is_masked(problem: &SoftmaxForward, byte: u64) -> bool {
    (byte & 0xff != 0) != (problem.flags & flags::KEEP != 0)
}

/// A vector's worth of mask bytes, lane 0 lowest; bytes outside of `columns` are 0.
///
/// # Safety
/// `bytes` must be valid for those columns of the row.
#[inline(always)]
pub unsafe fn load_bytes<E: Element, const ALIGNED: bool>(
    bytes: *const u8,
    column: i32,
    visible: (i32, i32),
) -> u64 {
    let (start, end) = visible;
    let from = bytes.offset(column as isize);
    let inside = column >= start && column + E::LANES as i32 <= end;
    if ALIGNED || inside && (from as usize).is_multiple_of(E::LANES) {
        if column < end && column + E::LANES as i32 > start {
            return E::mask_word(global::load_cached(from.cast::<E::MaskBytes>()));
        }
        return 0;
    }
    let mut word = 0;
    unroll!(lane in E::LANES => {
        let here = column + lane as i32;
        if here >= start && here < end {
            word |= (global::load_cached(from.add(lane)) as u64) << (8 * lane);
        }
    });
    word
}

/// A vector's worth of the additive mask; columns outside of `visible` are 0.
///
/// # Safety
/// `additive` must be valid for those columns of the row.
#[inline(always)]
pub unsafe fn load_additive<E: Element, const ALIGNED: bool>(
    problem: &SoftmaxForward,
    additive: *const u8,
    column: i32,
    visible: (i32, i32),
) -> E::Lanes {
    let wide = problem.flags & flags::ADDITIVE_F32 != 0;
    if problem.flags & flags::ADDITIVE_BROADCAST != 0 {
        return E::splat(additive_element::<E>(additive, 0, wide));
    }
    let (start, end) = visible;
    let inside = column >= start && column + E::LANES as i32 <= end;
    let touched = column < end && column + E::LANES as i32 > start;
    let mut lanes = E::splat(E::Accumulator::ZERO);
    if !wide {
        let from = additive.cast::<E>().offset(column as isize);
        if ALIGNED && touched || inside && (from as usize).is_multiple_of(16) {
            return E::unpack(global::load_cached(from.cast::<E::Vector>()));
        }
    } else if E::LANES.is_multiple_of(4) {
        let from = additive.cast::<f32>().offset(column as isize);
        if ALIGNED && touched || inside && (from as usize).is_multiple_of(16) {
            let low: [f32; 4] = global::load_cached(from.cast());
            unroll!(lane in 4 => {
                lanes[lane] = E::Accumulator::from_f32(low[lane]);
            });
            if E::LANES == 8 {
                let high: [f32; 4] = global::load_cached(from.add(4).cast());
                unroll!(lane in 4 => {
                    lanes[E::LANES - 4 + lane] = E::Accumulator::from_f32(high[lane]);
                });
            }
            return lanes;
        }
    }
    unroll!(lane in E::LANES => {
        let here = column + lane as i32;
        if here >= start && here < end {
            lanes[lane] = additive_element::<E>(additive, here, wide);
        }
    });
    lanes
}

/// # Safety
/// `additive` must be valid for the column.
#[inline(always)]
unsafe fn additive_element<E: Element>(
    additive: *const u8,
    column: i32,
    wide: bool,
) -> E::Accumulator {
    if wide {
        E::Accumulator::from_f32(global::load_cached(
            additive.cast::<f32>().offset(column as isize),
        ))
    } else {
        E::load(additive.cast::<E>().offset(column as isize)).widen()
    }
}
