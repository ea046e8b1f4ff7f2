//! Barriers, and where a thread is.

use cuda_std::{
    block, fence, global, kernel, mbarrier, shared,
    thread::{self, thread_idx_x},
    warp::{self, FULL_MASK},
};

/// Thread index, block index, block size and grid size along x, y and z. `to` has 4 elements for
/// each thread of the grid.
#[kernel(launch_bounds(64, 1))]
pub unsafe fn indices(to: *mut [u32; 4]) {
    let x = [
        thread::thread_idx_x(),
        thread::block_idx_x(),
        thread::block_dim_x(),
        thread::grid_dim_x(),
    ];
    let y = [
        thread::thread_idx_y(),
        thread::block_idx_y(),
        thread::block_dim_y(),
        thread::grid_dim_y(),
    ];
    let z = [
        thread::thread_idx_z(),
        thread::block_idx_z(),
        thread::block_dim_z(),
        thread::grid_dim_z(),
    ];
    let index = |i: [u32; 4], size: [u32; 4], of: usize| (i[of], size[of + 2]);
    let (thread_x, block_x) = (index(x, x, 0), index(x, x, 1));
    let (thread_y, block_y) = (index(y, y, 0), index(y, y, 1));
    let (thread_z, block_z) = (index(z, z, 0), index(z, z, 1));
    let threads = thread_x.1 * thread_y.1 * thread_z.1;
    let thread = (thread_z.0 * thread_y.1 + thread_y.0) * thread_x.1 + thread_x.0;
    let block = (block_z.0 * block_y.1 + block_y.0) * block_x.1 + block_x.0;
    let i = 3 * (block * threads + thread) as usize;
    // SAFETY: elements of the thread's own.
    unsafe {
        global::store(to.add(i), x);
        global::store(to.add(i + 1), y);
        global::store(to.add(i + 2), z);
    }
}

/// Reverses the block's values through shared memory, twice, so that each barrier matters.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn sync_threads(from: *const u32, to: *mut u32) {
    let (i, last) = (thread_idx_x(), thread::block_dim_x() - 1);
    let slot = shared::dynamic() + 4 * i;
    let mirror = shared::dynamic() + 4 * (last - i);
    // SAFETY: elements of the thread's own; shared memory of 4 bytes a thread, ordered by
    // barriers of the whole block.
    unsafe {
        shared::store(slot, global::load_cached(from.add(i as usize)));
        thread::sync_threads();
        let value: u32 = shared::load(mirror);
        thread::sync_threads();
        shared::store(slot, value ^ i);
        thread::sync_threads();
        global::store(to.add(i as usize), shared::load::<u32>(mirror));
    }
}

/// The first two warps produce, the last two consume; two buffers, each with a barrier that says
/// full and one that says empty. `from` and `to` have `rounds` times 64 elements.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn named_barriers(from: *const u32, to: *mut u32, rounds: u32) {
    let i = thread_idx_x() % 64;
    let produces = thread_idx_x() < 64;
    for round in 0..rounds {
        let buffer = round % 2;
        let (full, empty) = (1 + buffer, 3 + buffer);
        let slot = shared::dynamic() + 256 * buffer;
        let element = (64 * round + i) as usize;
        // SAFETY: whole warps; the barriers order the accesses to a buffer of 256 bytes.
        unsafe {
            if produces {
                if round >= 2 {
                    block::barrier_sync(empty, 128);
                }
                shared::store(slot + 4 * i, global::load_cached(from.add(element)));
                block::barrier_arrive(full, 128);
            } else {
                block::barrier_sync(full, 128);
                let value: u32 = shared::load(slot + 4 * (63 - i));
                if round + 2 < rounds {
                    block::barrier_arrive(empty, 128);
                }
                global::store(to.add(element), value);
            }
        }
    }
}

/// Barriers between branches on one condition: what a compiler that thinks it may copy a barrier
/// moves into both branches. Each thread gets the first two elements' exclusive or.
#[kernel(launch_bounds(64, 1))]
pub unsafe fn barriers_between_branches(from: *const u32, to: *mut u32) {
    let (i, slots) = (thread_idx_x(), shared::dynamic());
    // SAFETY: whole warps of 64 threads; 8 bytes of shared memory, ordered by the barriers.
    unsafe {
        if i == 0 {
            shared::store(slots, global::load_cached(from));
        }
        block::barrier_sync(1, 64);
        if i == 0 {
            let first: u32 = shared::load(slots);
            shared::store(slots + 4, first ^ global::load_cached(from.add(1)));
        }
        block::barrier_sync(1, 64);
        global::store(to.add(i as usize), shared::load::<u32>(slots + 4));
    }
}

macro_rules! mbarriers {
    ($($(#[$doc:meta])* $kernel:ident, $arch:literal, $arrivals:literal, $arrive:expr;)*) => {$(
        $(#[$doc])*
        #[kernel(launch_bounds(64, 1), arch = $arch)]
        pub unsafe fn $kernel(from: *const u32, to: *mut u32, rounds: u32) {
            // SAFETY: promised by this kernel's caller, and by the one call below.
            unsafe { hand_over(from, to, rounds, $arrivals, |barrier| $arrive(barrier)) }
        }
    )*};
}

mbarriers! {
    /// `hand_over`, which polls on this architecture.
    mbarrier_test, "sm_80", 32, mbarrier::arrive;
    /// `hand_over`, which sleeps in the instruction on this architecture.
    mbarrier_wait, "sm_90", 32, mbarrier::arrive;
    /// `hand_over`, with an arrival that could announce bytes of copies, and announces none.
    mbarrier_expect, "sm_90a", 32, (|barrier| {
        fence::proxy_async();
        mbarrier::arrive_expect_tx(barrier, 0)
    });
    /// `hand_over`, where one lane arrives for its warp, once all have met.
    mbarrier_of_warps, "sm_90", 1, (|barrier| {
        warp::sync_warp(FULL_MASK);
        mbarrier::arrive_if(warp::lane_id() == 0, barrier)
    });
}

/// The first warp's first lane produces an element a round, the second warp's lanes consume them in
/// turn, and only the lane that touched the slot arrives. `from` and `to` have `rounds` elements.
/// `arrive` does so where a condition holds.
///
/// # Safety
/// Whole warps of a block of 64 threads; 132 bytes of shared memory.
unsafe fn one_lane_arrives(
    from: *const u32,
    to: *mut u32,
    rounds: u32,
    arrive: impl Fn(bool, u32),
) {
    let i = thread_idx_x() % 32;
    let (full, empty, slot) = (shared::dynamic(), shared::dynamic() + 8, shared::dynamic() + 128);
    // SAFETY: barriers at the start of shared memory, and a word beyond them which they guard;
    // whole warps.
    unsafe {
        if thread_idx_x() == 0 {
            mbarrier::init(full, 1);
            mbarrier::init(empty, 1);
        }
        thread::sync_threads();
        for round in 0..rounds {
            let element = round as usize;
            if thread_idx_x() < 32 {
                mbarrier::wait(empty, (round + 1) % 2);
                if i == 0 {
                    shared::store(slot, global::load_cached(from.add(element)));
                }
                arrive(i == 0, full);
            } else {
                mbarrier::wait(full, round % 2);
                let mine = i == round % 32;
                if mine {
                    global::store(to.add(element), shared::load::<u32>(slot));
                }
                mbarrier::arrive_if(mine, empty);
            }
        }
    }
}

/// `one_lane_arrives`, without more.
#[kernel(launch_bounds(64, 1), arch = "sm_80")]
pub unsafe fn mbarrier_arrive_if(from: *const u32, to: *mut u32, rounds: u32) {
    // SAFETY: promised by this kernel's caller; the barrier is made before.
    unsafe {
        one_lane_arrives(from, to, rounds, |condition, full| mbarrier::arrive_if(condition, full))
    }
}

/// `one_lane_arrives`, with an arrival that could announce bytes of copies, and announces none.
#[kernel(launch_bounds(64, 1), arch = "sm_90a")]
pub unsafe fn mbarrier_expect_if(from: *const u32, to: *mut u32, rounds: u32) {
    // SAFETY: promised by this kernel's caller; the barrier is made before.
    unsafe {
        one_lane_arrives(from, to, rounds, |condition, full| {
            mbarrier::arrive_expect_tx_if(condition, full, 0)
        })
    }
}

/// The first warp produces, the second consumes, with mbarriers for full and empty: all lanes `arrive`,
/// which makes so many arrivals. `from` and `to` have `rounds` times 32 elements.
#[inline(always)]
unsafe fn hand_over(
    from: *const u32,
    to: *mut u32,
    rounds: u32,
    arrivals: u32,
    arrive: impl Fn(u32),
) {
    let i = thread_idx_x() % 32;
    let produces = thread_idx_x() < 32;
    let (full, empty, slots) = (shared::dynamic(), shared::dynamic() + 8, shared::dynamic() + 128);
    // SAFETY: barriers at the start of shared memory, and 128 bytes beyond them which they guard;
    // whole warps.
    unsafe {
        if thread_idx_x() == 0 {
            mbarrier::init(full, arrivals);
            mbarrier::init(empty, arrivals);
        }
        thread::sync_threads();
        for round in 0..rounds {
            let element = (32 * round + i) as usize;
            if produces {
                // The slots start empty: the phase before the first counts as over.
                mbarrier::wait(empty, (round + 1) % 2);
                shared::store(slots + 4 * i, global::load_cached(from.add(element)));
                arrive(full);
            } else {
                mbarrier::wait(full, round % 2);
                let value: u32 = shared::load(slots + 4 * (31 - i));
                arrive(empty);
                global::store(to.add(element), value);
            }
        }
    }
}
