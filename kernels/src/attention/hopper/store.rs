//! The output on its way to global memory: each warp stores its own 16 rows.

use super::{
    cut::{Cut, PANEL, WARP_ROWS},
    products::{CHUNKS, Factor, left},
    tile::ThreadRows,
};
use crate::attention::portable::swizzle::CHUNK;
use cuda_std::{
    fence, global, matrix, shared,
    tma::{self, TensorMap},
    warp::{self, FULL_MASK},
    wgmma::{Accumulator, Shape},
};

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
    /// Stores the warp's rows, warp number `warp` of the consumers: `results` are what the output of
    /// the thread's two is multiplied by, and their log-sum-exp.
    ///
    /// # Safety
    /// Convergent: the whole warp. The problem's output must be valid, and `map` its own. The thread
    /// waits for its stores before it ends.
    #[inline(always)]
    pub unsafe fn store<E: Factor>(
        at: &ThreadRows,
        map: *const TensorMap,
        output: &Accumulator<OUTPUT>,
        results: [(f32, f32); 2],
        warp: u32,
    ) {
        let (rows, problem, lane) = (&at.tile.rows, at.tile.rows.problem, at.lane);
        let (staging, pitch) = Self::staging(warp);
        // A row that sees nothing is 0, whatever v holds.
        let words = left::<E, OUTPUT>(output, |h, value| {
            let factor = results[h].0;
            if factor == 0.0 { 0.0 } else { value * factor }
        });
        if !Self::REPLACES_Q {
            // The warp's last tile has left the place.
            tma::wait_read::<0>();
            warp::sync_warp(FULL_MASK);
        }
        unroll!(step in OUTPUT / 8, up to 16 => {
            let panel = staging + (step / 4) as u32 * pitch;
            matrix::store_4(panel + CHUNKS.queries(lane, (step % 4 * 2) as u32), words[step]);
        });
        fence::proxy_async();
        warp::sync_warp(FULL_MASK);
        let exist = rows.slots() - at.first;
        if exist < WARP_ROWS as i32 {
            Self::store_rows::<E>(at, exist, (staging, pitch));
        } else {
            let [row, head, batch] = at.tile.at_row(at.first);
            let mut panel = 0;
            while panel < Self::VALUE_PANELS {
                let exists = panel * PANEL < problem.value_dim;
                let to = [(panel * PANEL) as i32, row, head, batch];
                tma::store_if(lane == 0 && exists, map, to, staging + panel * pitch);
                panel += 1;
            }
        }
        tma::commit();

        if lane.is_multiple_of(4) && !problem.lse.is_null() {
            unroll!(h in 2 => {
                if at.row(h) < rows.slots() {
                    let to = rows.offset(&problem.lse_strides, at.row(h));
                    global::store(problem.lse.cast::<f32>().offset(to), results[h].1);
                }
            });
        }
    }

    /// Stores the first `exist` rows of the warp, of what is in its place in shared memory: behind them
    /// another sequence may begin, which whole tiles would overwrite.
    ///
    /// # Safety
    /// As for [`Cut::store`]; what is to be stored is there for all lanes.
    #[inline(always)]
    unsafe fn store_rows<E: Factor>(at: &ThreadRows, exist: i32, (staging, pitch): (u32, u32)) {
        let (rows, problem) = (&at.tile.rows, at.tile.rows.problem);
        let (mut row, chunk) = (at.lane / 8, at.lane % 8);
        while (row as i32) < exist {
            let to = rows.offset(&problem.o_strides, at.first + row as i32);
            let to = problem.o.cast::<E>().offset(to);
            let from = CHUNKS.address(staging, row, chunk);
            let mut panel = 0;
            while panel < Self::VALUE_PANELS {
                let column = panel * PANEL + chunk * CHUNK / size_of::<E>() as u32;
                if column < problem.value_dim {
                    let words: [u32; 4] = shared::load(from + panel * pitch);
                    global::store(to.add(column as usize).cast(), words);
                }
                panel += 1;
            }
            row += 4;
        }
        // All have loaded before the place is left to others.
        warp::sync_warp(FULL_MASK);
    }
}
