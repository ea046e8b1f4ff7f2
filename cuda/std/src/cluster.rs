//! Blocks that run at the same time and see each other's shared memory. From sm_90.
//!
//! The functions that take an address want one made by [`map_shared`].

use crate::{Value, warp::Word};

/// The block's number in its cluster.
#[inline(always)]
pub fn block_rank() -> u32 {
    dual! {
        ptx: asm!(reg32 -> u32: "mov.u32 {}, %cluster_ctarank;", options(pure, nomem, nostack)),
        emulator: cuda_emulator::cluster::block_rank(),
    }
}

/// The cluster's index in the grid, along x.
#[inline(always)]
pub fn cluster_idx_x() -> u32 {
    dual! {
        ptx: asm!(reg32 -> u32: "mov.u32 {}, %clusterid.x;", options(pure, nomem, nostack)),
        emulator: crate::thread::block_idx_x() / cuda_emulator::cluster::block_count(),
    }
}

/// Clusters in the grid, along x.
#[inline(always)]
pub fn cluster_count_x() -> u32 {
    dual! {
        ptx: asm!(reg32 -> u32: "mov.u32 {}, %nclusterid.x;", options(pure, nomem, nostack)),
        emulator: crate::thread::grid_dim_x() / cuda_emulator::cluster::block_count(),
    }
}

/// Blocks in a cluster.
#[inline(always)]
pub fn block_count() -> u32 {
    dual! {
        ptx: asm!(reg32 -> u32: "mov.u32 {}, %cluster_nctarank;", options(pure, nomem, nostack)),
        emulator: cuda_emulator::cluster::block_count(),
    }
}

/// Waits for all the threads of the cluster, and orders their memory accesses.
///
/// # Safety
/// Convergent: all the threads of the cluster.
#[inline(always)]
#[track_caller]
pub unsafe fn sync() {
    // SAFETY: the caller's.
    unsafe {
        arrive();
        wait();
    }
}

/// [`arrive`] which orders no memory accesses but what
/// [`mbarrier_init`](crate::fence::mbarrier_init) did: far cheaper.
///
/// # Safety
/// As for [`arrive`].
#[inline(always)]
#[track_caller]
pub unsafe fn arrive_relaxed() {
    dual! {
        ptx: crate::intrinsics::cluster_arrive_relaxed(),
        emulator: cuda_emulator::cluster::arrive(),
    }
}

/// Counts as come at the cluster's barrier, without waiting.
///
/// # Safety
/// Convergent: each warp as a whole. Each thread calls this and [`wait`] in turn.
#[inline(always)]
#[track_caller]
pub unsafe fn arrive() {
    dual! { ptx: crate::intrinsics::cluster_arrive(), emulator: cuda_emulator::cluster::arrive() }
}

/// Waits until all the threads of the cluster have arrived; what they stored before is visible.
///
/// # Safety
/// As for [`arrive`].
#[inline(always)]
#[track_caller]
pub unsafe fn wait() {
    dual! {
        ptx: crate::intrinsics::cluster_wait(),
        emulator: cuda_emulator::cluster::wait(),
    }
}

/// The address, for the whole cluster, of what is at `addr` in the shared memory of block `rank`.
#[inline(always)]
#[track_caller]
pub fn map_shared(addr: u32, rank: u32) -> u32 {
    dual! {
        ptx: asm!(
            reg32 -> u32: "mapa.shared::cluster.u32 {}, {}, {};",
            in(reg32) addr, in(reg32) rank, options(pure, nomem, nostack),
        ),
        emulator: cuda_emulator::cluster::map_shared(addr, rank),
    }
}

/// Loads from the shared memory of a block of the cluster.
///
/// # Safety
/// `addr` is aligned and inside of the shared memory of a block that has started and not ended,
/// and what was stored there is ordered before this load by the cluster's barrier.
#[inline(always)]
#[track_caller]
pub unsafe fn load<T: Value>(addr: u32) -> T {
    dual! { ptx: T::load_cluster(addr), emulator: cuda_emulator::cluster::load(addr) }
}

/// Stores to the shared memory of a block of the cluster.
///
/// # Safety
/// As for [`load`], and accesses of other threads to `addr` are ordered before or after this
/// store.
#[inline(always)]
#[track_caller]
pub unsafe fn store<T: Value>(addr: u32, value: T) {
    dual! {
        ptx: T::store_cluster(addr, value),
        emulator: cuda_emulator::cluster::store(addr, value),
    }
}

/// Stores to the shared memory of a block of the cluster, without waiting, and tells the barrier of
/// that block at `mbarrier`, which must expect the value's bytes
/// ([`arrive_expect_tx`](crate::mbarrier::arrive_expect_tx)). Who waits for the barrier sees the value.
/// From sm_90, PTX 8.1.
///
/// # Safety
/// As for [`store`], until the barrier's phase has ended. `mbarrier` is an address made by
/// [`map_shared`], for the same block, of a barrier whose initialisation the cluster's barrier has
/// ordered before.
#[inline(always)]
#[track_caller]
pub unsafe fn store_async<T: Word>(addr: u32, value: T, mbarrier: u32) {
    dual! {
        ptx: T::store_async(addr, value, mbarrier),
        emulator: cuda_emulator::copy::store_async(addr, value, mbarrier),
    }
}
