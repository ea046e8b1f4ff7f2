//! The part of a row that one thread holds: loads, scores, stores.
//!
//! A row is cut into vectors of 16 bytes, which the row's threads take in turn, so that a warp
//! reads contiguous memory. Rows that begin off the 16-byte grid are cut along that grid all the
//! same; the elements before the first whole vector and after the last (the *edges*) are taken one
//! by one, by the row's first threads.

use super::{
    mask::{self, MaskKind, RowMask},
    problem::{RowOffsets, SoftmaxForward},
    scale::Scale,
};
use crate::{
    numbers::{Accumulator, Element},
    reduction::Statistics,
};
use cuda_std::{global, hint};

/// A row, or a stretch of it that one pass over the registers covers. Columns count from the
/// stretch's first.
#[derive(Clone, Copy)]
pub struct Stretch<E> {
    x: *const E,
    bytes: *const u8,
    additive: *const u8,
    /// Columns of the stretch.
    columns: i32,
    /// The first column that may be visible, and the one after the last.
    visible: (i32, i32),
    /// Elements by which the 16-byte grid of x begins before column 0.
    lead: i32,
    /// The calling thread's number among those of the row, and how many these are.
    thread: u32,
    threads: u32,
}

/// What a thread holds of a stretch while it stays in registers: inputs, with -inf in place of
/// what is hidden (+inf where the scale is negative).
#[derive(Clone, Copy)]
pub struct Held<E: Element, const VECTORS: usize> {
    vectors: [E::Vector; VECTORS],
    edges: [E::Accumulator; 2],
}

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
        let x = problem.x.cast::<E>().offset((offsets.x + begin) as isize);
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
            lead: if ALIGNED { 0 } else { (x as usize % 16 / size_of::<E>()) as i32 },
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

    /// Elements by which the 16-byte grid begins before column 0.
    #[inline(always)]
    pub fn lead(&self) -> i32 {
        self.lead
    }

    /// The first column of the thread's `v`-th vector.
    #[inline(always)]
    fn column(&self, v: usize) -> i32 {
        ((v as u32 * self.threads + self.thread) * E::LANES as u32) as i32 - self.lead
    }

    /// Is the vector at `column` whole?
    #[inline(always)]
    fn is_whole<const ALIGNED: bool>(&self, column: i32) -> bool {
        if ALIGNED {
            column < self.columns
        } else {
            column >= 0 && column + E::LANES as i32 <= self.columns
        }
    }

    /// The columns of a thread's edge elements, -1 where it has none: one before the first whole
    /// vector, one after the last.
    #[inline(always)]
    fn edge_columns(&self) -> [i32; 2] {
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
    fn is_read<const ALIGNED: bool>(&self, column: i32) -> bool {
        let (start, end) = self.visible;
        self.is_whole::<ALIGNED>(column) && column < end && column + E::LANES as i32 > start
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
        let mut held = Held { vectors: [E::ZERO_VECTOR; VECTORS], edges: [scale.hidden; 2] };
        let vector_at = |column: i32| self.x.wrapping_offset(column as isize).cast::<E::Vector>();
        let (start, end) = self.visible;
        // Of most threads: then nothing needs to be asked of each vector.
        let is_all_visible =
            self.column(0) >= start && self.column(VECTORS - 1) + E::LANES as i32 <= end;
        // All loads first, so that they are in flight together.
        if is_all_visible {
            unroll!(v in VECTORS => {
                held.vectors[v] = global::load_streaming(vector_at(self.column(v)));
            });
        } else {
            unroll!(v in VECTORS => {
                let column = self.column(v);
                let read = self.is_read::<ALIGNED>(column);
                held.vectors[v] =
                    global::load_streaming_if(read, vector_at(column), E::ZERO_VECTOR);
            });
        }
        if scale.is_special {
            unroll!(v in VECTORS => {
                let lanes = scaled::<E>(E::unpack(held.vectors[v]), scale.given);
                held.vectors[v] = E::pack(lanes);
            });
        }
        if !is_all_visible {
            unroll!(v in VECTORS => {
                let column = self.column(v);
                let whole = self.is_whole::<ALIGNED>(column);
                let hidden = if whole { outside::<E>(column, start, end) } else { !0 };
                held.vectors[v] = E::replace(held.vectors[v], hidden, scale.hidden);
            });
        }
        if K::BYTES && !self.bytes.is_null() {
            self.hide_masked::<VECTORS, ALIGNED>(problem, scale, &mut held);
        }
        if !ALIGNED {
            self.load_edges::<K, VECTORS>(problem, scale, &mut held);
        }
        held
    }

    /// Hides what the byte mask hides of the vectors.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    unsafe fn hide_masked<const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        held: &mut Held<E, VECTORS>,
    ) {
        let first = (self.bytes as usize).wrapping_sub(self.lead as usize);
        let aligned = ALIGNED || first.is_multiple_of(E::LANES);
        let mut words = [0; VECTORS];
        unroll!(v in VECTORS => {
            let column = self.column(v);
            let bytes = self.bytes.wrapping_offset(column as isize);
            let read = self.is_read::<ALIGNED>(column);
            words[v] = mask::load_bytes::<E>(bytes, read, aligned);
        });
        unroll!(v in VECTORS => {
            let hidden = mask::hidden_lanes(problem, words[v]);
            held.vectors[v] = E::replace(held.vectors[v], hidden, scale.hidden);
        });
    }

    /// Loads this thread's edge elements, as far as they are visible.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    unsafe fn load_edges<K: MaskKind, const VECTORS: usize>(
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
                held.edges[i] = if scale.is_special { element * scale.given } else { element };
            }
        });
    }

    /// The scores of the `v`-th vector that is held: scaled, -inf where nothing is visible.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    unsafe fn scores<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        held: &Held<E, VECTORS>,
        v: usize,
        column: i32,
    ) -> E::Lanes {
        let mut lanes = E::unpack(held.vectors[v]);
        let (start, end) = self.visible;
        let read =
            self.is_whole::<ALIGNED>(column) && column < end && column + E::LANES as i32 > start;
        if !K::ADDITIVE || self.additive.is_null() || !read {
            return scaled::<E>(lanes, scale.factor);
        }
        let additive = mask::load_additive::<E, ALIGNED>(problem, self.additive, column);
        unroll!(lane in E::LANES => {
            lanes[lane] = with_additive(lanes[lane], scale, additive[lane]);
        });
        lanes
    }

    /// The score of the `i`-th edge element that is held.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    unsafe fn edge_score<K: MaskKind, const VECTORS: usize>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        held: &Held<E, VECTORS>,
        i: usize,
        column: i32,
    ) -> E::Accumulator {
        let (start, end) = self.visible;
        if K::ADDITIVE && !self.additive.is_null() && column >= start && column < end {
            let additive = mask::additive_element::<E>(problem, self.additive, column);
            return with_additive(held.edges[i], scale, additive);
        }
        held.edges[i] * scale.factor
    }

    /// Adds what this thread holds to the statistics of what it has seen (online softmax).
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn accumulate<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        held: &Held<E, VECTORS>,
        mut seen: Statistics<E::Accumulator>,
    ) -> Statistics<E::Accumulator> {
        unroll!(v in VECTORS => {
            let column = self.column(v);
            let scores =
                self.scores::<K, VECTORS, ALIGNED>(problem, scale, held, v, column);
            let mut max = seen.max;
            unroll!(lane in E::LANES => {
                max = max.max(scores[lane]);
            });
            seen = seen.raised_to(max, scale.coefficient);
            let reference = seen.reference();
            unroll!(lane in E::LANES => {
                seen.sum = seen.sum + scale.exponential(scores[lane], reference);
            });
        });
        if !ALIGNED {
            let edges = self.edge_columns();
            unroll!(i in 2 => {
                let score = self.edge_score::<K, VECTORS>(problem, scale, held, i, edges[i]);
                seen = seen.raised_to(seen.max.max(score), scale.coefficient);
                seen.sum = seen.sum + scale.exponential(score, seen.reference());
            });
        }
        seen
    }

    /// Stores the probabilities of what this thread holds: exponentials relative to `reference`,
    /// times `factor`, over all columns of the stretch, which in the output begin at `y`.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn store<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        mut self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        mut held: Held<E, VECTORS>,
        y: *mut E,
        reference: E::Accumulator,
        factor: E::Accumulator,
    ) {
        let first = (y as usize).wrapping_sub(self.lead as usize * size_of::<E>());
        let y_aligned = ALIGNED || first.is_multiple_of(16);
        // Addresses and scores are computed anew: held since the sum was, they would take more
        // registers than there are.
        self.thread = hint::opaque(self.thread);
        unroll!(v in VECTORS => {
            held.vectors[v] = hint::opaque(held.vectors[v]);
        });
        unroll!(v in VECTORS => {
            let column = self.column(v);
            if self.is_whole::<ALIGNED>(column) {
                let mut lanes =
                    self.scores::<K, VECTORS, ALIGNED>(problem, scale, &held, v, column);
                unroll!(lane in E::LANES => {
                    lanes[lane] = scale.exponential(lanes[lane], reference) * factor;
                });
                let to = y.offset(column as isize);
                if y_aligned {
                    global::store_streaming(to.cast::<E::Vector>(), E::pack(lanes));
                } else {
                    unroll!(lane in E::LANES => {
                        E::store(to.add(lane), E::narrow(lanes[lane]));
                    });
                }
            }
        });
        if !ALIGNED {
            let edges = self.edge_columns();
            unroll!(i in 2 => {
                let column = edges[i];
                if column >= 0 {
                    let score = self.edge_score::<K, VECTORS>(problem, scale, &held, i, column);
                    let probability = scale.exponential(score, reference) * factor;
                    E::store(y.offset(column as isize), E::narrow(probability));
                }
            });
        }
    }
}

#[inline(always)]
fn scaled<E: Element>(mut lanes: E::Lanes, factor: E::Accumulator) -> E::Lanes {
    unroll!(lane in E::LANES => {
        lanes[lane] = lanes[lane] * factor;
    });
    lanes
}

/// The score of an input with an additive mask, rounded once: product and mask may be far larger
/// than their sum. What is hidden stays hidden, whatever garbage its mask holds.
#[inline(always)]
fn with_additive<A: Accumulator>(input: A, scale: Scale<A>, additive: A) -> A {
    if input == scale.hidden { A::NEG_INFINITY } else { input.mul_add(scale.factor, additive) }
}

/// The lanes of the vector at `column` that lie outside of `start..end`, a bit each.
#[inline(always)]
fn outside<E: Element>(column: i32, start: i32, end: i32) -> u32 {
    let lanes = E::LANES as i32;
    let clamped = |n: i32| {
        if n < 0 {
            0
        } else if n > lanes {
            lanes as u32
        } else {
            n as u32
        }
    };
    let (before, until) = (clamped(start - column), clamped(end - column));
    ((1 << before) - 1) | !((1 << until) - 1)
}
