//! Flash attention forward by `wgmma` and TMA.
//!
//! `o = softmax(q k^T) v` row by row, blocks of keys one after the other: neither scores nor
//! probabilities ever leave the registers.
//!
//! - Shapes: q and o are rows of queries, k and v rows of keys, at strides that tensor maps take; head
//!   dimensions are padded to the tile's in shared memory, by zeros that TMA fills in, as are rows
//!   beyond the last.
//! - Tiling: a block takes tiles of rows of one head, one after the other. A consumer has 64 rows of
//!   it, and walks over the blocks of keys that these see, from the last to the first. Whatever hides
//!   keys is looked at only in blocks where it does.
//! - Roles: the first warp, the producer, copies by TMA; the other warps of its warpgroup, and of a
//!   second one where there are registers for it, the markers, get masks, biases and dropout ready, if
//!   there are any; the other warpgroups, the consumers, multiply and take exponentials. They meet at
//!   mbarriers, by which tiles pass through shared memory.
//! - Sequences: a batch entry's rows begin anywhere in the tensors, and end before others do. Keys
//!   beyond its end are hidden; values there become zeros, before anything is multiplied by them; and
//!   rows that others follow are stored one by one.
//! - Overlap: a consumer's tensor cores multiply a block's scores and the output of the block before,
//!   while it takes exponentials; and consumers take turns at beginning products, so that one
//!   multiplies while another does not.
//! - Straight: a block of keys that nothing hides, whose scores need no other reference, passes over
//!   what other blocks take: hiding keys, and raising references.
//! - What scores have of their own, masks, biases of 16 bits and dropout, comes from the markers, and
//!   biases of f32 from the L2 cache.
//! - Registers: those that the producer gives back let a consumer hold 64 rows of output, scores,
//!   probabilities and, where they fit, q.
//! - Roofline: the tensor cores, by `wgmma`, until the card runs into its limit of power.

use super::{
    cut::{Cut, WARPS},
    products::Factor,
};
use crate::attention::{features::Features, problem::AttentionForward};
use cuda_std::{
    fence, thread,
    tma::TensorMap,
    warp::{self, FULL_MASK},
    warpgroup,
    wgmma::Shape,
};

/// The tensor maps of a problem, whose dimensions are elements, rows, heads, batch entries.
#[derive(Clone, Copy)]
pub struct Maps {
    /// Of q, in panels of a tile's rows.
    pub q: *const TensorMap,
    /// Of k, in panels of a block of keys.
    pub k: *const TensorMap,
    /// Of v, likewise.
    pub v: *const TensorMap,
    /// Of o, in panels of a warp's rows.
    pub o: *const TensorMap,
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
    /// The kernel's body.
    ///
    /// # Safety
    /// `problem`'s tensors must be valid for its shape, and `maps` be theirs; its schedule one of the
    /// cut's rows, its features and dimensions those of the instance, and the launch of the cut's
    /// threads and shared memory.
    #[inline(always)]
    pub unsafe fn forward<E: Factor, F: Features>(problem: &AttentionForward, maps: Maps) {
        let thread = thread::thread_idx_x();
        let rings = Self::rings();
        if thread == 0 {
            rings.q.init((1, Self::CONSUMER_WARPS));
            rings.k.init((1, Self::CONSUMER_WARPS));
            rings.v.init((1, Self::CONSUMER_WARPS));
            rings.detour.init();
            if F::MASKS {
                rings.marks.init((Self::MARKERS, Self::CONSUMER_WARPS));
            }
            fence::proxy_async();
        }
        // The barriers exist for all from here on.
        thread::sync_threads();
        // By the shuffle the assembler knows that it is the same in all lanes, and so is what depends
        // on it.
        let warp = warp::shuffle_idx(FULL_MASK, thread / 32, 0);
        let ahead = if F::MASKS { WARPS * Self::WARPGROUPS_AHEAD } else { WARPS };
        if warp < ahead {
            match WARPGROUPS {
                2 => warpgroup::decrease_registers::<40>(),
                _ => warpgroup::decrease_registers::<32>(),
            }
            if warp == 0 {
                Self::produce(problem, maps, rings);
            } else if F::MASKS {
                Self::mark::<E, F>(problem, rings.marks, warp - 1);
            }
        } else {
            match (WARPGROUPS, ahead / WARPS) {
                (2, 1) => warpgroup::increase_registers::<232>(),
                (2, _) => warpgroup::increase_registers::<216>(),
                (3, _) => warpgroup::increase_registers::<160>(),
                _ => warpgroup::increase_registers::<112>(),
            }
            Self::consume::<E, F>(problem, maps, rings, warp - ahead);
        }
    }
}
