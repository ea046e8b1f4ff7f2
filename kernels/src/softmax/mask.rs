//! Which columns a row sees: the visible range, byte masks, additive masks, mask banks.

use super::problem::{RowOffsets, SoftmaxForward, flags};
use crate::{
    marks,
    numbers::{Accumulator, Element},
};
use cuda_std::global;

/// Which masks an instance of a kernel knows.
pub trait MaskKind: Copy + 'static {
    /// Visible ranges: causal, window, lengths.
    const RANGE: bool;
    /// Much of a row is probably outside of its visible range: worth a branch for each vector.
    const SKIPS: bool;
    /// Byte masks.
    const BYTES: bool;
    /// Additive masks.
    const ADDITIVE: bool;
    /// Rows that share all masks are taken in turn by the same threads, which read masks once.
    const IN_TURNS: bool;
}

/// No mask.
#[derive(Clone, Copy)]
pub struct Unmasked;

/// A visible range, no mask with a value for each element.
#[derive(Clone, Copy)]
pub struct Ranged;

/// A byte mask; a visible range too.
#[derive(Clone, Copy)]
pub struct Bytes;

/// A byte mask that neighbouring rows share; a visible range too.
#[derive(Clone, Copy)]
pub struct SharedBytes;

/// An additive mask, a byte mask, or both; a visible range too.
#[derive(Clone, Copy)]
pub struct Additive;

impl MaskKind for Unmasked {
    const RANGE: bool = false;
    const SKIPS: bool = false;
    const BYTES: bool = false;
    const ADDITIVE: bool = false;
    const IN_TURNS: bool = false;
}
impl MaskKind for Ranged {
    const RANGE: bool = true;
    const SKIPS: bool = true;
    const BYTES: bool = false;
    const ADDITIVE: bool = false;
    const IN_TURNS: bool = false;
}
impl MaskKind for Bytes {
    const RANGE: bool = true;
    const SKIPS: bool = false;
    const BYTES: bool = true;
    const ADDITIVE: bool = false;
    const IN_TURNS: bool = false;
}
impl MaskKind for SharedBytes {
    const RANGE: bool = true;
    const SKIPS: bool = false;
    const BYTES: bool = true;
    const ADDITIVE: bool = false;
    const IN_TURNS: bool = true;
}
impl MaskKind for Additive {
    const RANGE: bool = true;
    const SKIPS: bool = false;
    const BYTES: bool = true;
    const ADDITIVE: bool = true;
    const IN_TURNS: bool = false;
}

/// The same masks, in a kernel that walks over the row in stretches, of which those that see nothing
/// are skipped as a whole.
#[derive(Clone, Copy)]
pub struct InStretches<K>(K);

impl<K: MaskKind> MaskKind for InStretches<K> {
    const RANGE: bool = K::RANGE;
    const SKIPS: bool = false;
    const BYTES: bool = K::BYTES;
    const ADDITIVE: bool = K::ADDITIVE;
    const IN_TURNS: bool = K::IN_TURNS;
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
        let (start, end) =
            if K::RANGE { visible_range(problem, offsets) } else { (0, problem.columns as i64) };
        // An empty range is empty from column 0 on: no vector touches it.
        let (start, end) = if start < end { (start, end) } else { (0, 0) };
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
                mask.hide_all();
                return mask;
            }
            index = word as i64;
        }
        if !problem.bytes.is_null() {
            let offset = offsets.bytes + index * problem.bytes_bank;
            mask.bytes = problem.bytes.offset(offset as isize);
            if problem.flags & flags::BYTES_BROADCAST != 0 {
                // One byte for the row: it sees nothing, or the byte mask is of no concern.
                if is_masked(problem, global::load_cached(mask.bytes)) {
                    mask.hide_all();
                }
                mask.bytes = core::ptr::null();
            }
        }
        if K::ADDITIVE && !problem.additive.is_null() {
            let offset = offsets.additive + index * problem.additive_bank;
            let size = if is_additive_f32::<E>(problem) { 4 } else { size_of::<E>() };
            mask.additive = problem.additive.cast::<u8>().offset(offset as isize * size as isize);
        }
        mask
    }
}

impl RowMask {
    /// Lets the row see nothing.
    #[inline(always)]
    pub fn hide_all(&mut self) {
        (self.start, self.end) = (0, 0);
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
pub(super) trait ClampTo: Copy + PartialOrd {
    /// `low` where smaller, `high` where larger.
    #[inline(always)]
    fn clamp_to(self, low: Self, high: Self) -> Self {
        if self > high {
            high
        } else if self < low {
            low
        } else {
            self
        }
    }
}

impl ClampTo for i32 {}
impl ClampTo for i64 {}

/// Does this byte mask its column?
#[inline(always)]
pub fn is_masked(problem: &SoftmaxForward, byte: u8) -> bool {
    (byte != 0) != (problem.flags & flags::KEEP != 0)
}

/// Whether the byte mask, if there is one, hides the column.
///
/// # Safety
/// `bytes` must be null or valid for the column.
#[inline(always)]
pub unsafe fn is_hidden(problem: &SoftmaxForward, bytes: *const u8, column: i32) -> bool {
    !bytes.is_null() && is_masked(problem, global::load_cached(bytes.offset(column as isize)))
}

/// A vector's worth of mask bytes, lane 0 lowest; 0 unless they are to be read.
///
/// # Safety
/// If they are to be read, `bytes` must be valid for the vector, and if `aligned` one aligned
/// access.
#[inline(always)]
pub unsafe fn load_bytes<E: Element>(bytes: *const u8, read: bool, aligned: bool) -> [u32; 2] {
    if aligned {
        return E::mask_words(global::load_cached_if(read, bytes.cast(), E::NO_BYTES));
    }
    let (mut word, mut lane) = (0, 0);
    while read && lane < E::LANES {
        word |= (global::load_cached(bytes.add(lane)) as u64) << (8 * lane);
        lane += 1;
    }
    [word as u32, (word >> 32) as u32]
}

/// Marks what a vector's worth of mask bytes hides.
#[inline(always)]
pub fn hidden_marks(problem: &SoftmaxForward, words: [u32; 2]) -> [u32; 2] {
    let inverted = if problem.flags & flags::KEEP != 0 { !0 } else { 0 };
    words.map(|word| marks::nonzero(word) ^ inverted)
}

/// Is the additive mask f32, not of the element type? Never beside f64.
#[inline(always)]
fn is_additive_f32<E: Element>(problem: &SoftmaxForward) -> bool {
    size_of::<E>() < 8 && problem.flags & flags::ADDITIVE_F32 != 0
}

/// Bytes from one element of the additive mask to the next.
#[inline(always)]
pub fn additive_step<E: Element>(problem: &SoftmaxForward) -> usize {
    if problem.flags & flags::ADDITIVE_BROADCAST != 0 {
        0
    } else if is_additive_f32::<E>(problem) {
        4
    } else {
        size_of::<E>()
    }
}

/// A vector's worth of the additive mask.
///
/// # Safety
/// `additive` must be valid for the vector's columns, and with `ALIGNED` 16-byte aligned there.
#[inline(always)]
pub unsafe fn load_additive<E: Element, const ALIGNED: bool>(
    problem: &SoftmaxForward,
    additive: *const u8,
    column: i32,
) -> E::Lanes {
    if problem.flags & flags::ADDITIVE_BROADCAST != 0 {
        return E::splat(additive_element::<E>(problem, additive, 0));
    }
    let wide = is_additive_f32::<E>(problem);
    let from = additive.offset(column as isize * additive_step::<E>(problem) as isize);
    let aligned = ALIGNED || (from as usize).is_multiple_of(16);
    if aligned && !wide {
        return E::unpack(global::load_cached(from.cast::<E::Vector>()));
    }
    let mut lanes = E::splat(E::Accumulator::ZERO);
    if aligned && E::LANES >= 4 {
        unroll!(quarter in E::LANES / 4 => {
            let four: [f32; 4] = global::load_cached(from.cast::<[f32; 4]>().add(quarter));
            unroll!(lane in 4 => {
                lanes[4 * quarter + lane] = E::Accumulator::from_f32(four[lane]);
            });
        });
        return lanes;
    }
    unroll!(lane in E::LANES => {
        lanes[lane] = additive_element::<E>(problem, additive, column + lane as i32);
    });
    lanes
}

/// The additive mask of one column.
///
/// # Safety
/// `additive` must be valid for the column.
#[inline(always)]
pub unsafe fn additive_element<E: Element>(
    problem: &SoftmaxForward,
    additive: *const u8,
    column: i32,
) -> E::Accumulator {
    let from = additive.offset(column as isize * additive_step::<E>(problem) as isize);
    if is_additive_f32::<E>(problem) {
        E::Accumulator::from_f32(global::load_cached(from.cast::<f32>()))
    } else {
        E::load(from.cast::<E>()).widen()
    }
}
