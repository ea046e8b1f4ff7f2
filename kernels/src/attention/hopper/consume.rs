//! The consumers: scores, their softmax, output.

use super::{
    cut::{Cut, Rings, WARP_ROWS, WARPS},
    forward::Maps,
    mark::has_marks,
    products::{Factor, Left, MOST_STEPS, left},
    ring::Ring,
    score_marks::{Kind, ScoreMarks},
    scores::ScoreRows,
    tile::{Blocks, ThreadRows},
    turns::Turns,
};
use crate::attention::{
    adjust::AdjustScores,
    bias,
    dropout::Dropout,
    features::{Features, scaling},
    lane_rows::{GROUP, MOST_FRAGMENTS, Runs},
    mask::{BankIndex, bank_index},
    online_softmax::{Exponents, OnlineSoftmax, Rescaling},
    per_score::{Ahead, LoadPerScore, SingleBiases},
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

/// What a lane that loads nothing itself has loaded ahead.
const NOTHING_AHEAD: Ahead<1> = [[[0; 2]; MOST_FRAGMENTS]; 1];

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
    pub unsafe fn consume<E: Factor, F: Features>(
        problem: &AttentionForward,
        maps: Maps,
        mut rings: Rings,
        warp: u32,
    ) {
        let turns = Turns { consumer: warp / WARPS, consumers: WARPGROUPS };
        turns.open();
        let (block, mut turn) = (thread::block_idx_x(), 0);
        while let Some(number) = Self::next(&problem.anew(), block, &mut turn) {
            // What a tile is, and what depends on the lane, is found anew for each, before its blocks of
            // keys and after them: that is cheaper than to keep it in registers.
            let lane = hint::opaque(warp::lane_id());
            let of_tile = problem.anew();
            let at = ThreadRows::of(Self::tile(&of_tile, number), warp, lane);
            let index = if F::MASKS { bank_index(&of_tile, at.tile.rows.batch) } else { Some(0) };
            let (softmax, output) =
                Self::attend::<E, F>(at, index, &mut rings, turns, scaling::<F>(&of_tile), warp);
            let after = problem.anew();
            let (_, exponents) = scaling::<F>(&after);
            let [number, warp, lane] = hint::opaque([number, warp, lane]);
            let at = ThreadRows::of(Self::tile(&after, number), warp, lane);
            let is_in_bank = !F::MASKS || bank_index(&after, at.tile.rows.batch).is_some();
            let results = [0, 1].map(|h| {
                let (mut factor, mut lse) = softmax.finish(0, h, exponents);
                if F::ALL && problem.dropped != 0 {
                    factor *= Dropout::of(problem).factor();
                }
                if !is_in_bank {
                    (factor, lse) = (f32::NAN, f32::NAN);
                }
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
        turns.close();
        tma::wait::<0>();
    }

    /// Takes in all blocks of keys of a tile; none if the bank of masks and biases does not have its
    /// batch entry's index.
    #[inline(always)]
    unsafe fn attend<E: Factor, F: Features>(
        at: ThreadRows,
        index: BankIndex,
        rings: &mut Rings,
        turns: Turns,
        scaling: Scaling,
        warp: u32,
    ) -> Attended<OUTPUT> {
        let speaks = at.lane == 0;
        let (all, mut own) = (at.tile.blocks, at.blocks(Self::KEYS));
        if index.is_none() {
            own = Blocks { first: all.first, end: all.first };
        }
        rings.q.wait();
        let q = (rings.q.tile(), turns.consumer);
        let mut kept = [[0; 4]; MOST_STEPS];
        if KEEPS_Q {
            kept = Self::load_queries(q.0, warp, at.lane);
            warp::sync_warp(FULL_MASK);
            rings.q.release(speaks);
        }
        pass::<E, F>(at.tile.rows.problem, rings, turns, all.end - own.end, speaks);
        let mut attended = (OnlineSoftmax::EMPTY, Accumulator::zero());
        if !own.is_empty() {
            let rows = ScoreRows { at, facts: Self::row_facts(warp), biases: 0 };
            if F::MASKS && at.lane < WARP_ROWS {
                // They are there for all lanes once the consumer's turn has come.
                rows.facts.store::<E>(&at.tile.rows, index, (at.first, at.lane));
            }
            attended = Self::attend_own::<E, F>(rows, rings, turns, scaling, own, (&kept, q));
        }
        pass::<E, F>(at.tile.rows.problem, rings, turns, own.first - all.first, speaks);
        attended
    }

    /// Takes in the blocks of keys that the consumer's rows see, from the last to the first: the
    /// scores of each, and the output of the one before, which take the tensor cores while exponentials
    /// are computed.
    #[inline(always)]
    unsafe fn attend_own<E: Factor, F: Features>(
        rows: ScoreRows<'_, SCORES>,
        rings: &mut Rings,
        turns: Turns,
        scaling: Scaling,
        blocks: Blocks,
        (kept, q): (&Left, (u32, u32)),
    ) -> Attended<OUTPUT> {
        let (speaks, seen) = (rows.at.lane == 0, rows.at.seen_by_all());
        let mut softmax = OnlineSoftmax::EMPTY;
        let mut output = Accumulator::zero();
        let anew = || if F::MASKS { rows.anew() } else { rows };
        let mut block = blocks.end - 1;
        rings.k.wait();
        turns.begin();
        let scores = Self::multiply_keys::<E>(kept, q, rings.k.tile());
        turns.end();
        Self::fetch_biases::<E, F>(anew(), block);
        let mut scores = [scores.wait::<0>()];
        rings.k.release(speaks);
        let turn = (block, scaling);
        let keeps = Self::adjust::<E, F>(anew(), &mut scores, &mut rings.marks, turn);
        // There is no output to be rescaled yet.
        let _ = Self::raise::<F>(anew(), seen, &mut softmax, &mut scores, turn);
        softmax.exponentiate_near(&mut scores, scaling.1);
        let mut probabilities = Self::left::<E>(&scores[0], keeps);
        while block > blocks.first {
            block -= 1;
            rings.k.wait();
            turns.begin();
            let scores = Self::multiply_keys::<E>(kept, q, rings.k.tile());
            rings.v.wait();
            let growing = Self::multiply_values::<E>(output, &probabilities, rings.v.tile());
            turns.end();
            Self::fetch_biases::<E, F>(anew(), block);
            let turn = (block, scaling);
            let is_plain = || Self::is_plain::<F>(anew(), seen, turn);
            // Found out while the scores are computed, if that does not take longer.
            let may_be_plain = F::MASKS || hint::opaque(is_plain() as u32) != 0;
            let mut scores = [scores.wait::<1>()];
            rings.k.release(speaks);
            let keeps = Self::adjust::<E, F>(anew(), &mut scores, &mut rings.marks, turn);
            let mut rescaling = Rescaling::NONE;
            let is_straight = may_be_plain && softmax.keeps_near(&scores, scaling.1);
            if !is_straight || F::MASKS && !is_plain() {
                rescaling = Self::raise::<F>(anew(), seen, &mut softmax, &mut scores, turn);
            }
            let mut outputs = [growing.wait::<0>()];
            rings.v.release(speaks);
            softmax.exponentiate_near(&mut scores, scaling.1);
            probabilities = Self::left::<E>(&scores[0], keeps);
            rescaling.apply(&mut outputs);
            [output] = outputs;
        }
        rings.v.wait();
        let growing = Self::multiply_values::<E>(output, &probabilities, rings.v.tile());
        output = growing.wait::<0>();
        rings.v.release(speaks);
        (softmax, output)
    }

    /// Are the scores of a block of keys exponents as they are, but for a factor and a reference? With
    /// masks once they are adjusted.
    #[inline(always)]
    fn is_plain<F: Features>(
        rows: ScoreRows<'_, SCORES>,
        seen: Seen,
        (block, (prescale, _)): (i32, Scaling),
    ) -> bool {
        (F::MASKS || prescale == 1.0) && Self::is_seen::<F>(rows, seen, block)
    }

    /// Do all rows of the warp, which all see `seen`, see a block of keys as a whole?
    #[inline(always)]
    fn is_seen<F: Features>(rows: ScoreRows<'_, SCORES>, seen: Seen, block: i32) -> bool {
        // With all features registers are rarer than instructions.
        let seen = if F::ALL { rows.at.seen_by_all() } else { seen };
        seen.sees_all(block * Self::KEYS as i32, Self::KEYS as i32)
    }

    /// Asks for biases of f32, which takes time and depends on no score, while those of a block are
    /// computed.
    #[inline(always)]
    unsafe fn fetch_biases<E: Factor, F: Features>(rows: ScoreRows<'_, SCORES>, block: i32) {
        if F::MASKS {
            const { assert!(!F::MASKS || SCORES.is_multiple_of(4 * GROUP)) };
            let problem = rows.problem();
            if !problem.bias.is_null() && bias::are_single::<E>(problem) {
                rows.fetch::<SingleBiases, 1>(block * Self::KEYS as i32, SCORES / (4 * GROUP));
            }
        }
    }

    /// Does to scores of a block of keys what masks, biases and the like do, if there may be any. What
    /// dropout keeps, if there is any.
    #[inline(always)]
    unsafe fn adjust<E: Factor, F: Features>(
        mut rows: ScoreRows<'_, SCORES>,
        scores: &mut [Accumulator<SCORES>; 1],
        marks: &mut Ring,
        (block, (prescale, _)): (i32, Scaling),
    ) -> Option<ScoreMarks> {
        let mut kept = None;
        if !F::MASKS {
            return kept;
        }
        let (first_key, prescale) = (block * Self::KEYS as i32, hint::opaque(prescale));
        let ThreadRows { tile, first, lane, .. } = rows.at;
        let row = (first - tile.first_row) as u32;
        // Asked twice, or all between would be there twice.
        if has_marks::<E, F>(&rows.problem().anew()) {
            marks.wait();
            rows.biases = Self::biases_of(marks.tile(), row);
        }
        rows.adjust::<E, F, 1>(scores, (false, &mut { NOTHING_AHEAD }), first_key, prescale);
        if has_marks::<E, F>(&rows.problem().anew()) {
            let of_kind = |kind| Self::marks_of(marks.tile(), kind, row + lane / 2, lane % 2 == 1);
            if !rows.problem().mask.is_null() {
                of_kind(Kind::Hidden).hide(&mut scores[0]);
            }
            if F::ALL && rows.problem().dropped != 0 {
                kept = Some(of_kind(Kind::Kept));
            }
            // All lanes have read them.
            warp::sync_warp(FULL_MASK);
            marks.release(lane == 0);
        }
        kept
    }

    /// Makes exponents, but for a factor and a reference, of scores of a block of keys, adjusted where there
    /// are masks: how the output is to be rescaled.
    #[inline(always)]
    unsafe fn raise<F: Features>(
        rows: ScoreRows<'_, SCORES>,
        seen: Seen,
        softmax: &mut OnlineSoftmax<1>,
        scores: &mut [Accumulator<SCORES>; 1],
        (block, (prescale, exponents)): (i32, Scaling),
    ) -> Rescaling<1> {
        if !F::MASKS && prescale != 1.0 {
            unroll!(h in 2 => {
                scores[0].map_row(h, |_, score| score * prescale);
            });
        }
        if !Self::is_seen::<F>(rows, seen, block) {
            rows.at.hide(&mut scores[0], block * Self::KEYS as i32);
        }
        let rescaling = softmax.raise(scores, exponents);
        softmax.bring_near(scores);
        rescaling
    }

    /// The left factor of the second product: the probabilities that dropout keeps, if there is any.
    #[inline(always)]
    fn left<E: Factor>(probabilities: &Accumulator<SCORES>, kept: Option<ScoreMarks>) -> Left {
        let mut words = left::<E, SCORES>(probabilities, |_, p| p);
        if let Some(kept) = kept {
            kept.keep::<SCORES>(&mut words);
        }
        words
    }
}

/// Passes over blocks of keys that only other consumers see.
#[inline(always)]
unsafe fn pass<E, F: Features>(
    problem: &AttentionForward,
    rings: &mut Rings,
    turns: Turns,
    count: i32,
    speaks: bool,
) {
    let has_marks = has_marks::<E, F>(&problem.anew());
    let mut passed = 0;
    while passed < count {
        turns.begin();
        turns.end();
        if has_marks {
            rings.marks.pass(speaks);
        }
        rings.k.pass(speaks);
        rings.v.pass(speaks);
        passed += 1;
    }
}
