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
        features::Features,
        mask::{self, VisibleRange},
        online_softmax::Fragment,
        problem::AttentionForward,
        seen::{Seen, hide_row},
    },
    marks,
};
use cuda_std::math;

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

impl WarpRows<'_> {
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
        Seen::of(self.problem, (self.span.queries, self.span.keys), (first, count))
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
                hide_row(&mut scores[m], h, range, |i| key_order::offset(i / 2, i % 2) as i32);
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
        if has_bias && self.biases_are_single::<E>() {
            // What lies ahead is not in use, as the compiler learns here, nor are its registers.
            *ahead = [[[0; 2]; KEYS]; M];
            unroll!(m in M, up to 2 => {
                let mut biases = [[0; 4]; KEYS];
                self.load::<SingleBiases, KEYS>(facts, m, &mut biases, first_key);
                add_singles(&mut scores[m], &biases, factor);
            });
            factor = 1.0;
        } else if has_bias {
            if !F::AHEAD {
                self.load_all::<HalfBiases<E>, M, KEYS>(facts, ahead, first_key);
            }
            unroll!(m in M, up to 2 => {
                add_halves::<E, KEYS>(&mut scores[m], &ahead[m], factor);
            });
            // It has been used.
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
            if !F::AHEAD || has_bias {
                self.load_all::<Masks, M, KEYS>(facts, ahead, first_key);
            }
            unroll!(m in M, up to 2 => {
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
