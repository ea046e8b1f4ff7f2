//! The part of a row that one thread holds: loads, scores, stores.
//!
//! A row is cut into vectors of 16 bytes, which the row's threads take in turn, so that a warp
//! reads contiguous memory. Rows that begin off the 16-byte grid are cut along that grid all the
//! same: their first vector begins before the row, and what lies outside is not touched.

use super::{
    mask::{self, MaskKind, RowMask},
    problem::{RowOffsets, SoftmaxForward},
};
use crate::numbers::{Accumulator, Element};
use cuda_std::global;

/// How inputs become exponents: score = x * factor (+ additive mask), exponent = (score - max)
/// * coefficient.
#[derive(Clone, Copy)]
pub struct Scale<A> {
    /// What an input is multiplied by.
    pub factor: A,
    /// What a difference of scores is multiplied by.
    pub coefficient: A,
}

impl<A: Accumulator> Scale<A> {
    /// Reads the problem's scale.
    ///
    /// Without an additive mask the score is half the input with the scale's sign, and the scale's
    /// magnitude waits until the maximum has been subtracted: no product overflows before, and no
    /// difference of halves does. A scale of 0 makes every finite score 0.
    ///
    /// # Safety
    /// The problem's scale must be valid.
    #[inline(always)]
    pub unsafe fn of<K: MaskKind>(problem: &SoftmaxForward) -> Self {
        let mut scale = A::from_f64(problem.scale);
        if !problem.scale_pointer.is_null() {
            scale = global::load_cached(problem.scale_pointer.cast::<A>());
        }
        let unit = A::from_f64(A::LOG_BASE_E);
        if K::ADDITIVE {
            return Scale { factor: scale, coefficient: unit };
        }
        let half = A::from_f64(0.5);
        if scale > A::ZERO && scale <= A::MAX {
            Scale { factor: half, coefficient: at_most_max(scale * (unit + unit)) }
        } else if scale < A::ZERO && scale >= A::ZERO - A::MAX {
            let minus_scale = A::ZERO - scale;
            Scale { factor: A::ZERO - half, coefficient: at_most_max(minus_scale * (unit + unit)) }
        } else {
            // Zero, or what makes every score but those of 0 infinite, or NaN.
            Scale { factor: scale, coefficient: unit }
        }
    }
}

#[inline(always)]
fn at_most_max<A: Accumulator>(coefficient: A) -> A {
    if coefficient > A::MAX { A::MAX } else { coefficient }
}

/// A row, or a stretch of it that one pass over the registers covers. Columns count from the
/// stretch's first.
#[derive(Clone, Copy)]
pub struct Stretch<E> {
    x: *const E,
    y: *mut E,
    bytes: *const u8,
    additive: *const u8,
    /// Columns of the stretch.
    columns: i32,
    /// First and last but one of the columns that may be visible.
    visible: (i32, i32),
    /// Elements by which the first vector begins before column 0.
    lead: i32,
}

impl<E: Element> Stretch<E> {
    /// The columns `begin..begin + length` of the row at `offsets`.
    ///
    /// # Safety
    /// The problem's tensors must be valid for the row, and with `ALIGNED` so aligned that each
    /// vector of the row, of its masks and of its output is one aligned access.
    #[inline(always)]
    pub unsafe fn of<const ALIGNED: bool>(
        problem: &SoftmaxForward,
        offsets: &RowOffsets,
        mask: &RowMask,
        begin: i64,
        length: i64,
    ) -> Self {
        let x = problem.x.cast::<E>().offset((offsets.x + begin) as isize);
        let y = problem.y.cast::<E>().offset((offsets.y + begin) as isize);
        let lead = if ALIGNED { 0 } else { (x as usize % 16 / size_of::<E>()) as i32 };
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
        let wide = problem.flags & super::problem::flags::ADDITIVE_F32 != 0;
        let broadcast = problem.flags & super::problem::flags::ADDITIVE_BROADCAST != 0;
        let step = if broadcast {
            0
        } else if wide {
            4
        } else {
            size_of::<E>() as i64
        };
        Stretch {
            x,
            y,
            bytes: if mask.bytes.is_null() {
                mask.bytes
            } else {
                mask.bytes.offset(begin as isize)
            },
            additive: if mask.additive.is_null() {
                mask.additive
            } else {
                mask.additive.offset((begin * step) as isize)
            },
            columns: length as i32,
            visible: (relative(mask.start), relative(mask.end)),
            lead,
        }
    }

    /// Elements by which the first vector begins before column 0.
    #[inline(always)]
    pub fn lead(&self) -> i32 {
        self.lead
    }

    /// The first column of the `v`-th vector of the thread numbered `thread` of `threads`.
    #[inline(always)]
    fn column(&self, v: usize, thread: u32, threads: u32) -> i32 {
        ((v as u32 * threads + thread) * E::LANES as u32) as i32 - self.lead
    }

    /// Loads this thread's vectors, as far as they may be visible.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn load<const VECTORS: usize, const ALIGNED: bool>(
        &self,
        thread: u32,
        threads: u32,
    ) -> [E::Vector; VECTORS] {
        let mut vectors = [E::ZERO_VECTOR; VECTORS];
        unroll!(v in VECTORS => {
            vectors[v] = self.load_vector::<ALIGNED>(self.column(v, thread, threads));
        });
        vectors
    }

    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    unsafe fn load_vector<const ALIGNED: bool>(&self, column: i32) -> E::Vector {
        let (start, end) = self.visible;
        let last = column + E::LANES as i32;
        let from = self.x.offset(column as isize);
        if ALIGNED && column < end && last > start || column >= start && last <= end {
            return global::load_streaming(from.cast::<E::Vector>());
        }
        if ALIGNED || column >= end || last <= start {
            return E::ZERO_VECTOR;
        }
        let mut lanes = E::splat(E::Accumulator::ZERO);
        unroll!(lane in E::LANES => {
            let here = column + lane as i32;
            if here >= start && here < end {
                lanes[lane] = E::load(from.add(lane)).widen();
            }
        });
        E::pack(lanes)
    }

    /// The scores of this thread's vectors: scaled, masked, -inf where nothing is visible.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn scores<K: MaskKind, const VECTORS: usize, const ALIGNED: bool>(
        &self,
        problem: &SoftmaxForward,
        scale: Scale<E::Accumulator>,
        vectors: [E::Vector; VECTORS],
        thread: u32,
        threads: u32,
    ) -> [E::Lanes; VECTORS] {
        let mut scores = [E::splat(E::Accumulator::NEG_INFINITY); VECTORS];
        let mut bytes = [0u64; VECTORS];
        if K::BYTES && !self.bytes.is_null() {
            unroll!(v in VECTORS => {
                let column = self.column(v, thread, threads);
                bytes[v] = mask::load_bytes::<E, ALIGNED>(self.bytes, column, self.visible);
            });
        }
        unroll!(v in VECTORS => {
            let column = self.column(v, thread, threads);
            let (start, end) = self.visible;
            let mut lanes = E::unpack(vectors[v]);
            if K::ADDITIVE && !self.additive.is_null() {
                let additive = mask::load_additive::<E, ALIGNED>(
                    problem, self.additive, column, self.visible,
                );
                unroll!(lane in E::LANES => {
                    lanes[lane] = lanes[lane].mul_add(scale.factor, additive[lane]);
                });
            } else {
                unroll!(lane in E::LANES => {
                    lanes[lane] = lanes[lane] * scale.factor;
                });
            }
            if K::BYTES && !self.bytes.is_null() {
                unroll!(lane in E::LANES => {
                    if mask::is_masked(problem, bytes[v] >> (8 * lane)) {
                        lanes[lane] = E::Accumulator::NEG_INFINITY;
                    }
                });
            }
            if column < start || column + E::LANES as i32 > end {
                unroll!(lane in E::LANES => {
                    let here = column + lane as i32;
                    if here < start || here >= end {
                        lanes[lane] = E::Accumulator::NEG_INFINITY;
                    }
                });
            }
            scores[v] = lanes;
        });
        scores
    }

    /// Stores this thread's vectors, times `factor`, over all columns of the stretch.
    ///
    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    pub unsafe fn store<const VECTORS: usize, const ALIGNED: bool>(
        &self,
        values: [E::Lanes; VECTORS],
        factor: E::Accumulator,
        thread: u32,
        threads: u32,
    ) {
        unroll!(v in VECTORS => {
            let column = self.column(v, thread, threads);
            let mut lanes = values[v];
            unroll!(lane in E::LANES => {
                lanes[lane] = lanes[lane] * factor;
            });
            self.store_vector::<ALIGNED>(column, lanes);
        });
    }

    /// # Safety
    /// As for [`Stretch::of`].
    #[inline(always)]
    unsafe fn store_vector<const ALIGNED: bool>(&self, column: i32, lanes: E::Lanes) {
        let to = self.y.offset(column as isize);
        let last = column + E::LANES as i32;
        if ALIGNED {
            if column < self.columns {
                global::store_streaming(to.cast::<E::Vector>(), E::pack(lanes));
            }
        } else if column >= 0 && last <= self.columns && (to as usize).is_multiple_of(16) {
            global::store_streaming(to.cast::<E::Vector>(), E::pack(lanes));
        } else {
            unroll!(lane in E::LANES => {
                let here = column + lane as i32;
                if here >= 0 && here < self.columns {
                    E::store(to.add(lane), E::narrow(lanes[lane]));
                }
            });
        }
    }
}

/// The largest of a thread's scores; NaN is passed over.
#[inline(always)]
pub fn max_of<E: Element, const VECTORS: usize>(scores: &[E::Lanes; VECTORS]) -> E::Accumulator {
    let mut max = E::Accumulator::NEG_INFINITY;
    unroll!(v in VECTORS => {
        unroll!(lane in E::LANES => {
            max = max.max(scores[v][lane]);
        });
    });
    max
}

/// Turns scores into exponentials relative to `reference`, and gives their sum.
#[inline(always)]
pub fn exponentials<E: Element, const VECTORS: usize>(
    scores: &mut [E::Lanes; VECTORS],
    reference: E::Accumulator,
    coefficient: E::Accumulator,
) -> E::Accumulator {
    let mut sum = E::Accumulator::ZERO;
    unroll!(v in VECTORS => {
        unroll!(lane in E::LANES => {
            let exponential = ((scores[v][lane] - reference) * coefficient).exp_base();
            scores[v][lane] = exponential;
            sum = sum + exponential;
        });
    });
    sum
}
