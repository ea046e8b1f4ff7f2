//! What becomes of the scores between the two products.

use super::{
    facts::{Facts, Span},
    key_order,
    operand::Operand,
};
use crate::attention::{
    bias::{self, RowBias},
    mask::{RowMask, VisibleRange},
    online_softmax::{Exponents, Fragment},
    problem::AttentionForward,
    schedule::Place,
};
use core::f32::consts::{LN_2, LOG2_E};
use cuda_std::{global, math};

/// Which features an instance of a kernel knows.
pub trait Features: Copy + 'static {
    /// All of them: boolean masks, biases, ALiBi, softcap, dropout, rows off the 16-byte grid.
    /// Without, there still are visible ranges, packed sequences, lengths, shared K/V heads.
    const ALL: bool;
}

/// What any attention has.
#[derive(Clone, Copy)]
pub struct Plain;

/// All features.
#[derive(Clone, Copy)]
pub struct Full;

impl Features for Plain {
    const ALL: bool = false;
}
impl Features for Full {
    const ALL: bool = true;
}

/// What products of q and k are multiplied by, and how what comes of it becomes exponents.
///
/// Without softcap and bias the scale's magnitude waits until the maximum has been subtracted.
///
/// # Safety
/// The problem's scale must be valid.
#[inline(always)]
pub unsafe fn scaling<F: Features>(problem: &AttentionForward) -> (f32, Exponents) {
    let scale = if problem.scale_pointer.is_null() {
        problem.scale
    } else {
        global::load_cached(problem.scale_pointer)
    };
    let magnitude = if scale < 0.0 { -scale } else { scale };
    let is_special = !(magnitude > 0.0 && magnitude <= f32::MAX);
    let adds =
        F::ALL && (problem.softcap != 0.0 || !problem.bias.is_null() || !problem.slopes.is_null());
    if is_special || adds {
        return (scale, Exponents { unit: 1.0, coefficient: LOG2_E, difference_first: true });
    }
    let sign = if scale < 0.0 { -1.0 } else { 1.0 };
    let coefficient = if magnitude > f32::MAX / LOG2_E { f32::MAX } else { magnitude * LOG2_E };
    // Up to 1, no product with a score overflows.
    let difference_first = F::ALL || coefficient > 1.0;
    (sign, Exponents { unit: magnitude, coefficient, difference_first })
}

/// A warp's rows, and a lane's place in their fragments.
#[derive(Clone, Copy)]
pub struct WarpRows<'a> {
    /// The problem.
    pub problem: &'a AttentionForward,
    /// The rows and keys of its block.
    pub span: Span,
    /// The warp's first row.
    pub first: i32,
    /// The lane.
    pub lane: u32,
}

/// Which keys some rows see.
#[derive(Clone, Copy)]
pub struct Seen {
    /// Those that at least one of the rows may see: the first, and the one after the last.
    pub some: (i32, i32),
    /// Those that all of the rows see.
    pub all: (i32, i32),
}

impl Seen {
    /// Does any row see any of the `count` keys from `first` on?
    #[inline(always)]
    pub fn sees(&self, first: i32, count: i32) -> bool {
        self.some.0 < first + count && first < self.some.1
    }

    /// Do all rows see all of the `count` keys from `first` on?
    #[inline(always)]
    pub fn sees_all(&self, first: i32, count: i32) -> bool {
        self.all.0 <= first && first + count <= self.all.1
    }
}

impl WarpRows<'_> {
    /// The rows that count.
    #[inline(always)]
    fn count(&self) -> i32 {
        self.span.queries * self.problem.packed_heads.value() as i32
    }

    /// The query of a row.
    #[inline(always)]
    fn query(&self, row: i32) -> i32 {
        self.problem.packed_heads.divide(row as u32).0 as i32
    }

    #[inline(always)]
    fn range(&self) -> VisibleRange {
        VisibleRange::of(self.problem, self.span.queries, self.span.keys)
    }

    /// Which keys the `count` rows from row `first` on see, as far as they count.
    #[inline(always)]
    pub fn seen(&self, first: i32, count: i32) -> Seen {
        let (rows, range) = (self.count(), self.range());
        if first >= rows {
            return Seen { some: (0, 0), all: (0, 0) };
        }
        let last = if first + count < rows { first + count } else { rows } - 1;
        let (first, last) = (self.query(first), self.query(last));
        Seen {
            some: (range.first(first), range.end(last)),
            all: (range.first(last), range.end(first)),
        }
    }

    /// A row of the lane: half `h` of fragment `m`.
    #[inline(always)]
    pub fn row(&self, m: usize, h: usize) -> i32 {
        self.first + (16 * m + 8 * h) as i32 + (self.lane / 4) as i32
    }

    /// The lane's first key in a block that begins at `first`.
    #[inline(always)]
    pub fn key(&self, first: i32) -> i32 {
        first + key_order::first(self.lane) as i32
    }

    /// Hides the scores that are outside of the visible range.
    #[inline(always)]
    pub fn hide<const M: usize, const KEYS: usize>(
        &self,
        scores: &mut [[Fragment; KEYS]; M],
        first_key: i32,
    ) {
        let (key, range) = (self.key(first_key), self.range());
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let query = self.query(self.row(m, h));
                let range = (range.first(query) - key, range.end(query) - key);
                hide_row(&mut scores[m], h, range);
            });
        });
    }

    /// Softcap, bias, ALiBi and boolean mask of scores that have been scaled. `whole`: the visible
    /// range hides nothing of the block.
    ///
    /// # Safety
    /// The facts must be those of the block, and the problem's bias, slopes and mask valid.
    #[inline(always)]
    pub unsafe fn adjust<E: Operand, const M: usize, const KEYS: usize>(
        &self,
        facts: Facts,
        scores: &mut [[Fragment; KEYS]; M],
        first_key: i32,
        whole: bool,
    ) {
        let problem = self.problem;
        let (softcap, key) = (problem.softcap, self.key(first_key));
        if softcap != 0.0 {
            let inverse = 2.0 * LOG2_E / softcap;
            unroll!(m in M, up to 2 => {
                cap(&mut scores[m], softcap, inverse);
            });
        }
        if problem.bias.is_null() && problem.slopes.is_null() && problem.mask.is_null() {
            return;
        }
        let (Place { batch, group, .. }, index) = facts.place();
        let index = index.unwrap_or(0);
        let visible = self.range();
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let row = self.row(m, h);
                let (query, in_group) = problem.packed_heads.divide(row as u32);
                let head = group * problem.packed_heads.value() + in_group;
                let range = if row >= self.count() {
                    (0, 0)
                } else if whole {
                    (0, i32::MAX)
                } else {
                    (visible.first(query as i32) - key, visible.end(query as i32) - key)
                };
                let at = (batch, head, query);
                if !problem.bias.is_null() {
                    let bias = RowBias::of::<E>(problem, at, index);
                    bias.add_to::<E, KEYS>(&mut scores[m], h, key, range);
                }
                if !problem.slopes.is_null() {
                    let slope = bias::slope(problem, batch, head);
                    let ahead = query as i32 + self.span.keys - self.span.queries - key;
                    subtract_distances(&mut scores[m], h, slope, ahead as f32);
                }
                if !problem.mask.is_null() {
                    let mask = RowMask::of(problem, at, index);
                    mask.hide_in(&mut scores[m], h, key, range);
                }
            });
        });
    }
}

#[inline(always)]
fn hide_row<const KEYS: usize>(scores: &mut [Fragment; KEYS], h: usize, (first, end): (i32, i32)) {
    unroll!(n in KEYS, up to 16 => {
        unroll!(e in 2 => {
            let key = key_order::offset(n, e) as i32;
            if key < first || key >= end {
                scores[n][2 * h + e] = f32::NEG_INFINITY;
            }
        });
    });
}

/// `softcap * tanh(score / softcap)`, since the hardware's own tanh is too coarse. `inverse` is
/// 2 log2(e) / softcap.
#[inline(always)]
fn cap<const KEYS: usize>(scores: &mut [Fragment; KEYS], softcap: f32, inverse: f32) {
    unroll!(n in KEYS, up to 16 => {
        unroll!(i in 4 => {
            let exponent = scores[n][i] * inverse;
            let bent = if exponent.abs() < 0.75 {
                scores[n][i] * tanh_over(exponent * (LN_2 / 2.0))
            } else {
                // tanh x = 1 - 2 / (e^2x + 1)
                math::fma(-2.0 * softcap, math::rcp(math::exp2(exponent) + 1.0), softcap)
            };
            scores[n][i] = bent;
        });
    });
}

/// tanh(x) / x by its series, for |x| up to 0.26, where 1 - 2 / (e^2x + 1) would cancel.
#[inline(always)]
fn tanh_over(x: f32) -> f32 {
    let square = x * x;
    let mut sum = math::fma(square, 62.0 / 2835.0, -17.0 / 315.0);
    sum = math::fma(square, sum, 2.0 / 15.0);
    sum = math::fma(square, sum, -1.0 / 3.0);
    math::fma(square, sum, 1.0)
}

/// ALiBi, where the lane's first key is `ahead` before the diagonal.
#[inline(always)]
fn subtract_distances<const KEYS: usize>(
    scores: &mut [Fragment; KEYS],
    h: usize,
    slope: f32,
    ahead: f32,
) {
    unroll!(n in KEYS, up to 16 => {
        unroll!(e in 2 => {
            let distance = (ahead - key_order::offset(n, e) as f32).abs();
            scores[n][2 * h + e] = math::fma(-slope, distance, scores[n][2 * h + e]);
        });
    });
}
