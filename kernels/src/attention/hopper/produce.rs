//! The producer: tiles of q, k and v on their way to shared memory.

use super::{
    cut::{Cut, PANEL, PANEL_ROW, Rings},
    forward::Maps,
    ring::Ring,
};
use crate::attention::{portable::swizzle::CHUNK, problem::AttentionForward};
use cuda_std::{
    fence, shared, thread,
    tma::{self, TensorMap},
    warp::{self, FULL_MASK},
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
    /// Convergent: one warp of the block, once the rings' barriers are there. `problem` and `maps` as for
    /// the kernel's body.
    #[inline(always)]
    pub unsafe fn produce(problem: &AttentionForward, maps: Maps, mut rings: Rings) {
        let lane = warp::lane_id();
        let speaks = lane == 0;
        tma::prefetch(maps.q);
        tma::prefetch(maps.k);
        tma::prefetch(maps.v);
        let (block, mut turn) = (thread::block_idx_x(), 0);
        while let Some(number) = Self::next(problem, block, &mut turn) {
            let tile = Self::tile(problem, number);
            let (blocks, last_values) = (tile.blocks, Self::values_of_last_block(&tile));
            let keys = |block: i32| tile.at_key(block * Self::KEYS as i32);
            let (at, cut) = (tile.at_row(tile.first_row), (PANELS as u32, Self::ROWS));
            copy(speaks, rings.q, maps.q, cut, at, rings.q.begin(speaks));
            rings.q.advance();
            // Values are read one block later than keys.
            let mut block = blocks.end;
            while block >= blocks.first {
                if block > blocks.first {
                    let (at, cut) = (keys(block - 1), (PANELS as u32, Self::KEYS));
                    copy(speaks, rings.k, maps.k, cut, at, rings.k.begin(speaks));
                    rings.k.advance();
                }
                if block < blocks.end {
                    let detours = block == blocks.end - 1 && last_values < Self::KEYS;
                    let told = rings.v.begin_by(speaks, detours, rings.detour);
                    let (at, cut) = (keys(block), (Self::VALUE_PANELS, Self::KEYS));
                    copy(speaks, rings.v, maps.v, cut, at, told);
                    if detours {
                        Self::clear_values(&mut rings, last_values, lane);
                    }
                    rings.v.advance();
                }
                block -= 1;
            }
        }
    }

    /// Puts zeros in place of all but the first `count` values of those that come by a detour.
    ///
    /// # Safety
    /// Convergent: the producer's warp, which has begun them.
    #[inline(always)]
    unsafe fn clear_values(rings: &mut Rings, count: u32, lane: u32) {
        rings.detour.wait();
        let (values, bytes) = (rings.v.tile(), Self::KEYS * PANEL_ROW);
        let mut byte = count * PANEL_ROW + lane * CHUNK;
        while byte < bytes {
            let mut panel = 0;
            while panel < Self::VALUE_PANELS {
                shared::store(values + panel * bytes + byte, [0u32; 4]);
                panel += 1;
            }
            byte += 32 * CHUNK;
        }
        // Products see the zeros.
        fence::proxy_async();
        warp::sync_warp(FULL_MASK);
        rings.v.finish(lane == 0);
    }
}

/// Copies a tile of so many panels of `rows` rows, from row, head and batch entry `at` on, to the
/// ring's stage, by the lane that `speaks`. The barrier `told` is told of it.
#[inline(always)]
unsafe fn copy(
    speaks: bool,
    ring: Ring,
    map: *const TensorMap,
    (panels, rows): (u32, u32),
    [row, head, batch]: [i32; 3],
    told: u32,
) {
    let mut panel = 0;
    while panel < panels {
        let to = ring.tile() + panel * rows * PANEL_ROW;
        tma::load_if(speaks, to, map, [(panel * PANEL) as i32, row, head, batch], told);
        panel += 1;
    }
}
