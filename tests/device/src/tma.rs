//! Copies of tiles of tensors. A tile goes through the beginning of shared memory, behind which there
//! is a barrier.

use cuda_std::{
    cluster, fence, global, kernel, mbarrier, shared, tensor_map,
    thread::{self, thread_idx_x},
    tma::{self, Coordinates, TensorMap},
};

/// Makes the block's barrier, for one arrival a phase, which the cluster knows thereafter.
#[inline(always)]
unsafe fn barrier(tile_bytes: u32) -> u32 {
    let barrier = shared::dynamic() + tile_bytes;
    // SAFETY: 8 bytes of shared memory behind the tile; all threads come here.
    unsafe {
        if thread_idx_x() == 0 {
            mbarrier::init(barrier, 1);
            fence::mbarrier_init();
            fence::proxy_async();
        }
        cluster::sync();
    }
    barrier
}

/// Each thread's word of the tile as it lies in shared memory, of as many words as there are threads.
#[inline(always)]
unsafe fn load(map: *const TensorMap, at: impl Coordinates, to: *mut u32) {
    let (i, tile_bytes) = (thread_idx_x(), 4 * thread::block_dim_x());
    // SAFETY: the tile is as large as the block's share of memory, and its barrier expects it.
    unsafe {
        let barrier = barrier(tile_bytes);
        if i == 0 {
            tma::prefetch(map);
            mbarrier::arrive_expect_tx(barrier, tile_bytes);
        }
        tma::load_if(i == 0, shared::dynamic(), map, at, barrier);
        mbarrier::wait(barrier, 0);
        global::store(to.add(i as usize), shared::load::<u32>(shared::dynamic() + 4 * i));
    }
}

/// Stores a tile of which each thread has a word, as it lies in shared memory.
#[inline(always)]
unsafe fn store(map: *const TensorMap, at: impl Coordinates, from: *const u32) {
    let i = thread_idx_x();
    // SAFETY: the tile is as large as the block's share of memory; the fence and the barrier let the
    // store see it, and the thread that stores waits.
    unsafe {
        let word: u32 = global::load_cached(from.add(i as usize));
        shared::store(shared::dynamic() + 4 * i, word);
        fence::proxy_async();
        thread::sync_threads();
        tma::store_if(i == 0, map, at, shared::dynamic());
        tma::commit();
        tma::wait_read::<0>();
        tma::wait::<0>();
    }
}

macro_rules! tiles {
    ($($load:ident, $store:ident, $count:literal;)*) => {$(
        /// `load`.
        #[kernel(launch_bounds(1024, 1), arch = "sm_90")]
        pub unsafe fn $load(map: TensorMap, at: [i32; 5], to: *mut u32) {
            let map = tensor_map!($load, 0, map);
            // SAFETY: promised by this kernel's caller.
            unsafe { load(map, first::<$count>(at), to) }
        }

        /// `store`.
        #[kernel(launch_bounds(1024, 1), arch = "sm_90")]
        pub unsafe fn $store(map: TensorMap, at: [i32; 5], from: *const u32) {
            let map = tensor_map!($store, 0, map);
            // SAFETY: promised by this kernel's caller.
            unsafe { store(map, first::<$count>(at), from) }
        }
    )*};
}

/// The first of five.
#[inline(always)]
fn first<const COUNT: usize>([a, b, c, d, e]: [i32; 5]) -> [i32; COUNT] {
    let mut first = [0; COUNT];
    let mut i = 0;
    while i < COUNT {
        first[i] = match i {
            0 => a,
            1 => b,
            2 => c,
            3 => d,
            _ => e,
        };
        i += 1;
    }
    first
}

tiles! {
    tma_load_2d, tma_store_2d, 2;
    tma_load_3d, tma_store_3d, 3;
    tma_load_4d, tma_store_4d, 4;
    tma_load_5d, tma_store_5d, 5;
}

/// Tiles of a matrix, from one place to another: `count` of them, side by side, each loaded by the
/// first thread into one of three slots while the ones before are stored.
#[kernel(launch_bounds(32, 1), arch = "sm_90")]
pub unsafe fn tma_copy(from: TensorMap, to: TensorMap, columns: i32, tile_bytes: u32, count: i32) {
    let (from, to) = (tensor_map!(tma_copy, 0, from), tensor_map!(tma_copy, 1, to));
    let lane = thread_idx_x();
    // SAFETY: three slots of a tile each, with a barrier each behind them. A slot is loaded again once
    // its store has read it, which all have but the last.
    unsafe {
        let slot = |i: i32| shared::dynamic() + (i % 3) as u32 * tile_bytes;
        let full = |i: i32| shared::dynamic() + 3 * tile_bytes + (i % 3) as u32 * 8;
        if lane == 0 {
            mbarrier::init(full(0), 1);
            mbarrier::init(full(1), 1);
            mbarrier::init(full(2), 1);
            fence::proxy_async();
            let mut i = 0;
            while i <= count {
                if i < count {
                    tma::wait_read::<1>();
                    mbarrier::arrive_expect_tx(full(i), tile_bytes);
                    tma::load(slot(i), from, [i * columns, 0], full(i));
                }
                if i > 0 {
                    mbarrier::wait(full(i - 1), (i as u32 - 1) / 3 % 2);
                    tma::store(to, [(i - 1) * columns, 0], slot(i - 1));
                    tma::commit();
                }
                i += 1;
            }
            tma::wait::<0>();
        }
    }
}

/// Blocks of a cluster load a part of a tile each, for all of them: each thread's word of the whole
/// tile, as it lies in its block's shared memory. The parts are rows of a matrix, one after another.
/// Twice: the second time once every block has told the others that it has read the first.
#[kernel(launch_bounds(256, 1), arch = "sm_90a")]
pub unsafe fn tma_load_multicast(map: TensorMap, part_rows: i32, columns: i32, to: *mut u32) {
    let map = tensor_map!(tma_load_multicast, 0, map);
    let (i, threads) = (thread_idx_x(), thread::block_dim_x());
    let (rank, blocks) = (cluster::block_rank(), cluster::block_count());
    let tile_bytes = 4 * threads;
    let to_word = 2 * (thread::block_idx_x() * threads + i) as usize;
    // SAFETY: the parts are as large as the block's share of memory together, and each block's barrier
    // expects them all. The last barrier of the cluster keeps all blocks alive.
    unsafe {
        let full = barrier(tile_bytes);
        let empty = full + 8;
        if i == 0 {
            mbarrier::init(empty, blocks);
            fence::mbarrier_init();
        }
        cluster::sync();
        let part = shared::dynamic() + rank * (part_rows * columns * 4) as u32;
        let mut turn = 0;
        while turn < 2 {
            if i == 0 {
                mbarrier::wait(empty, turn ^ 1);
                mbarrier::arrive_expect_tx(full, tile_bytes);
                let at = [turn as i32 * columns, rank as i32 * part_rows];
                tma::load_multicast(part, map, at, full, ((1u32 << blocks) - 1) as u16);
            }
            mbarrier::wait(full, turn);
            let word: u32 = shared::load(shared::dynamic() + 4 * i);
            global::store(to.add(to_word + turn as usize), word);
            thread::sync_threads();
            if i < blocks {
                mbarrier::arrive_remote(cluster::map_shared(empty, i));
            }
            turn += 1;
        }
        cluster::sync();
    }
}
