//! The part of a row that one thread holds: which columns, loads, what masks hide.
//!
//! A row is cut into vectors of 16 bytes, which the row's threads take in turn, so that a warp
//! reads contiguous memory. Rows that begin off the 16-byte grid are cut along that grid all the
//! same; the elements before the first whole vector and after the last (the *edges*) are taken one
//! by one, by the row's first threads.

use super::{
    mask::{self, ClampTo, MaskKind, RowMask},
    problem::{RowOffsets, SoftmaxForward},
    scale::Scale,
};
use crate::{
    marks,
    numbers::{Accumulator, Element},
};
use cuda_std::{global, hint};

/// A row, or a stretch of it that one pass over the registers covers. Columns count from the
/// stretch's first.
#[derive(Clone, Copy)]
pub struct Stretch<E> {
    x: *const E,
    /// The byte mask, or null.
    pub(super) bytes: *const u8,
    /// The additive mask, or null.
    pub(super) additive: *const u8,
    /// Columns of the stretch.
    columns: i32,
    /// The first column that may be visible, and the one after the last.
    pub(super) visible: (i32, i32),
    /// Elements by which the 16-byte grid of x begins before column 0.
    pub(super) lead: i32,
    /// The calling thread's number among those that share the stretch, and how many these are.
    pub(super) thread: u32,
    pub(super) threads: u32,
}

/// What a thread holds of a stretch while it stays in registers: inputs, with the scale's `hidden`
/// in place of what is hidden.
#[derive(Clone, Copy)]
pub struct Held<E: Element, const VECTORS: usize> {
    pub(super) vectors: [E::Vector; VECTORS],
    pub(super) edges: [E::Accumulator; 2],
}

impl<E: Element, const VECTORS: usize> Held<E, VECTORS> {
    /// What nobody looks at.
    pub(super) const NOTHING: Self =
        Held { vectors: [E::ZERO_VECTOR; VECTORS], edges: [E::Accumulator::ZERO; 2] };
}

/// Which of a stretch's vectors are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// All: the stretch is full.
    Full,
    /// Those that are whole.
    Whole,
    /// Of those the ones that [`Stretch::store_unseen`] has not stored.
    Seen,
}

/// The mask bytes of a thread's vectors.
pub type MaskBytes<const VECTORS: usize> = [[u32; 2]; VECTORS];

/// What mask bytes hide of a thread's vectors, as [`mask::hidden_marks`] marks it.
pub type HiddenMarks<const VECTORS: usize> = [[u32; 2]; VECTORS];

impl<E: Element> Stretch<E> {
    /// The columns `begin..begin + length` of the row at `offsets`, for the thread that has number
    /// `at.0` among the row's `at.1`.
    ///
    /// # Safety
    /// The problem's tensors must be valid for the row, and with `ALIGNED` so aligned that each
    /// vector of the row, of its masks and of its output is one aligned access.
    #[inline(always)]
    pub unsafe fn of<const ALIGNED: bool>(
        problem: &SoftmaxForward,
        offsets: &RowOffsets,
        mask: &RowMask,
        at: (u32, u32),
        begin: i64,
        length: i64,
    ) -> Self {
        let x = x_of_row::<E>(problem, offsets).offset(begin as isize);
        let relative = |column: i64| {
            let column = column - begin;
            if column < 0 {
                0
            } else if column > length {
                length as i32
            } else {
                column as i32
            }
        };
        let mut stretch = Stretch {
            x,
            bytes: mask.bytes,
            additive: mask.additive,
            columns: length as i32,
            visible: (relative(mask.start), relative(mask.end)),
            thread: at.0,
            threads: at.1,
            lead: if ALIGNED { 0 } else { lead::<E>(x) },
        };
        if !mask.bytes.is_null() {
            stretch.bytes = mask.bytes.offset(begin as isize);
        }
        if !mask.additive.is_null() {
            let size = mask::additive_step::<E>(problem);
            stretch.additive = mask.additive.offset(begin as isize * size as isize);
        }
        stretch
    }

    /// The first column of the thread's `v`-th vector.
    #[inline(always)]
    pub(super) fn column(&self, v: usize) -> i32 {
        ((v as u32 * self.threads + self.thread) * E::LANES as u32) as i32 - self.lead
    }

    /// Is the vector at `column` whole?
    #[inline(always)]
    pub(super) fn is_whole<const ALIGNED: bool>(&self, column: i32) -> bool {
        if ALIGNED {
            column < self.columns
        } else {
            column >= 0 && column + E::LANES as i32 <= self.columns
        }
    }

    /// The columns of a thread's edge elements, -1 where it has none: one before the first whole
    /// vector, one after the last.
    #[inline(always)]
    pub(super) fn edge_columns(&self) -> [i32; 2] {
        let (lanes, thread) = (E::LANES as i32, self.thread as i32);
        let mut head = if self.lead > 0 { lanes - self.lead } else { 0 };
        if head > self.columns {
            head = self.columns;
        }
        let mut tail = (self.lead + self.columns) / lanes * lanes - self.lead;
        if tail < head {
            tail = head;
        }
        [
            if thread < head { thread } else { -1 },
            if thread < self.columns - tail { tail + thread } else { -1 },
        ]
    }

    /// Is the vector at `column` whole, and part of it perhaps visible? Else it is not read.
    #[inline(always)]
    pub(super) fn is_read<const ALIGNED: bool>(&self, column: i32) -> bool {
        let (start, end) = self.visible;
        self.is_whole::<ALIGNED>(column) && column < end && column + E::LANES as i32 > start
    }

    /// The first columns of the threads' `v`-th vectors, and the one after their last: the same
    /// for all threads, so that a branch on it parts none.
    #[inline(always)]
    fn slab(&self, v: usize) -> (i32, i32) {
        let first = (v as u32 * self.threads * E::LANES as u32) as i32 - self.lead;
        (first, first + (self.threads * E::LANES as u32) as i32)
    }

    /// May any of the threads' `v`-th vectors be visible?
    #[inline(always)]
    pub(super) fn is_slab_visible(&self, v: usize) -> bool {
        let ((first, last), (start, end)) = (self.slab(v), self.visible);
        first < end && last > start
    }

    /// Are all of the threads' `v`-th vectors within the visible range?
    #[inline(always)]
    fn is_slab_all_visible(&self, v: usize) -> bool {
        let ((first, last), (start, end)) = (self.slab(v), self.visible);
        first >= start && last <= end
    }

    /// Are some of the threads' `v`-th vectors within the visible range, and some not?
    #[inline(always)]
    pub(super) fn is_slab_at_end(&self, v: usize) -> bool {
        self.is_slab_visible(v) && !self.is_slab_all_visible(v)
    }

    /// Are all of this thread's vectors within the visible range?
    #[inline(always)]
    pub(super) fn is_all_visible<const VECTORS: usize>(&self) -> bool {
        let (start, end) = self.visible;
        self.column(0) >= start && self.column(VECTORS - 1) + E::LANES as i32 <= end
    }

    /// The first column of the vectors that [`Stretch::is_read`] of all threads together, and how
    /// many columns they are: one range.
    #[inline(always)]
    pub(super) fn range_read(&self) -> (i32, i32) {
        let lanes = E::LANES as i32;
        // Columns on the grid, counted from it.
        let (start, end) = (self.visible.0 + self.lead, self.visible.1 + self.lead);
        let head = (self.lead + lanes - 1) / lanes * lanes;
        let tail = (self.lead + self.columns) / lanes * lanes;
        let (down, up) = (start / lanes * lanes, (end + lanes - 1) / lanes * lanes);
        let first = if down > head { down } else { head };
        let last = if up < tail { up } else { tail };
        (first - self.lead, if last > first && end > start { last - first } else { 0 })
    }

    /// x's column.
    #[inline(always)]
    pub(super) fn x_at(&self, column: i32) -> *const E {
        self.x.wrapping_offset(column as isize)
    }

    /// Does a tensor whose column 0 is at `at` lie on the 16-byte grid where x does?
    #[inline(always)]
    pub(super) fn is_on_grid(&self, at: *const E) -> bool {
        (at as usize).wrapping_sub(self.lead as usize * size_of::<E>()).is_multiple_of(16)
    }

    /// Loads what this thread holds, as far as it may be visible, and hides what is masked.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn load<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
    ) -> Held<E, VECTORS> {
        self.load_and_mark::<K, VECTORS, ALIGNED>(problem, scale).0
    }

    /// The same, and what masks hide, for [`Stretch::load_marked`].
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn load_and_mark<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
    ) -> (Held<E, VECTORS>, HiddenMarks<VECTORS>) {
        let vectors = self.load_vectors::<VECTORS, ALIGNED>(self.x, hidden_vector::<E>(scale));
        let mut held = Held { vectors, edges: [scale.hidden; 2] };
        let bytes = self.load_bytes::<K, VECTORS, ALIGNED>(false);
        let marks = self.marks::<K, VECTORS>(problem, bytes);
        self.hide::<K, VECTORS, ALIGNED>(problem, scale, &mut held, marks, false);
        (held, marks)
    }

    /// [`Stretch::load`] of a row that shares all masks with one before it, whose `marks` are given.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn load_marked<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        marks: HiddenMarks<VECTORS>,
    ) -> Held<E, VECTORS> {
        let vectors = self.load_vectors::<VECTORS, ALIGNED>(self.x, hidden_vector::<E>(scale));
        let mut held = Held { vectors, edges: [scale.hidden; 2] };
        self.hide::<K, VECTORS, ALIGNED>(problem, scale, &mut held, marks, false);
        held
    }

    /// The same columns of a row that begins `elements` further on, on the same 16-byte grid.
    #[inline(always)]
    pub fn moved_by(self, elements: i64) -> Self {
        // Columns are found anew: held from row to row, they would take more registers than there are.
        let thread = hint::opaque(self.thread);
        Stretch { x: self.x.wrapping_offset(elements as isize), thread, ..self }
    }

    /// Loads the vectors that may be visible of a tensor whose column 0 is at `from`, on the same
    /// grid as x. In place of the others stands `otherwise`.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub(super) unsafe fn load_vectors<const VECTORS: usize, const ALIGNED: bool>(
        &self,
        from: *const E,
        otherwise: E::Vector,
    ) -> [E::Vector; VECTORS] {
        let mut vectors = [otherwise; VECTORS];
        let vector_at = |column: i32| from.wrapping_offset(column as isize).cast::<E::Vector>();
        // All loads first, so that they are in flight together. Of most threads all vectors are
        // visible: then nothing needs to be asked of each.
        if self.is_all_visible::<VECTORS>() {
            unroll!(v in VECTORS => {
                vectors[v] = global::load(vector_at(self.column(v)));
            });
        } else {
            unroll!(v in VECTORS => {
                let column = self.column(v);
                let read = self.is_read::<ALIGNED>(column);
                vectors[v] = global::load_if(read, vector_at(column), otherwise);
            });
        }
        vectors
    }

    /// Multiplies the vectors that were loaded by the prescale, puts `scale.hidden` in place of
    /// what is hidden of them, by `marks` too, and loads the edges. A `full` stretch has neither edges
    /// nor columns outside of the visible range.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub(super) unsafe fn hide<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        held: &mut Held<E, VECTORS>,
        marks: HiddenMarks<VECTORS>,
        full: bool,
    ) {
        if scale.prescales {
            unroll!(v in VECTORS => {
                // What was not read is hidden already.
                if full || self.is_read::<ALIGNED>(self.column(v)) {
                    let lanes = scaled::<E>(E::unpack(held.vectors[v]), scale.prescale);
                    held.vectors[v] = E::pack(lanes);
                }
            });
        }
        let (start, end) = self.visible;
        // Without ranges what was read is visible as a whole.
        if K::RANGE && !full && !self.is_all_visible::<VECTORS>() {
            unroll!(v in VECTORS => {
                if !K::SKIPS || self.is_slab_at_end(v) {
                    let hidden = outside::<E>(self.column(v), start, end);
                    held.vectors[v] =
                        E::replace(held.vectors[v], marks::of_bits(hidden), scale.hidden);
                }
            });
        }
        if K::BYTES && !self.bytes.is_null() {
            unroll!(v in VECTORS => {
                held.vectors[v] = E::replace(held.vectors[v], marks[v], scale.hidden);
            });
        }
        if !ALIGNED && !full {
            self.load_edges::<K, VECTORS>(problem, scale, held);
        }
    }

    /// The byte mask of the vectors that may be visible, all of them if the stretch is `full`.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn load_bytes<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        full: bool,
    ) -> MaskBytes<VECTORS> {
        let mut words = [[0; 2]; VECTORS];
        if K::BYTES && !self.bytes.is_null() {
            let first = (self.bytes as usize).wrapping_sub(self.lead as usize);
            let aligned = ALIGNED || first.is_multiple_of(E::LANES);
            unroll!(v in VECTORS => {
                let column = self.column(v);
                let bytes = self.bytes.wrapping_offset(column as isize);
                let read = full || self.is_read::<ALIGNED>(column);
                words[v] = mask::load_bytes::<E>(bytes, read, aligned);
            });
        }
        words
    }

    /// What `bytes` hide, if there is a byte mask.
    #[inline(always)]
    pub fn marks<K: MaskKind, const VECTORS: usize>(
        &self,
        problem: &SoftmaxForward,
        bytes: MaskBytes<VECTORS>,
    ) -> HiddenMarks<VECTORS> {
        let mut marks = [[0; 2]; VECTORS];
        if K::BYTES && !self.bytes.is_null() {
            unroll!(v in VECTORS => {
                marks[v] = mask::hidden_marks(problem, bytes[v]);
            });
        }
        marks
    }

    /// Loads this thread's edge elements, as far as they are visible.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub(super) unsafe fn load_edges<K: MaskKind, const VECTORS: usize>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        held: &mut Held<E, VECTORS>,
    ) {
        let (start, end) = self.visible;
        let columns = self.edge_columns();
        unroll!(i in 2 => {
            let column = columns[i];
            let in_range = column >= 0 && column >= start && column < end;
            if in_range && !(K::BYTES && mask::is_hidden(problem, self.bytes, column)) {
                let element = E::load(self.x.offset(column as isize)).widen();
                held.edges[i] = element * scale.prescale;
            }
        });
    }
}

/// Where x's row begins.
///
/// # Safety
/// The problem's x must be valid for the row.
#[inline(always)]
pub unsafe fn x_of_row<E>(problem: &SoftmaxForward, offsets: &RowOffsets) -> *const E {
    problem.x.cast::<E>().offset(offsets.x as isize)
}

/// Elements by which the 16-byte grid begins before `at`.
#[inline(always)]
pub fn lead<E>(at: *const E) -> i32 {
    (at as usize % 16 / size_of::<E>()) as i32
}

/// The lanes, each times `factor`.
#[inline(always)]
pub(super) fn scaled<E: Element>(mut lanes: E::Lanes, factor: E::Accumulator) -> E::Lanes {
    unroll!(lane in E::LANES => {
        lanes[lane] = lanes[lane] * factor;
    });
    lanes
}

/// A vector that is hidden as a whole.
#[inline(always)]
pub(super) fn hidden_vector<E: Element>(scale: Scale<E::Accumulator>) -> E::Vector {
    E::replace(E::ZERO_VECTOR, [!0; 2], scale.hidden)
}

/// The lanes of the vector at `column` that lie outside of `start..end`, a bit each.
#[inline(always)]
pub(super) fn outside<E: Element>(column: i32, start: i32, end: i32) -> u32 {
    let below = |limit: i32| (1 << (limit - column).clamp_to(0, E::LANES as i32)) - 1;
    below(start) | !below(end)
}
