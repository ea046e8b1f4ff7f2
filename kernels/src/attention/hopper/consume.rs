//! The consumers: scores, their softmax, output.

use super::{
    cut::{Cut, Rings, WARPS},
    forward::Maps,
    products::{Factor, Left, MOST_STEPS, left},
    tile::{Blocks, ThreadRows},
};
use crate::attention::{
    features::{Plain, scaling},
    online_softmax::{Exponents, OnlineSoftmax, Rescaling},
    problem::AttentionForward,
    row_elements::RowElements,
    seen::Seen,
};
use cuda_std::{
    hint, thread, tma,
    warp::{self, FULL_MASK},
    wgmma::{Accumulator, Shape},
};

/// What a consumer's products are multiplied by, and how what comes of it becomes exponents.
type Scaling = (f32, Exponents);

/// What a thread has of the output of a tile before it is divided by the rows' sums.
type Attended<const OUTPUT: usize> = (OnlineSoftmax<1>, Accumulator<OUTPUT>);

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
    /// Computes the consumer's rows of all tiles of the block.
    ///
    /// # Safety
    /// Convergent: the whole warpgroup of warp `warp` of the consumers, once the rings' barriers are
    /// there. `problem` and `maps` as for the kernel's body.
    #[inline(always)]
    pub unsafe fn consume<E: Factor>(
        problem: &AttentionForward,
        maps: Maps,
        mut rings: Rings,
        warp: u32,
    ) {
        let scaling = scaling::<Plain>(problem);
        let (block, mut turn) = (thread::block_idx_x(), 0);
        while let Some(number) = Self::next(problem, block, &mut turn) {
            // What depends on the lane is found anew for each tile: that is cheaper than to keep it in
            // registers.
            let lane = hint::opaque(warp::lane_id());
            let at = ThreadRows::of(Self::tile(problem, number), warp, lane);
            let (softmax, output) = Self::attend::<E>(&at, &mut rings, scaling, warp);
            let results = [0, 1].map(|h| {
                let (factor, lse) = softmax.finish(0, h, scaling.1);
                let counts = at.row(h) < at.tile.rows.count();
                if counts { (factor, lse) } else { (0.0, f32::NEG_INFINITY) }
            });
            Self::store::<E>(&at, maps.o, &output, results, warp);
            if Self::REPLACES_Q {
                tma::wait_read::<0>();
            }
            if !KEEPS_Q {
                rings.q.release(lane == 0);
            }
        }
        tma::wait::<0>();
    }

    /// Takes in all blocks of keys of a tile.
    #[inline(always)]
    unsafe fn attend<E: Factor>(
        at: &ThreadRows,
        rings: &mut Rings,
        scaling: Scaling,
        warp: u32,
    ) -> Attended<OUTPUT> {
        let speaks = at.lane == 0;
        let (all, own) = (at.tile.blocks, at.blocks(Self::KEYS));
        rings.q.wait();
        let q = (rings.q.tile(), warp / WARPS);
        let mut kept = [[0; 4]; MOST_STEPS];
        if KEEPS_Q {
            kept = Self::load_queries(q.0, warp, at.lane);
            warp::sync_warp(FULL_MASK);
            rings.q.release(speaks);
        }
        pass(rings, all.end - own.end, speaks);
        let mut attended = (OnlineSoftmax::EMPTY, Accumulator::zero());
        if !own.is_empty() {
            attended = Self::attend_own::<E>(at, rings, scaling, own, (&kept, q));
        }
        pass(rings, own.first - all.first, speaks);
        attended
    }

    /// Takes in the blocks of keys that the consumer's rows see, from the last to the first: the
    /// scores of each, and the output of the one before, which take the tensor cores while exponentials
    /// are computed.
    #[inline(always)]
    unsafe fn attend_own<E: Factor>(
        at: &ThreadRows,
        rings: &mut Rings,
        scaling: Scaling,
        blocks: Blocks,
        (kept, q): (&Left, (u32, u32)),
    ) -> Attended<OUTPUT> {
        let (speaks, seen) = (at.lane == 0, at.seen_by_all());
        let mut softmax = OnlineSoftmax::EMPTY;
        let mut output = Accumulator::zero();
        let mut block = blocks.end - 1;
        rings.k.wait();
        let scores = Self::multiply_keys::<E>(kept, q, rings.k.tile());
        let mut scores = [scores.wait::<0>()];
        rings.k.release(speaks);
        // There is no output to be rescaled yet.
        let _ = Self::take(at, seen, &mut softmax, &mut scores, block, scaling);
        let mut probabilities = left::<E, SCORES>(&scores[0], |_, p| p);
        if block > blocks.first {
            rings.k.wait();
        }
        while block > blocks.first {
            block -= 1;
            let scores = Self::multiply_keys::<E>(kept, q, rings.k.tile());
            rings.v.wait();
            let growing = Self::multiply_values::<E>(output, &probabilities, rings.v.tile());
            let mut scores = [scores.wait::<1>()];
            rings.k.release(speaks);
            let rescaling = Self::take(at, seen, &mut softmax, &mut scores, block, scaling);
            // Exponentials are computed before the waits that follow.
            scores = hint::opaque(scores);
            softmax.complete();
            if block > blocks.first {
                rings.k.wait();
            }
            let mut outputs = [growing.wait::<0>()];
            rings.v.release(speaks);
            probabilities = left::<E, SCORES>(&scores[0], |_, p| p);
            rescaling.apply(&mut outputs);
            [output] = outputs;
        }
        rings.v.wait();
        let growing = Self::multiply_values::<E>(output, &probabilities, rings.v.tile());
        output = growing.wait::<0>();
        rings.v.release(speaks);
        (softmax, output)
    }

    /// Turns scores of a block of keys into exponentials: how the output is to be rescaled.
    #[inline(always)]
    unsafe fn take(
        at: &ThreadRows,
        seen: Seen,
        softmax: &mut OnlineSoftmax<1>,
        scores: &mut [Accumulator<SCORES>; 1],
        block: i32,
        (prescale, exponents): Scaling,
    ) -> Rescaling<1> {
        if prescale != 1.0 {
            unroll!(h in 2 => {
                scores[0].map_row(h, |_, score| score * prescale);
            });
        }
        let first_key = block * Self::KEYS as i32;
        if !seen.sees_all(first_key, Self::KEYS as i32) {
            at.hide(&mut scores[0], first_key);
        }
        let rescaling = softmax.raise(scores, exponents);
        softmax.exponentiate(scores, exponents);
        rescaling
    }
}

/// Passes over blocks of keys that only other consumers see.
#[inline(always)]
unsafe fn pass(rings: &mut Rings, count: i32, speaks: bool) {
    let mut passed = 0;
    while passed < count {
        rings.k.pass(speaks);
        rings.v.pass(speaks);
        passed += 1;
    }
}
