//! Shuffles, votes, reductions.

use cuda_std::{global, kernel, shared, thread::thread_idx_x, warp};

macro_rules! shuffles {
    ($($kernel:ident: $shuffle:ident of $T:ty;)*) => {$(
        /// Each lane's result of the shuffle by `lanes`.
        #[kernel(launch_bounds(64, 1))]
        pub unsafe fn $kernel(from: *const $T, to: *mut $T, lanes: u32) {
            let i = thread_idx_x() as usize;
            // SAFETY: elements of the thread's own; whole warps.
            unsafe {
                let value = global::load_cached(from.add(i));
                global::store(to.add(i), warp::$shuffle(warp::FULL_MASK, value, lanes));
            }
        }
    )*};
}

shuffles! {
    shuffle_xor_u32: shuffle_xor of u32;
    shuffle_xor_f32: shuffle_xor of f32;
    shuffle_xor_u64: shuffle_xor of u64;
    shuffle_xor_f64: shuffle_xor of f64;
    shuffle_up_i32: shuffle_up of i32;
    shuffle_up_f64: shuffle_up of f64;
    shuffle_down_f32: shuffle_down of f32;
    shuffle_down_u64: shuffle_down of u64;
    shuffle_idx_u32: shuffle_idx of u32;
    shuffle_idx_f64: shuffle_idx of f64;
}

/// A butterfly among the even lanes, and one among the odd ones, at the same time.
#[kernel(launch_bounds(32, 1))]
pub unsafe fn shuffle_half_warps(from: *const u32, to: *mut u32) {
    let i = thread_idx_x();
    // SAFETY: elements of the thread's own; each half-warp has its own mask.
    unsafe {
        let value = global::load_cached(from.add(i as usize));
        let mask = if i.is_multiple_of(2) { 0x5555_5555 } else { 0xaaaa_aaaa };
        global::store(to.add(i as usize), warp::shuffle_xor(mask, value, 2));
    }
}

/// All, any and ballot, and the lane's number, for whether a value is below the limit.
#[kernel(launch_bounds(64, 1))]
pub unsafe fn votes(from: *const u32, to: *mut [u32; 4], limit: u32) {
    let i = thread_idx_x() as usize;
    // SAFETY: elements of the thread's own; whole warps.
    unsafe {
        let below = global::load_cached(from.add(i)) < limit;
        let all = warp::vote_all(warp::FULL_MASK, below) as u32;
        let any = warp::vote_any(warp::FULL_MASK, below) as u32;
        let ballot = warp::ballot(warp::FULL_MASK, below);
        global::store(to.add(i), [all, any, ballot, warp::lane_id()]);
    }
}

/// The lane elected from the mask, as a ballot.
#[kernel(launch_bounds(32, 1))]
pub unsafe fn elect(to: *mut u32, mask: u32) {
    let i = thread_idx_x();
    let elected = mask >> i & 1 == 1 && warp::elect(mask);
    // SAFETY: an element of the thread's own; a whole warp.
    unsafe {
        global::store(to.add(i as usize), warp::ballot(warp::FULL_MASK, elected));
    }
}

/// Sum, minimum, maximum; and, or.
#[kernel(launch_bounds(64, 1), arch = "sm_80")]
pub unsafe fn reductions(from: *const u32, order: *mut [u32; 4], bits: *mut [u32; 2]) {
    let i = thread_idx_x() as usize;
    // SAFETY: elements of the thread's own; whole warps.
    unsafe {
        let value = global::load_cached(from.add(i));
        let add = warp::reduce_add_u32(warp::FULL_MASK, value);
        let min = warp::reduce_min_u32(warp::FULL_MASK, value);
        let max = warp::reduce_max_u32(warp::FULL_MASK, value);
        let and = warp::reduce_and_u32(warp::FULL_MASK, value);
        let or = warp::reduce_or_u32(warp::FULL_MASK, value);
        global::store(order.add(i), [add, min, max, warp::lane_id()]);
        global::store(bits.add(i), [and, or]);
    }
}

/// Lanes hand a value to their neighbour through shared memory, with the warp's barrier between.
#[kernel(launch_bounds(32, 1))]
pub unsafe fn sync_warp(from: *const u32, to: *mut u32) {
    let i = thread_idx_x();
    // SAFETY: elements of the thread's own; shared memory of 4 bytes a lane, ordered by the
    // barriers of a whole warp.
    unsafe {
        shared::store(shared::dynamic() + 4 * i, global::load_cached(from.add(i as usize)));
        warp::sync_warp(warp::FULL_MASK);
        let value: u32 = shared::load(shared::dynamic() + 4 * (i ^ 1));
        global::store(to.add(i as usize), value);
    }
}
