//! The producer: tiles of q, k and v on their way to shared memory.

use super::{
    cut::{Cut, PANEL, PANEL_ROW, Rings},
    forward::Maps,
    ring::Ring,
};
use crate::attention::problem::AttentionForward;
use cuda_std::{
    thread,
    tma::{self, TensorMap},
};

impl<
    const WARPGROUPS: u32,
    const PANELS: usize,
    const SCORES: usize,
    const OUTPUT: usize,
    const KEEPS_Q: bool,
> Cut<WARPGROUPS, PANELS, SCORES, OUTPUT, KEEPS_Q>
{
    /// Copies what the block's tiles need, in the order in which consumers read it.
    ///
    /// # Safety
    /// One thread of the block, once the rings' barriers are there. `problem` and `maps` as for the
    /// kernel's body.
    #[inline(always)]
    pub unsafe fn produce(problem: &AttentionForward, maps: Maps, mut rings: Rings) {
        tma::prefetch(maps.q);
        tma::prefetch(maps.k);
        tma::prefetch(maps.v);
        let (block, mut turn) = (thread::block_idx_x(), 0);
        while let Some(number) = problem.schedule.number(block, turn) {
            let tile = Self::tile(problem, number);
            let (batch, blocks) = (tile.rows.batch as i32, tile.blocks);
            let head = tile.rows.query_and_head(tile.first_row).1 as i32;
            let kv_head = tile.rows.kv_head() as i32;
            let keys = |block: i32| [block * Self::KEYS as i32, kv_head, batch];
            copy(&mut rings.q, maps.q, PANELS as u32, Self::ROWS, [tile.first_row, head, batch]);
            // Values are read one block later than keys.
            let mut block = blocks.end;
            while block >= blocks.first {
                if block > blocks.first {
                    copy(&mut rings.k, maps.k, PANELS as u32, Self::KEYS, keys(block - 1));
                }
                if block < blocks.end {
                    copy(&mut rings.v, maps.v, Self::VALUE_PANELS, Self::KEYS, keys(block));
                }
                block -= 1;
            }
            turn += 1;
        }
    }
}

/// Copies a tile of so many panels of `rows` rows, from row, head and batch entry `at` on, to the
/// ring's next stage.
#[inline(always)]
unsafe fn copy(
    ring: &mut Ring,
    map: *const TensorMap,
    panels: u32,
    rows: u32,
    [row, head, batch]: [i32; 3],
) {
    let full = ring.begin();
    let mut panel = 0;
    while panel < panels {
        let to = ring.tile() + panel * rows * PANEL_ROW;
        tma::load(to, map, [(panel * PANEL) as i32, row, head, batch], full);
        panel += 1;
    }
    ring.advance();
}
