//! What single scores have of their own, masks and biases, on its way to registers.
//!
//! It is asked for before it is needed, so that its latency lies in the shadow of other work: in the
//! portable kernel of exponentials, for the next block of keys; on Hopper markers do so, and consumers,
//! for biases of f32, while products are computed. Where there are registers for it, the portable
//! kernel loads masks or biases of 16 bits then, and fetches biases of the block after it, which come
//! from memory; all else it only fetches, to the L2 cache.

use super::{
    bias::{self, BiasElement},
    lane_rows::{GROUP, MOST_FRAGMENTS, RUN, Runs},
    problem::flags,
    row_facts::RowFacts,
};
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

    /// Where row `i` begins.
    ///
    /// # Safety
    /// The facts must be there.
    unsafe fn row(facts: RowFacts, i: u32) -> *const u8;

    /// Word `w` of a run in the fragments from `n` on, for row `h` of them.
    fn word(words: &mut Fragments<Self::Words>, n: usize, h: usize, w: usize) -> &mut u32;

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

/// Bytes that come to the cache together.
const FETCHED_BYTES: usize = 32;

/// The words of a lane's fragments in a block of keys, as many as there are.
pub type Fragments<Words> = [Words; MOST_FRAGMENTS];

/// Masks: every second fragment has a word for each row, the bytes of this fragment and the next.
pub struct Masks;

/// Biases of type E, of 16 bits: a word for each row.
pub struct HalfBiases<E>(E);

/// Biases of f32: a word for each score.
pub struct SingleBiases;

/// What can be loaded ahead: words for half as many scores.
pub type Ahead<const M: usize> = [Fragments<[u32; 2]>; M];

impl PerScore for Masks {
    type Words = [u32; 2];
    const SIZE: usize = 1;
    const FLAGS: (u32, u32) = (flags::MASK_ALIGNED, flags::MASK_BROADCAST);

    #[inline(always)]
    unsafe fn row(facts: RowFacts, i: u32) -> *const u8 {
        facts.mask(i)
    }
    #[inline(always)]
    fn word(words: &mut Fragments<[u32; 2]>, n: usize, h: usize, w: usize) -> &mut u32 {
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

impl<E: BiasElement> PerScore for HalfBiases<E> {
    type Words = [u32; 2];
    const SIZE: usize = 2;
    const FLAGS: (u32, u32) = (flags::BIAS_ALIGNED, flags::BIAS_BROADCAST);

    #[inline(always)]
    unsafe fn row(facts: RowFacts, i: u32) -> *const u8 {
        facts.bias(i)
    }
    #[inline(always)]
    fn word(words: &mut Fragments<[u32; 2]>, n: usize, h: usize, w: usize) -> &mut u32 {
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
    fn word(words: &mut Fragments<[u32; 4]>, n: usize, h: usize, w: usize) -> &mut u32 {
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

/// The loads of a lane.
pub trait LoadPerScore: Runs {
    /// Loads what a block of keys has of its own, as far as there are registers for it, or fetches it:
    /// if it `has_room`, there are some for half a word for each score.
    ///
    /// # Safety
    /// The facts must be those of the tile, and the problem's bias and mask valid.
    #[inline(always)]
    unsafe fn load_ahead<E: BiasElement, const M: usize>(
        &self,
        has_room: bool,
        ahead: &mut Ahead<M>,
        first_key: i32,
    ) {
        let problem = self.problem();
        let (has_mask, has_bias) = (!problem.mask.is_null(), !problem.bias.is_null());
        let all = Self::FRAGMENTS / GROUP;
        if has_bias && bias::are_single::<E>(self.problem()) {
            self.fetch::<SingleBiases, M>(first_key, all);
        } else if has_bias && has_room {
            self.load_all::<HalfBiases<E>, M>(ahead, first_key);
            let later = first_key - 8 * Self::FRAGMENTS as i32;
            if later >= 0 {
                self.fetch::<HalfBiases<E>, M>(later, all);
            }
        } else if has_bias {
            self.fetch::<HalfBiases<E>, M>(first_key, all);
        }
        if has_mask && has_room && !has_bias {
            self.load_all::<Masks, M>(ahead, first_key);
        } else if has_mask {
            self.fetch::<Masks, M>(first_key, all);
        }
    }

    /// Loads what a block of keys has of such a tensor.
    ///
    /// # Safety
    /// The facts must be those of the tile, and the problem's tensor valid.
    #[inline(always)]
    unsafe fn load_all<P: PerScore<Words = [u32; 2]>, const M: usize>(
        &self,
        words: &mut Ahead<M>,
        first_key: i32,
    ) {
        unroll!(m in M, up to 2 => {
            self.load::<P>(m, &mut words[m], first_key, (0, Self::FRAGMENTS / GROUP));
        });
    }

    /// Loads what groups of fragments of a block of keys, from one on up to another, have of such a
    /// tensor, for the 16 rows number `m`: for all of several, elements at once would take too many
    /// registers.
    ///
    /// # Safety
    /// The facts must be those of the tile, and the problem's tensor valid.
    #[inline(always)]
    unsafe fn load<P: PerScore>(
        &self,
        m: usize,
        words: &mut Fragments<P::Words>,
        first_key: i32,
        groups: (usize, usize),
    ) {
        let (keys, end) = (self.counts().1, first_key + groups.1 as i32 * Self::DISTANCE);
        let [aligned, one] = self.form::<P>();
        let mut rows = [core::ptr::null(); 2];
        unroll!(h in 2 => {
            rows[h] = self.row_of::<P>(m, h);
        });
        if one {
            load_one::<P>(rows, words, groups);
        } else if aligned && (end <= keys || keys % RUN == 0) {
            self.load_runs::<P>(rows, words, first_key, groups);
        } else {
            self.load_elements::<P>(rows, words, first_key, groups);
        }
    }

    /// Loads runs at once. They are aligned, and all of their keys exist, or none.
    ///
    /// # Safety
    /// The rows must be valid.
    #[inline(always)]
    unsafe fn load_runs<P: PerScore>(
        &self,
        rows: [*const u8; 2],
        words: &mut Fragments<P::Words>,
        first_key: i32,
        groups: (usize, usize),
    ) {
        let last = self.counts().1 - RUN;
        unroll!(h in 2 => {
            unroll!(group in Self::FRAGMENTS / GROUP, up to 4 => {
                if groups.0 <= group && group < groups.1 {
                    let run = P::load_run(self.place::<P>(rows[h], first_key, group, last));
                    unroll!(w in 2 * P::SIZE => {
                        *P::word(words, GROUP * group, h, w) = run[w];
                    });
                }
            });
        });
    }

    /// Loads elements one by one, those of each word in turn: all at once would take too many
    /// registers.
    ///
    /// # Safety
    /// The rows must be valid.
    #[inline(always)]
    unsafe fn load_elements<P: PerScore>(
        &self,
        rows: [*const u8; 2],
        words: &mut Fragments<P::Words>,
        first_key: i32,
        groups: (usize, usize),
    ) {
        let per_word = 4 / P::SIZE;
        let key = self.run(first_key, 0);
        let mut runs = rows.map(|row| row.wrapping_offset(key as isize * P::SIZE as isize));
        let turns = 2 / Self::ROWS_AT_ONCE as u32;
        let count = turns * per_word as u32;
        let count = if count == 1 { 1 } else { hint::opaque(count) };
        let mut turn = 0;
        while turn < count {
            let element = turn / turns;
            let (shift, keys) =
                (8 * P::SIZE as u32 * element, self.counts().1 - key - element as i32);
            unroll!(h in Self::ROWS_AT_ONCE, up to 2 => {
                unroll!(group in Self::FRAGMENTS / GROUP, up to 4 => {
                    if groups.0 <= group && group < groups.1 {
                        unroll!(w in 2 * P::SIZE => {
                            let i = group * Self::DISTANCE as usize + per_word * w;
                            let from = runs[h].wrapping_add(i * P::SIZE);
                            let bits = P::load_element_if((i as i32) < keys, from) << shift;
                            let word = P::word(words, GROUP * group, h, w);
                            *word = if element == 0 { bits } else { *word | bits };
                        });
                    }
                });
                runs[h] = runs[h].wrapping_add(P::SIZE);
            });
            if Self::ROWS_AT_ONCE == 1 {
                // The other row's turn.
                runs = [runs[1], runs[0]];
                unroll!(group in Self::FRAGMENTS / GROUP, up to 4 => {
                    if groups.0 <= group && group < groups.1 {
                        unroll!(w in 2 * P::SIZE => {
                            let n = GROUP * group;
                            let first = *P::word(words, n, 0, w);
                            *P::word(words, n, 0, w) = *P::word(words, n, 1, w);
                            *P::word(words, n, 1, w) = first;
                        });
                    }
                });
            }
            turn += 1;
        }
    }

    /// Where the lane's run of a group of fragments begins in a row, or where key `last` is, if it is
    /// before.
    #[inline(always)]
    fn place<P: PerScore>(
        &self,
        row: *const u8,
        first_key: i32,
        group: usize,
        last: i32,
    ) -> *const u8 {
        let key = self.run(first_key, group);
        let key = if key < last { key } else { last };
        row.wrapping_offset(key as isize * P::SIZE as isize)
    }

    /// Brings what the first groups of fragments of a block of keys have of such a tensor to the L2 cache.
    ///
    /// # Safety
    /// The facts must be those of the tile, and the problem's tensor valid.
    #[inline(always)]
    unsafe fn fetch<P: PerScore, const M: usize>(&self, first_key: i32, groups: usize) {
        let last = self.counts().1 - 1;
        let [_, one] = self.form::<P>();
        unroll!(m in M, up to 2 => {
            unroll!(h in 2 => {
                let row = self.row_of::<P>(m, h);
                unroll!(group in Self::FRAGMENTS / GROUP, up to 4 => {
                    // Or it comes with the group before.
                    let byte = group * Self::DISTANCE as usize * P::SIZE;
                    if group < groups && byte.is_multiple_of(FETCHED_BYTES) {
                        let from = self.place::<P>(row, first_key, group, last);
                        global::fetch(if one { row } else { from });
                    }
                });
            });
        });
    }

    /// Whether rows of such a tensor are aligned, and whether a row has one element only.
    #[inline(always)]
    fn form<P: PerScore>(&self) -> [bool; 2] {
        // Found out anew each time: registers are rarer.
        let flags = hint::opaque(self.problem().flags);
        [P::FLAGS.0, P::FLAGS.1].map(|flag| flags & flag != 0)
    }

    /// Where a row of the lane begins in the tensor.
    ///
    /// # Safety
    /// The facts must be there.
    #[inline(always)]
    unsafe fn row_of<P: PerScore>(&self, m: usize, h: usize) -> *const u8 {
        let (facts, i) = self.facts(m, h);
        P::row(facts, i)
    }
}

impl<Rows: Runs> LoadPerScore for Rows {}

/// Loads the one element of each row.
#[inline(always)]
unsafe fn load_one<P: PerScore>(
    rows: [*const u8; 2],
    words: &mut Fragments<P::Words>,
    groups: (usize, usize),
) {
    let repeated = match P::SIZE {
        1 => 0x0101_0101,
        2 => 0x0001_0001,
        _ => 1,
    };
    unroll!(h in 2 => {
        let word = P::load_element_if(true, rows[h]) * repeated;
        unroll!(group in MOST_FRAGMENTS / GROUP, up to 4 => {
            if groups.0 <= group && group < groups.1 {
                unroll!(w in 2 * P::SIZE => {
                    *P::word(words, GROUP * group, h, w) = word;
                });
            }
        });
    });
}
