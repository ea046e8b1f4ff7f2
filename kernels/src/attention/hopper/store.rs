//! The output on its way to global memory: each warp stores its own 16 rows.

use super::{
    cut::{Cut, PANEL},
    products::{CHUNKS, Factor, left},
    tile::ThreadRows,
};
use cuda_std::{
    fence, global, matrix,
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
        let (head, batch) = (rows.query_and_head(at.first).1 as i32, rows.batch as i32);
        let mut panel = 0;
        while panel < Self::VALUE_PANELS {
            let exists = at.first < rows.slots() && panel * PANEL < problem.value_dim;
            let to = [(panel * PANEL) as i32, at.first, head, batch];
            tma::store_if(lane == 0 && exists, map, to, staging + panel * pitch);
            panel += 1;
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
}
