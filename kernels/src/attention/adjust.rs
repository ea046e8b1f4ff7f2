//! What becomes of scores between the two products, but for visible ranges and the softmax: scale,
//! softcap, bias, ALiBi, boolean mask.

use super::{
    bias::{self, BiasElement},
    features::Features,
    lane_rows::{GROUP, LaneRows, MOST_FRAGMENTS},
    mask,
    per_score::{Ahead, Fragments, HalfBiases, LoadPerScore, Masks, PerScore, SingleBiases},
    row_elements::RowElements,
    row_facts::Alibi,
    softcap,
};
use crate::marks;
use cuda_std::{
    math,
    warp::{self, FULL_MASK},
};

/// The scores of a lane on their way to the softmax.
pub trait AdjustScores: LoadPerScore + LaneRows {
    /// Scales scores, and does to them all else but the visible range: softcap, bias, ALiBi, and the
    /// boolean mask if the lane [loads](LaneRows::LOADS) it. `ahead` is what has been loaded ahead,
    /// if it `has_room`, and free then.
    ///
    /// # Safety
    /// Convergent: the whole warp. The facts must be those of the tile, and the problem's bias, slopes
    /// and mask valid.
    #[inline(always)]
    unsafe fn adjust<E: BiasElement, F: Features, const M: usize>(
        &self,
        scores: &mut [impl RowElements; M],
        (has_room, ahead): (bool, &mut Ahead<M>),
        first_key: i32,
        prescale: f32,
    ) {
        let problem = self.problem();
        let all = (0, Self::FRAGMENTS / GROUP);
        let mut factor = prescale;
        if F::ALL && problem.softcap != 0.0 {
            softcap::cap(problem, scores, factor);
            factor = 1.0;
        }
        let has_bias = !problem.bias.is_null();
        if has_bias && bias::are_single::<E>(problem) {
            // What lies ahead is not in use, as the compiler learns here, nor are its registers.
            *ahead = [[[0; 2]; MOST_FRAGMENTS]; M];
            unroll!(m in M, up to 2 => {
                self.add_singles(m, &mut scores[m], first_key, factor);
            });
            factor = 1.0;
        } else if has_bias {
            if Self::LOADS && !has_room {
                self.load_all::<HalfBiases<E>, M>(ahead, first_key);
            }
            unroll!(m in M, up to 2 => {
                if Self::LOADS {
                    self.exchange_all::<HalfBiases<E>>(&mut ahead[m], all);
                } else {
                    ahead[m] = self.find_biases();
                }
                add_halves::<E>(&mut scores[m], &ahead[m], factor);
            });
            // It has been used.
            *ahead = [[[0; 2]; MOST_FRAGMENTS]; M];
            factor = 1.0;
        }
        if !problem.slopes.is_null() {
            self.subtract_distances(scores, first_key, factor);
            factor = 1.0;
        }
        if factor != 1.0 {
            scale(scores, factor);
        }
        if Self::LOADS && !problem.mask.is_null() {
            if !has_room || has_bias {
                self.load_all::<Masks, M>(ahead, first_key);
            }
            unroll!(m in M, up to 2 => {
                self.exchange_all::<Masks>(&mut ahead[m], all);
                hide_marked(self.problem().flags, &mut scores[m], &ahead[m]);
            });
        }
    }

    /// Gives each lane what its own scores have, of what has been loaded.
    ///
    /// # Safety
    /// Convergent: the whole warp.
    #[inline(always)]
    unsafe fn exchange_all<P: PerScore>(
        &self,
        words: &mut Fragments<P::Words>,
        groups: (usize, usize),
    ) {
        unroll!(h in 2 => {
            unroll!(group in Self::FRAGMENTS / GROUP, up to 4 => {
                if groups.0 <= group && group < groups.1 {
                    let n = GROUP * group;
                    let mut run = [0; 8];
                    unroll!(w in 2 * P::SIZE => {
                        run[w] = *P::word(words, n, h, w);
                    });
                    let run = self.exchange::<P>(run);
                    unroll!(w in 2 * P::SIZE => {
                        *P::word(words, n, h, w) = run[w];
                    });
                }
            });
        });
    }

    /// Scales scores of the 16 rows number `m`, and adds biases of f32, as many at once as there are
    /// registers for.
    ///
    /// # Safety
    /// As for [`AdjustScores::adjust`].
    #[inline(always)]
    unsafe fn add_singles(
        &self,
        m: usize,
        scores: &mut impl RowElements,
        first_key: i32,
        factor: f32,
    ) {
        let of_part = Self::SINGLES / GROUP;
        unroll!(part in Self::FRAGMENTS / Self::SINGLES, up to 4 => {
            let groups = (of_part * part, of_part * part + of_part);
            let mut biases = [[0; 4]; MOST_FRAGMENTS];
            self.load::<SingleBiases>(m, &mut biases, first_key, groups);
            self.exchange_all::<SingleBiases>(&mut biases, groups);
            scores.map(|h, i, score| {
                let n = i / 2;
                if groups.0 <= n / GROUP && n / GROUP < groups.1 {
                    math::fma(score, factor, f32::from_bits(biases[n][2 * h + i % 2]))
                } else {
                    score
                }
            });
        });
    }

    /// Scales scores, and subtracts ALiBi.
    ///
    /// # Safety
    /// As for [`AdjustScores::adjust`].
    #[inline(always)]
    unsafe fn subtract_distances<const M: usize>(
        &self,
        scores: &mut [impl RowElements; M],
        first_key: i32,
        factor: f32,
    ) {
        let (queries, keys) = self.counts();
        let shift = keys - queries - self.key(first_key);
        let last = Self::offset(2 * Self::FRAGMENTS - 1) as f32;
        let mut rows = [[(0.0, 0.0); 2]; M];
        let mut are_aside = true;
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let (facts, row) = self.facts(m, h);
                let Alibi { slope, query } = facts.alibi(row);
                // How far the lane's first key is before the diagonal.
                let ahead = (query + shift) as f32;
                are_aside &= ahead <= 0.0 || ahead >= last;
                rows[m][h] = (slope, ahead);
            });
        });
        // Where all keys are on one side of the diagonal, distances grow from key to key, or shrink.
        let are_aside = warp::vote_all(FULL_MASK, are_aside);
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let (slope, ahead) = rows[m][h];
                if are_aside {
                    let growth = if ahead > 0.0 { slope } else { -slope };
                    let first = -growth * ahead;
                    scores[m].map_row(h, |i, score| {
                        math::fma(score, factor, math::fma(growth, Self::offset(i) as f32, first))
                    });
                } else {
                    scores[m].map_row(h, |i, score| {
                        // Of a product, other than of a fused sum, the factor's sign is free.
                        let distance = ahead - Self::offset(i) as f32;
                        math::fma(score, factor, distance.abs() * -slope)
                    });
                }
            });
        });
    }
}

impl<Rows: LaneRows> AdjustScores for Rows {}

/// Scales scores and adds biases, two in a word.
#[inline(always)]
fn add_halves<E: BiasElement>(
    scores: &mut impl RowElements,
    biases: &Fragments<[u32; 2]>,
    factor: f32,
) {
    scores.map(|h, i, score| {
        let bias = E::widen_word(biases[i / 2][h]);
        math::fma(score, factor, bias[i % 2])
    });
}

/// Hides scores by their mask's bytes, those of two fragments in a word.
#[inline(always)]
fn hide_marked(flags: u32, scores: &mut impl RowElements, bytes: &Fragments<[u32; 2]>) {
    let mut hidden = [[0; 2]; MOST_FRAGMENTS / 2];
    unroll!(pair in MOST_FRAGMENTS / 2 => {
        unroll!(h in 2 => {
            hidden[pair][h] = mask::hidden(flags, bytes[2 * pair][h]);
        });
    });
    scores.map(|h, i, score| mask::hide(score, marks::words(hidden[i / 4][h])[i % 4]));
}

/// Scales scores.
#[inline(always)]
pub fn scale<const M: usize>(scores: &mut [impl RowElements; M], factor: f32) {
    unroll!(m in M, up to 2 => {
        scores[m].map(|_, _, score| score * factor);
    });
}
