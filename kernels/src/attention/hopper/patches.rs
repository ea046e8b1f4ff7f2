//! Which probabilities of a thread dropout keeps.
//!
//! A patch of dropout has four rows 8 apart, two of which are a thread's, and four neighbouring keys,
//! two of which are a thread's and the others its neighbour's. Two neighbours draw the random words of
//! one patch each, of two fragments, and exchange halves.

use super::{products::Left, tile::ThreadRows};
use crate::{attention::dropout::Dropout, marks};
use cuda_std::{
    bits, hint,
    warp::{self, FULL_MASK},
};

/// Marks what is kept of the probabilities of a block of keys: of fragment `n` word `n / 8` shifted to
/// the left by `n % 8`, of each row two elements.
#[derive(Clone, Copy)]
pub struct Kept([u32; 2]);

impl Kept {
    /// Draws those of the block of keys that begins at `first_key`, in `SCORES` registers.
    ///
    /// # Safety
    /// Convergent: the whole warp. Heads are not packed, and the problem's pointers to seed and offset
    /// valid.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn draw<const SCORES: usize>(at: &ThreadRows, first_key: i32) -> Self {
        let (rows, lane) = (&at.tile.rows, at.lane);
        let dropout = Dropout::of(rows.problem);
        let plane = rows.batch * rows.problem.heads + rows.group;
        let (query, odd) = (at.row(0) as u32, lane % 2 == 1);
        // The first key of the thread's patch of fragments 0 and 1.
        let key = first_key as u32 + lane % 2 * 8 + lane % 4 / 2 * 4;
        let (own_bytes, other_bytes) = if odd { (0x7632, 0x5410) } else { (0x5410, 0x7632) };
        let is_lower = at.first as u32 / 16 % 2 == 1;
        let mut kept = [0; 2];
        unroll!(pair in SCORES / 8 => {
            let [a, b, c, d] = dropout.patch(plane, query, key + 16 * pair as u32);
            let words = if is_lower { [c, d] } else { [a, b] };
            let [first, second] = words.map(|word| dropout.kept(word));
            let own = bits::permute_by(first, second, own_bytes);
            let given = bits::permute_by(first, second, other_bytes);
            let taken = warp::shuffle_xor(FULL_MASK, given, 1);
            let (even_fragment, odd_fragment) = if odd { (taken, own) } else { (own, taken) };
            let marks = (even_fragment & TOP_BITS) | (odd_fragment & TOP_BITS) >> 1;
            kept[pair / 4] |= marks >> (2 * (pair % 4));
        });
        // While products are computed, and not after the wait for them.
        hint::computed(f32::from_bits((kept[0] ^ kept[1]) >> 1));
        Kept(kept)
    }

    /// Leaves zeros for what is not kept in the left factor of a product.
    #[inline(always)]
    pub fn apply<const SCORES: usize>(self, probabilities: &mut Left) {
        unroll!(n in SCORES / 4, up to 16 => {
            let kept = marks::halves(self.0[n / 8] << (n % 8));
            unroll!(h in 2 => {
                probabilities[n / 2][2 * (n % 2) + h] &= kept[h];
            });
        });
    }
}

/// The top bit of each byte.
const TOP_BITS: u32 = 0x8080_8080;
