//! Kernels with one mistake each. Where a line is to be blamed, a comment beside it says for what.
//!
//! They call the emulator's side of the primitives directly, so that they test the emulator alone.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "nothing promises that these kernels are right: what they do wrong must be stopped"
)]

use cuda_emulator::{
    barrier, cluster, copy, fence, global, mbarrier, shared,
    thread::{self, block_dim, thread_idx},
    warp,
};
use cuda_std::kernel;

/// The shared address of the running thread's word.
fn word(index: u32) -> u32 {
    shared::dynamic() + 4 * index
}

fn t() -> u32 {
    thread_idx().x
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn does_nothing() {}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn shared_beyond_the_end() {
    shared::store(word(t()), 1u32); // blame: shared out of bounds
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn shared_misaligned() {
    shared::store(word(t()), [0u32; 4]); // blame: shared misaligned
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn shared_uninitialised() {
    if t() != 7 {
        shared::store(word(t()), 1u32);
    }
    barrier::sync(0, None);
    let _: u32 = shared::load(word(t())); // blame: shared uninitialised
}

/// Reads its neighbour's word without a barrier in between.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn shared_race() {
    shared::store(word(t()), 0u32);
    barrier::sync(0, None);
    shared::store(word(t()), t()); // blame: racing write
    let _: u32 = shared::load(word((t() + 1) % block_dim().x)); // blame: racing read
}

/// A write after others have read, with nothing in between.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn shared_race_of_a_loop() {
    for round in 0..2 {
        if t() == 0 {
            shared::store(word(0), round); // blame: write of the next round
        }
        barrier::sync(0, None);
        let _: u32 = shared::load(word(0));
    }
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn global_beyond_the_end(y: *mut f32) {
    unsafe { global::store(y.add(t() as usize), 1.) }; // blame: global store
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn global_vector_beyond_the_end(x: *const f32) {
    let _: [f32; 4] = unsafe { global::load(x.add(4 * t() as usize).cast()) }; // blame: vector
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn global_misaligned(x: *const f32) {
    let _: [f32; 2] = unsafe { global::load(x.add(t() as usize).cast()) }; // blame: global misaligned
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn atomic_beyond_the_end(y: *mut u32) {
    unsafe { cuda_emulator::atomic::add_u32(y.add(t() as usize), 1) }; // blame: atomic
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn copy_beyond_the_end(x: *const u32) {
    let from = unsafe { x.add(4 * t() as usize) };
    unsafe { copy::cp_async(word(4 * t()), from.cast(), 16, 16) }; // blame: cp.async source
}

/// By a raw pointer, which nothing checks but the page behind the buffer.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn raw_beyond_the_end(y: *mut u32) {
    unsafe { y.add(t() as usize).write_volatile(1) }; // blame: raw pointer
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn uses_up_the_stack(y: *mut u32) {
    #[inline(never)]
    unsafe fn deep(y: *mut u32, n: u32) -> u32 {
        let mut a = [n; 64];
        a[(n % 64) as usize] = unsafe { y.add((n % 8) as usize).read_volatile() };
        match n {
            0 => 0,
            n => a[(n % 64) as usize] + unsafe { deep(y, n - 1) } + a[(n / 2 % 64) as usize],
        }
    }
    let sum = unsafe { deep(y, 1 << 20) };
    unsafe { y.write(sum) };
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn panics(n: u32) {
    assert!(t() < n, "thread {} isn't below {n}", t()); // blame: panic
}

/// Half a warp shuffles one way, half another.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn divergent_shuffle() {
    let lane = t() % 32;
    match lane < 16 {
        true => warp::shuffle("shfl.sync.bfly", !0, 1u32, lane ^ 1), // blame: one shuffle
        false => warp::shuffle("shfl.sync.down", !0, 1u32, lane),    // blame: other shuffle
    };
}

/// Half a warp shuffles words, half double words.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn shuffle_of_two_sizes() {
    let lane = t() % 32;
    if lane < 16 {
        warp::shuffle("shfl.sync.bfly", !0, 1u32, lane ^ 1);
    } else {
        warp::shuffle("shfl.sync.bfly", !0, 1u64, lane ^ 1); // blame: double word
    }
}

/// A lane that its own mask leaves out.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn shuffle_without_oneself() {
    warp::ballot(0xffff, true); // blame: mask
}

/// The lanes of a warp meet a barrier at two places.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn divergent_barrier() {
    if t() < 1 {
        barrier::sync(0, None);
    } else {
        barrier::sync(0, None); // blame: divergent barrier
    }
}

/// Threads from `n` on end before a barrier of the block, which doesn't wait for them.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn ends_early(y: *mut u32, n: u32) {
    if t() >= n {
        return;
    }
    shared::store(word(t()), t());
    barrier::sync(0, None);
    let next: u32 = shared::load(word((t() + 1) % n));
    unsafe { global::store(y.add(t() as usize), next) };
}

/// The second warp never gets to the barrier.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn barrier_without_others() {
    if t() < 32 {
        barrier::sync(1, Some(64)); // blame: deadlock
    } else {
        warp::sync(!0);
    }
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn barrier_of_two_counts() {
    let count = if t() < 32 { 64 } else { 96 };
    barrier::sync(1, Some(count)); // blame: counts
}

/// Two warps wait for each other's mbarrier.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn mbarriers_crossed() {
    let base = shared::dynamic();
    if t() == 0 {
        mbarrier::init(base, 32);
        mbarrier::init(base + 8, 32);
    }
    barrier::sync(0, None);
    let (wait, arrive) = if t() < 32 { (base, base + 8) } else { (base + 8, base) };
    mbarrier::wait(wait, 0); // blame: mbarriers
    mbarrier::arrive(arrive, 0);
}

/// Polls for what nobody does.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn polls_for_ever() {
    loop {
        thread::poll(); // blame: livelock
    }
}

/// Waits for a word of global memory to change, which the last thread of block `by` does.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn spins(flag: *mut u32, by: u32) {
    if t() == block_dim().x - 1 && thread::block_idx().x == by {
        unsafe { cuda_emulator::atomic::exchange_u32(flag, 1) };
    }
    while unsafe { global::load(flag) } == 0 {} // blame: spin
}

/// Copies asynchronously, and forgets what `forgotten` says: 1 to commit, 2 to wait, 3 the barrier
/// after the wait. 0: nothing.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn copies(x: *const u32, y: *mut u32, forgotten: u32) {
    let n = block_dim().x;
    let from = unsafe { x.add(4 * t() as usize) };
    unsafe { copy::cp_async(word(4 * t()), from.cast(), 16, 16) };
    if forgotten != 1 {
        copy::commit();
    }
    if forgotten != 2 {
        copy::wait(0);
    }
    if forgotten != 3 {
        barrier::sync(0, None);
    }
    let next: [u32; 4] = shared::load(word(4 * ((t() + 1) % n)));
    unsafe { global::store(y.add(4 * t() as usize).cast(), next) };
}

/// Sums over a block in rounds, with every barrier it needs: the sites of which none may go.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn sums(y: *mut u32) {
    let n = block_dim().x;
    for round in 0..2 {
        shared::store(word(t()), t() + round);
        barrier::sync(0, None); // site: stores
        let mut half = n / 2;
        while half > 0 {
            if t() < half {
                let sum = shared::load::<u32>(word(t())) + shared::load::<u32>(word(t() + half));
                shared::store(word(t()), sum);
            }
            barrier::sync(0, None); // site: halves
            half /= 2;
        }
        if t() == n - 1 {
            let sum: u32 = shared::load(word(0));
            unsafe { global::store(y.add(round as usize), sum) };
        }
        fence::threadfence_block(); // site: fence
        barrier::sync(0, None); // site: next round
    }
}

/// Each block reads a word of the next one's, and forgets what `forgotten` says: 1 the barrier
/// before, 2 the one after. 0: nothing.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn neighbours(y: *mut u32, forgotten: u32) {
    let (rank, count) = (cluster::block_rank(), cluster::block_count());
    shared::store(word(t()), rank * 1000 + t());
    if forgotten != 1 {
        cluster::arrive();
        cluster::wait();
    }
    let place = cluster::map_shared(word(t()), (rank + 1) % count);
    let value: u32 = cluster::load(place); // blame: neighbour
    if forgotten != 2 {
        cluster::arrive();
        cluster::wait();
    }
    let index = thread::block_idx().x * block_dim().x + t();
    unsafe { global::store(y.add(index as usize), value) };
}

/// Stores into the next block before it is known to have started.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn stores_before_the_start() {
    let (rank, count) = (cluster::block_rank(), cluster::block_count());
    cluster::store(cluster::map_shared(word(t()), (rank + 1) % count), 0u32); // blame: start
    cluster::sync();
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn maps_beyond_the_cluster() {
    cluster::map_shared(word(0), 2); // blame: mapa
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn cluster_beyond_the_end() {
    cluster::sync();
    let place = cluster::map_shared(word(t()), 1);
    cluster::store(place, 1u32); // blame: remote out of bounds
    cluster::sync();
}

/// All blocks write the same word of the first.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn cluster_race() {
    cluster::sync();
    if t() == 0 {
        cluster::store(cluster::map_shared(word(0), 0), 1u32); // blame: remote race
    }
    cluster::sync();
}

/// One block of the cluster doesn't come to the barrier.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn cluster_deadlock() {
    if cluster::block_rank() == 0 {
        cluster::arrive();
        cluster::wait(); // blame: cluster barrier
    } else if t() < 32 {
        barrier::sync(1, Some(64));
    }
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn cluster_arrives_twice() {
    cluster::arrive();
    cluster::arrive(); // blame: twice
    cluster::wait();
}

#[kernel(launch_bounds(128, 1))]
pub unsafe fn cluster_waits_at_once() {
    cluster::wait(); // blame: wait
}
