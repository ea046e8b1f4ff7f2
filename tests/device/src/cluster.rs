//! Clusters. Elements are by thread of the grid.

use cuda_std::{Value, cluster, global, kernel, shared, thread};

/// Block rank and block count of the cluster.
#[kernel(launch_bounds(32, 1), arch = "sm_90")]
pub unsafe fn cluster_ranks(to: *mut [u32; 2]) {
    let i = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    // SAFETY: an element of the thread's own.
    unsafe { global::store(to.add(i as usize), [cluster::block_rank(), cluster::block_count()]) }
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
