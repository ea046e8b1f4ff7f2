//! The two products, and their left factors in registers.

use super::cut::{CONSUMER_ROWS, Cut, PANEL_ROW, WARP_ROWS};
use crate::{
    attention::{bias::BiasElement, portable::swizzle::Swizzle as Chunks},
    numbers::Element,
};
use cuda_std::{
    convert, hint, matrix,
    wgmma::{self, Accumulator, InFlight, KMajor, Layout, MnMajor, Operand, Shape, Swizzle},
};
use half::{bf16, f16};

/// An element type that `wgmma` multiplies.
pub trait Factor: BiasElement + Element<Accumulator = f32> + wgmma::Element {
    /// Two elements in a word, the first in the lower half.
    fn pair(first: f32, second: f32) -> u32;
}

impl Factor for f16 {
    #[inline(always)]
    fn pair(first: f32, second: f32) -> u32 {
        convert::pack_f16x2(first, second)
    }
}

impl Factor for bf16 {
    #[inline(always)]
    fn pair(first: f32, second: f32) -> u32 {
        convert::pack_bf16x2(first, second)
    }
}

/// Steps of 16 that a left factor in registers has at most.
pub const MOST_STEPS: usize = 16;

/// A left factor of 64 rows in registers: a thread's words of each step of 16 columns.
pub type Left = [[u32; 4]; MOST_STEPS];

/// How a panel's rows lie, by the chunks that `ldmatrix` and `stmatrix` take.
pub const CHUNKS: Chunks = Chunks { chunks: 8, of_keys: false };

/// Bytes of 8 rows of a panel.
const GROUP: u32 = 8 * PANEL_ROW;

/// Bytes of a step of 16 elements along a row.
const STEP: u32 = 32;

/// The words of a left factor, of what a thread has of its columns, two neighbours of a row in each.
#[inline(always)]
pub fn left<E: Factor, const REGISTERS: usize>(
    columns: &Accumulator<REGISTERS>,
    mut value: impl FnMut(usize, f32) -> f32,
) -> Left
where
    [f32; REGISTERS]: Shape,
{
    let mut words = [[0; 4]; MOST_STEPS];
    let mut even = 0.0;
    columns.for_each(|i, element| {
        let element = value(i / 2 % 2, element);
        if i % 2 == 0 {
            even = element;
        } else {
            words[i / 8][i / 2 % 4] = E::pair(even, element);
        }
    });
    words
}

impl<
    const WARPGROUPS: u32,
    const PANELS: usize,
    const SCORES: usize,
    const OUTPUT: usize,
    const KEEPS_Q: bool,
> Cut<WARPGROUPS, PANELS, SCORES, OUTPUT, KEEPS_Q>
where
    [f32; SCORES]: Shape,
    [f32; OUTPUT]: Shape,
{
    /// Loads all of q's words of warp `warp` of the consumers, from the tile at `q`.
    ///
    /// # Safety
    /// Convergent: the whole warp. The tile must be there.
    #[inline(always)]
    pub unsafe fn load_queries(q: u32, warp: u32, lane: u32) -> Left {
        let mut words = [[0; 4]; MOST_STEPS];
        let q = q + warp * WARP_ROWS * PANEL_ROW;
        unroll!(step in 4 * PANELS, up to 16 => {
            let panel = (step / 4) as u32 * Self::ROWS * PANEL_ROW;
            words[step] = matrix::load_4(q + panel + CHUNKS.queries(lane, (step % 4 * 2) as u32));
        });
        words
    }

    /// Begins the first product: scores, of q, in `kept` or in the tile at `q`, and the keys at `k`.
    ///
    /// # Safety
    /// Convergent: the whole warpgroup, consumer number `consumer`. The tiles must be there until
    /// the product has been waited for.
    #[inline(always)]
    pub unsafe fn multiply_keys<E: Factor>(
        kept: &Left,
        (q, consumer): (u32, u32),
        k: u32,
    ) -> InFlight<SCORES> {
        let layout = Layout { swizzle: Swizzle::Bytes128, leading_bytes: 0, stride_bytes: GROUP };
        let q = hint::opaque(q) + consumer * CONSUMER_ROWS * PANEL_ROW;
        let q = Operand::<E, KMajor>::new(q, layout);
        let k = Operand::<E, KMajor>::new(hint::opaque(k), layout);
        let mut scores =
            if KEEPS_Q { Accumulator::product(kept[0], k) } else { Accumulator::product(q, k) };
        unroll!(step in 4 * PANELS, up to 16 => {
            if step > 0 {
                let (panel, along) = ((step / 4) as u32 * PANEL_ROW, (step % 4) as u32 * STEP);
                let k = k.advance(panel * Self::KEYS + along);
                scores = if KEEPS_Q {
                    scores.add_product(kept[step], k)
                } else {
                    scores.add_product(q.advance(panel * Self::ROWS + along), k)
                };
            }
        });
        wgmma::commit();
        scores
    }

    /// Begins the second product: adds that of probabilities and the values at `v` to the output.
    ///
    /// # Safety
    /// As for the first.
    #[inline(always)]
    pub unsafe fn multiply_values<E: Factor>(
        output: Accumulator<OUTPUT>,
        probabilities: &Left,
        v: u32,
    ) -> InFlight<OUTPUT> {
        let leading_bytes = Self::KEYS * PANEL_ROW;
        let layout = Layout { swizzle: Swizzle::Bytes128, leading_bytes, stride_bytes: GROUP };
        let v = Operand::<E, MnMajor>::new(hint::opaque(v), layout);
        let mut output = output.add_product(probabilities[0], v);
        unroll!(step in SCORES / 8, up to 16 => {
            if step > 0 {
                let v = v.advance(2 * GROUP * step as u32);
                output = output.add_product(probabilities[step], v);
            }
        });
        wgmma::commit();
        output
    }
}
