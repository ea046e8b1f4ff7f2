//! Clusters. Elements are by thread of the grid.

use cuda_std::{Value, cluster, fence, global, kernel, mbarrier, shared, thread, warp::Word};

/// The block's rank in its cluster, the cluster's blocks, its index in the grid, the grid's clusters.
#[kernel(launch_bounds(32, 1), arch = "sm_90")]
pub unsafe fn cluster_ranks(to: *mut [u32; 4]) {
    let i = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    let block = [cluster::block_rank(), cluster::block_count()];
    let cluster = [cluster::cluster_idx_x(), cluster::cluster_count_x()];
    // SAFETY: an element of the thread's own.
    unsafe { global::store(to.add(i as usize), [block[0], block[1], cluster[0], cluster[1]]) }
}

macro_rules! exchanges {
    ($($kernel:ident: $T:ty;)*) => {$(
        /// Each thread's value through `exchange`.
        #[kernel(launch_bounds(32, 1), arch = "sm_90")]
        pub unsafe fn $kernel(from: *const $T, to: *mut [$T; 2]) {
            // SAFETY: promised by this kernel's caller.
            unsafe { exchange(from, to.cast()) }
        }
    )*};
}

exchanges! {
    cluster_exchange_u8: u8;
    cluster_exchange_u16: u16;
    cluster_exchange_u32: u32;
    cluster_exchange_u64: u64;
    cluster_exchange_f32x4: [f32; 4];
    cluster_exchange_f64x2: [f64; 2];
}

/// Two values for each thread: the next block's, loaded from there, and the previous block's,
/// which stored it here.
#[inline(always)]
unsafe fn exchange<T: Value>(from: *const T, to: *mut T) {
    let (lane, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let i = (thread::block_idx_x() * threads + lane) as usize;
    let next = cluster::block_rank() + 1;
    let next = if next == cluster::block_count() { 0 } else { next };
    let own = shared::dynamic() + lane * size_of::<T>() as u32;
    let received = own + threads * size_of::<T>() as u32;
    // SAFETY: elements of the thread's own; shared memory of two values a thread, ordered by the
    // cluster's barriers, the last of which keeps all blocks alive.
    unsafe {
        let value = global::load_cached(from.add(i));
        shared::store(own, value);
        cluster::sync();
        cluster::store(cluster::map_shared(received, next), value);
        let theirs: T = cluster::load(cluster::map_shared(own, next));
        cluster::arrive();
        global::store(to.add(2 * i), theirs);
        cluster::wait();
        global::store(to.add(2 * i + 1), shared::load::<T>(received));
    }
}

macro_rules! sends {
    ($($kernel:ident: $T:ty;)*) => {$(
        /// Each thread's value through `send`.
        #[kernel(launch_bounds(32, 1), arch = "sm_90")]
        pub unsafe fn $kernel(from: *const $T, to: *mut $T) {
            // SAFETY: promised by this kernel's caller.
            unsafe { send(from, to) }
        }
    )*};
}

sends! {
    cluster_store_async_f32: f32;
    cluster_store_async_u64: u64;
}

/// The previous block's value for each thread, which it sent here.
#[inline(always)]
unsafe fn send<T: Value + Word>(from: *const T, to: *mut T) {
    let (lane, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let i = (thread::block_idx_x() * threads + lane) as usize;
    let next = cluster::block_rank() + 1;
    let next = if next == cluster::block_count() { 0 } else { next };
    let (barrier, received) = (shared::dynamic(), shared::dynamic() + 16 + lane * 8);
    // SAFETY: elements of the thread's own; shared memory of 8 bytes a thread behind the barrier,
    // which the cluster's barrier makes known and whose phase expects a value from each sender.
    unsafe {
        if lane == 0 {
            mbarrier::init(barrier, 1);
            fence::mbarrier_init();
        }
        cluster::arrive_relaxed();
        let value = global::load_cached(from.add(i));
        cluster::wait();
        if lane == 0 {
            mbarrier::arrive_expect_tx(barrier, threads * size_of::<T>() as u32);
        }
        let (there, its_barrier) =
            (cluster::map_shared(received, next), cluster::map_shared(barrier, next));
        cluster::store_async(there, value, its_barrier);
        mbarrier::wait(barrier, 0);
        global::store(to.add(i), shared::load::<T>(received));
    }
}
