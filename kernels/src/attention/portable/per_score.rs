//! What single scores have of their own, masks and biases, on its way to registers.
//!
//! Of the next block of keys it is asked for before the exponentials of this one are computed, in
//! whose shadow latency lies. Where features leave registers for it, masks or biases of 16 bits are
//! loaded then, and biases of the block after it fetched, which come from memory; all else is only
//! fetched, to the L2 cache.

use super::{
    facts::Facts,
    key_order::{self, RUN},
    operand::Operand,
    row_facts::RowFacts,
    scores::WarpRows,
};
use crate::attention::{features::Features, problem::flags};
use cuda_std::{global, hint};

/// A tensor with an element for each score, of a size that the instance is for.
///
/// A lane has the elements of a run of keys in words, whose places in four fragments are the
/// instance's.
pub trait PerScore {
    /// The words of a fragment.
    type Words: Copy;
    /// Bytes of an element.
    const SIZE: usize;
    /// The flags that say that its rows are aligned, and that a row has one element only.
    const FLAGS: (u32, u32);

    /// Where row `i` of the tile begins.
    ///
    /// # Safety
    /// The facts must be there.
    unsafe fn row(facts: RowFacts, i: u32) -> *const u8;

    /// Word `w` of a run in the fragments from `n` on, for row `h` of them.
    fn word<const KEYS: usize>(
        words: &mut [Self::Words; KEYS],
        n: usize,
        h: usize,
        w: usize,
    ) -> &mut u32;

    /// The words of a run, as many as it has.
    ///
    /// # Safety
    /// The run must be valid, and aligned.
    unsafe fn load_run(from: *const u8) -> [u32; 8];

    /// An element, widened with zeros, where there is one.
    ///
    /// # Safety
    /// It must be valid, where there is one.
    unsafe fn load_element_if(exists: bool, from: *const u8) -> u32;
}

/// Masks: every second fragment has a word for each row, the bytes of this fragment and the next.
pub struct Masks;

/// Biases of type E, of 16 bits: a word for each row.
pub struct HalfBiases<E>(E);

/// Biases of f32: a word for each score.
pub struct SingleBiases;

/// What can be loaded ahead: words for half as many scores.
pub type Ahead<const M: usize, const KEYS: usize> = [[[u32; 2]; KEYS]; M];

impl PerScore for Masks {
    type Words = [u32; 2];
    const SIZE: usize = 1;
    const FLAGS: (u32, u32) = (flags::MASK_ALIGNED, flags::MASK_BROADCAST);

    #[inline(always)]
    unsafe fn row(facts: RowFacts, i: u32) -> *const u8 {
        facts.mask(i)
    }
    #[inline(always)]
    fn word<const KEYS: usize>(
        words: &mut [[u32; 2]; KEYS],
        n: usize,
        h: usize,
        w: usize,
    ) -> &mut u32 {
        &mut words[n + 2 * w][h]
    }
    #[inline(always)]
    unsafe fn load_run(from: *const u8) -> [u32; 8] {
        let [a, b] = global::load_cached(from.cast::<[u32; 2]>());
        [a, b, 0, 0, 0, 0, 0, 0]
    }
    #[inline(always)]
    unsafe fn load_element_if(exists: bool, from: *const u8) -> u32 {
        global::load_cached_if(exists, from, 0) as u32
    }
}

impl<E: Operand> PerScore for HalfBiases<E> {
    type Words = [u32; 2];
    const SIZE: usize = 2;
    const FLAGS: (u32, u32) = (flags::BIAS_ALIGNED, flags::BIAS_BROADCAST);

    #[inline(always)]
    unsafe fn row(facts: RowFacts, i: u32) -> *const u8 {
        facts.bias(i)
    }
    #[inline(always)]
    fn word<const KEYS: usize>(
        words: &mut [[u32; 2]; KEYS],
        n: usize,
        h: usize,
        w: usize,
    ) -> &mut u32 {
        &mut words[n + w][h]
    }
    #[inline(always)]
    unsafe fn load_run(from: *const u8) -> [u32; 8] {
        let [a, b, c, d] = global::load_cached(from.cast::<[u32; 4]>());
        [a, b, c, d, 0, 0, 0, 0]
    }
    #[inline(always)]
    unsafe fn load_element_if(exists: bool, from: *const u8) -> u32 {
        global::load_cached_u16_if(exists, from.cast())
    }
}

impl PerScore for SingleBiases {
    type Words = [u32; 4];
    const SIZE: usize = 4;
    const FLAGS: (u32, u32) = (flags::BIAS_ALIGNED, flags::BIAS_BROADCAST);

    #[inline(always)]
    unsafe fn row(facts: RowFacts, i: u32) -> *const u8 {
        facts.bias(i)
    }
    #[inline(always)]
    fn word<const KEYS: usize>(
        words: &mut [[u32; 4]; KEYS],
        n: usize,
        h: usize,
        w: usize,
    ) -> &mut u32 {
        &mut words[n + w / 2][2 * h + w % 2]
    }
    #[inline(always)]
    unsafe fn load_run(from: *const u8) -> [u32; 8] {
        let from = from.cast::<[u32; 4]>();
        let ([a, b, c, d], [e, f, g, h]) =
            (global::load_cached(from), global::load_cached(from.add(1)));
        [a, b, c, d, e, f, g, h]
    }
    #[inline(always)]
    unsafe fn load_element_if(exists: bool, from: *const u8) -> u32 {
        global::load_cached_if(exists, from.cast::<u32>(), 0)
    }
}

impl WarpRows<'_> {
    /// Loads what a block of keys has of its own, as far as there are registers for it, or fetches
    /// it.
    ///
    /// # Safety
    /// The facts must be those of the block, and the problem's bias and mask valid.
    #[inline(always)]
    pub unsafe fn load_ahead<E: Operand, F: Features, const M: usize, const KEYS: usize>(
        &self,
        facts: Facts,
        ahead: &mut Ahead<M, KEYS>,
        first_key: i32,
    ) {
        let (has_mask, has_bias) = (!self.problem.mask.is_null(), !self.problem.bias.is_null());
        if has_bias && self.biases_are_single::<E>() {
            self.fetch::<SingleBiases, M, KEYS>(facts, first_key);
        } else if has_bias && F::AHEAD {
            self.load_all::<HalfBiases<E>, M, KEYS>(facts, ahead, first_key);
            let later = first_key - 8 * KEYS as i32;
            if later >= 0 {
                self.fetch::<HalfBiases<E>, M, KEYS>(facts, later);
            }
        } else if has_bias {
            self.fetch::<HalfBiases<E>, M, KEYS>(facts, first_key);
        }
        if has_mask && F::AHEAD && !has_bias {
            self.load_all::<Masks, M, KEYS>(facts, ahead, first_key);
        } else if has_mask {
            self.fetch::<Masks, M, KEYS>(facts, first_key);
        }
    }

    /// Are biases f32, in a kernel for elements of type E?
    #[inline(always)]
    pub fn biases_are_single<E>(&self) -> bool {
        size_of::<E>() == 4 || self.problem.flags & flags::BIAS_F32 != 0
    }

    /// Loads what a block of keys has of such a tensor.
    ///
    /// # Safety
    /// The facts must be those of the block, and the problem's tensor valid.
    #[inline(always)]
    pub unsafe fn load_all<P: PerScore<Words = [u32; 2]>, const M: usize, const KEYS: usize>(
        &self,
        facts: Facts,
        words: &mut Ahead<M, KEYS>,
        first_key: i32,
    ) {
        unroll!(m in M, up to 2 => {
            self.load::<P, KEYS>(facts, m, &mut words[m], first_key);
        });
    }

    /// Loads what a block of keys has of such a tensor, for the rows of fragment `m`: for those of
    /// several, elements at once would take too many registers.
    ///
    /// # Safety
    /// The facts must be those of the block, and the problem's tensor valid.
    #[inline(always)]
    pub unsafe fn load<P: PerScore, const KEYS: usize>(
        &self,
        facts: Facts,
        m: usize,
        words: &mut [P::Words; KEYS],
        first_key: i32,
    ) {
        let (keys, end) = (self.span.keys, first_key + 8 * KEYS as i32);
        let [aligned, one] = self.flags::<P>();
        let mut rows = [core::ptr::null(); 2];
        unroll!(h in 2 => {
            rows[h] = self.row_of::<P>(facts, m, h);
        });
        if one {
            self.load_one::<P, KEYS>(rows, words);
        } else if aligned && (end <= keys || keys % RUN == 0) {
            self.load_runs::<P, KEYS>(rows, words, first_key);
        } else {
            self.load_elements::<P, KEYS>(rows, words, first_key);
        }
    }

    /// Loads runs at once. They are aligned, and all of their keys exist, or none.
    #[inline(always)]
    unsafe fn load_runs<P: PerScore, const KEYS: usize>(
        &self,
        rows: [*const u8; 2],
        words: &mut [P::Words; KEYS],
        first_key: i32,
    ) {
        let last = self.span.keys - RUN;
        unroll!(h in 2 => {
            unroll!(group in KEYS / key_order::FRAGMENTS, up to 4 => {
                let n = key_order::FRAGMENTS * group;
                let run = P::load_run(self.place::<P>(rows[h], first_key, n, last));
                unroll!(w in 2 * P::SIZE => {
                    *P::word(words, n, h, w) = run[w];
                });
            });
        });
    }

    /// Loads elements one by one, those of each word in turn: all at once would take too many
    /// registers.
    #[inline(always)]
    unsafe fn load_elements<P: PerScore, const KEYS: usize>(
        &self,
        rows: [*const u8; 2],
        words: &mut [P::Words; KEYS],
        first_key: i32,
    ) {
        let per_word = 4 / P::SIZE;
        let key = self.key(first_key);
        let mut runs = rows.map(|row| row.wrapping_offset(key as isize * P::SIZE as isize));
        let count = if per_word == 1 { 1 } else { hint::opaque(per_word as u32) };
        let mut element = 0;
        while element < count {
            let (shift, keys) =
                (8 * P::SIZE as u32 * element, self.span.keys - key - element as i32);
            unroll!(h in 2 => {
                unroll!(group in KEYS / key_order::FRAGMENTS, up to 4 => {
                    unroll!(w in 2 * P::SIZE => {
                        let n = key_order::FRAGMENTS * group;
                        let i = key_order::offset(n, 0) as usize + per_word * w;
                        let from = runs[h].wrapping_add(i * P::SIZE);
                        let bits = P::load_element_if((i as i32) < keys, from) << shift;
                        let word = P::word(words, n, h, w);
                        *word = if element == 0 { bits } else { *word | bits };
                    });
                });
                runs[h] = runs[h].wrapping_add(P::SIZE);
            });
            element += 1;
        }
    }

    /// Loads the one element of each row.
    #[inline(always)]
    unsafe fn load_one<P: PerScore, const KEYS: usize>(
        &self,
        rows: [*const u8; 2],
        words: &mut [P::Words; KEYS],
    ) {
        let repeated = match P::SIZE {
            1 => 0x0101_0101,
            2 => 0x0001_0001,
            _ => 1,
        };
        unroll!(h in 2 => {
            let word = P::load_element_if(true, rows[h]) * repeated;
            unroll!(group in KEYS / key_order::FRAGMENTS, up to 4 => {
                unroll!(w in 2 * P::SIZE => {
                    *P::word(words, key_order::FRAGMENTS * group, h, w) = word;
                });
            });
        });
    }

    /// Where the lane's run in the fragments from `n` on begins in a row, or where key `last` is, if
    /// it is before.
    #[inline(always)]
    fn place<P: PerScore>(&self, row: *const u8, first_key: i32, n: usize, last: i32) -> *const u8 {
        let key = self.key(first_key) + key_order::offset(n, 0) as i32;
        let key = if key < last { key } else { last };
        row.wrapping_offset(key as isize * P::SIZE as isize)
    }

    /// Brings what a block of keys has of such a tensor to the L2 cache.
    #[inline(always)]
    unsafe fn fetch<P: PerScore, const M: usize, const KEYS: usize>(
        &self,
        facts: Facts,
        first_key: i32,
    ) {
        let last = self.span.keys - 1;
        let [_, one] = self.flags::<P>();
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let row = self.row_of::<P>(facts, m, h);
                unroll!(group in KEYS / key_order::FRAGMENTS, up to 4 => {
                    let n = key_order::FRAGMENTS * group;
                    let from = self.place::<P>(row, first_key, n, last);
                    global::fetch(if one { row } else { from });
                });
            });
        });
    }

    #[inline(always)]
    fn flags<P: PerScore>(&self) -> [bool; 2] {
        [P::FLAGS.0, P::FLAGS.1].map(|flag| self.problem.flags & flag != 0)
    }

    /// Where a row of the lane begins in the tensor.
    #[inline(always)]
    unsafe fn row_of<P: PerScore>(&self, facts: Facts, m: usize, h: usize) -> *const u8 {
        P::row(RowFacts::behind(facts), self.row_in_tile(m, h))
    }
}
