//! Clusters: blocks that run together and reach each other's shared memory.

use crate::{block, fault::fault};
use std::panic::Location;

/// `%cluster_ctarank`: number of the block in its cluster.
pub fn block_rank() -> u32 {
    block::with(|_| 0)
}

/// `%cluster_nctarank`: blocks in the cluster.
pub fn block_count() -> u32 {
    block::with(|_| 1)
}

/// `barrier.cluster.arrive.release`: every thread of every block arrives once a phase.
#[track_caller]
pub fn arrive() {
    crate::barrier::arrive(15, block::with(|b| b.threads.len() as u32));
}

/// `barrier.cluster.wait.acquire`: until all the threads of the cluster have arrived.
#[track_caller]
pub fn wait() {
    crate::barrier::sync(0, None);
}

/// `mapa.shared::cluster`: where `address` of this block's shared memory is in that of block
/// `rank`, as an address of the cluster's window, for [`load`] and [`store`].
#[track_caller]
pub fn map_shared(address: u32, rank: u32) -> u32 {
    if rank >= block_count() {
        fault!(Location::caller(), "mapa: no block {rank} in a cluster of {}", block_count());
    }
    address
}

/// `ld.shared::cluster`: a scalar, or an array as a vector.
#[track_caller]
pub fn load<T: Copy>(address: u32) -> T {
    crate::shared::load(address)
}

/// `st.shared::cluster`
#[track_caller]
pub fn store<T: Copy>(address: u32, value: T) {
    crate::shared::store(address, value);
}
