//! What becomes of the scores between the two products.

use super::{
    facts::{Facts, Span},
    key_order,
    operand::Operand,
    per_score::{Ahead, HalfBiases, Masks, SingleBiases},
    row_facts::{Alibi, RowFacts},
    softcap,
};
use crate::{
    attention::{
        mask::{self, VisibleRange},
        online_softmax::{Exponents, Fragment},
        problem::AttentionForward,
    },
    marks,
};
use core::f32::consts::LOG2_E;
use cuda_std::{global, math};

/// Which features an instance of a kernel knows, beside visible ranges, packed sequences, lengths and
/// shared K/V heads.
pub trait Features: Copy + 'static {
    /// Boolean masks, biases and ALiBi.
    const MASKS: bool;
    /// These, and softcap, dropout, rows off the 16-byte grid.
    const ALL: bool;
    /// There are registers for masks or biases of the next block of keys.
    const AHEAD: bool = Self::MASKS && !Self::ALL;
}

/// What any attention has.
#[derive(Clone, Copy)]
pub struct Plain;

/// What scores have of their own, too.
#[derive(Clone, Copy)]
pub struct Masked;

/// All features.
#[derive(Clone, Copy)]
pub struct Full;

impl Features for Plain {
    const MASKS: bool = false;
    const ALL: bool = false;
}
impl Features for Masked {
    const MASKS: bool = true;
    const ALL: bool = false;
}
impl Features for Full {
    const MASKS: bool = true;
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
    let adds = F::MASKS
        && (problem.softcap != 0.0 || !problem.bias.is_null() || !problem.slopes.is_null());
    if is_special || adds {
        return (scale, Exponents { unit: 1.0, coefficient: LOG2_E, difference_first: true });
    }
    let sign = if scale < 0.0 { -1.0 } else { 1.0 };
    let coefficient = if magnitude > f32::MAX / LOG2_E { f32::MAX } else { magnitude * LOG2_E };
    // Up to 1, no product with a score overflows.
    let difference_first = F::MASKS || coefficient > 1.0;
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

    /// The number of such a row in the tile.
    #[inline(always)]
    pub fn row_in_tile(&self, m: usize, h: usize) -> u32 {
        (self.row(m, h) - self.span.first_row) as u32
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

    /// Scales scores, and does to them all else but the visible range: softcap, bias, ALiBi, boolean
    /// mask. `ahead` is what has been loaded ahead, and free then.
    ///
    /// # Safety
    /// The facts must be those of the block, and the problem's bias, slopes and mask valid.
    #[inline(always)]
    pub unsafe fn adjust<E: Operand, F: Features, const M: usize, const KEYS: usize>(
        &self,
        facts: Facts,
        scores: &mut [[Fragment; KEYS]; M],
        ahead: &mut Ahead<M, KEYS>,
        first_key: i32,
        prescale: f32,
    ) {
        let problem = self.problem;
        let mut factor = prescale;
        if F::ALL && problem.softcap != 0.0 {
            softcap::cap(problem, scores, factor);
            factor = 1.0;
        }
        let has_bias = !problem.bias.is_null();
        if has_bias {
            unroll!(m in M, up to 2 => {
                if self.biases_are_single::<E>() {
                    let biases = self.load::<SingleBiases, KEYS>(facts, m, first_key);
                    add_singles(&mut scores[m], &biases, factor);
                } else {
                    if !F::AHEAD {
                        ahead[m] = self.load::<HalfBiases<E>, KEYS>(facts, m, first_key);
                    }
                    add_halves::<E, KEYS>(&mut scores[m], &ahead[m], factor);
                }
            });
            // Registers of what lies ahead are free for other biases, as the compiler learns here.
            *ahead = [[[0; 2]; KEYS]; M];
            factor = 1.0;
        }
        if !problem.slopes.is_null() {
            self.subtract_distances(facts, scores, first_key, factor);
            factor = 1.0;
        }
        if factor != 1.0 {
            scale(scores, factor);
        }
        if !problem.mask.is_null() {
            unroll!(m in M, up to 2 => {
                if !F::AHEAD || has_bias {
                    ahead[m] = self.load::<Masks, KEYS>(facts, m, first_key);
                }
                hide_marked(problem, &mut scores[m], &ahead[m]);
            });
        }
    }

    /// Scales scores, and subtracts ALiBi.
    #[inline(always)]
    unsafe fn subtract_distances<const M: usize, const KEYS: usize>(
        &self,
        facts: Facts,
        scores: &mut [[Fragment; KEYS]; M],
        first_key: i32,
        factor: f32,
    ) {
        let shift = self.span.keys - self.span.queries - self.key(first_key);
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let Alibi { slope, query } = RowFacts::behind(facts).alibi(self.row_in_tile(m, h));
                // How far the lane's first key is before the diagonal.
                let ahead = (query + shift) as f32;
                unroll!(n in KEYS, up to 16 => {
                    unroll!(e in 2 => {
                        let distance = (ahead - key_order::offset(n, e) as f32).abs();
                        let score = scores[m][n][2 * h + e] * factor;
                        scores[m][n][2 * h + e] = math::fma(-slope, distance, score);
                    });
                });
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

/// Scales scores and adds biases, one in a word.
#[inline(always)]
fn add_singles<const KEYS: usize>(
    scores: &mut [Fragment; KEYS],
    biases: &[[u32; 4]; KEYS],
    factor: f32,
) {
    unroll!(n in KEYS, up to 16 => {
        unroll!(i in 4 => {
            scores[n][i] = math::fma(scores[n][i], factor, f32::from_bits(biases[n][i]));
        });
    });
}

/// Scales scores and adds biases, two in a word.
#[inline(always)]
fn add_halves<E: Operand, const KEYS: usize>(
    scores: &mut [Fragment; KEYS],
    biases: &[[u32; 2]; KEYS],
    factor: f32,
) {
    unroll!(n in KEYS, up to 16 => {
        unroll!(h in 2 => {
            let [first, second] = E::widen_word(biases[n][h]);
            scores[n][2 * h] = math::fma(scores[n][2 * h], factor, first);
            scores[n][2 * h + 1] = math::fma(scores[n][2 * h + 1], factor, second);
        });
    });
}

/// Hides scores by their mask's bytes, those of two fragments in a word.
#[inline(always)]
fn hide_marked<const KEYS: usize>(
    problem: &AttentionForward,
    scores: &mut [Fragment; KEYS],
    bytes: &[[u32; 2]; KEYS],
) {
    unroll!(pair in KEYS / 2 => {
        unroll!(h in 2 => {
            let hidden = marks::words(mask::hidden(problem, bytes[2 * pair][h]));
            unroll!(i in 4 => {
                let score = &mut scores[2 * pair + i / 2][2 * h + i % 2];
                let (bits, none) = (score.to_bits(), f32::NEG_INFINITY.to_bits());
                *score = f32::from_bits(bits & !hidden[i] | none & hidden[i]);
            });
        });
    });
}

/// Scales scores.
#[inline(always)]
pub fn scale<const M: usize, const KEYS: usize>(scores: &mut [[Fragment; KEYS]; M], factor: f32) {
    unroll!(m in M, up to 2 => {
        unroll!(n in KEYS, up to 16 => {
            unroll!(i in 4 => {
                scores[m][n][i] *= factor;
            });
        });
    });
}
