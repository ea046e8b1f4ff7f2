//! Clusters: blocks that run together and reach each other's shared memory.

use crate::{
    barrier::Places,
    fault::fault,
    machine::{self, Machine, Site, Wait},
    order::{Meeting, View},
    shared, shared_memory, sites,
};
use std::panic::Location;

/// The barrier of all threads of a cluster.
#[derive(Default)]
pub(crate) struct ClusterBarrier {
    /// Threads that have arrived in the phase that is open.
    pub arrived: usize,
    phase: u32,
    /// By thread, the phase it has arrived in and not waited for.
    pending: Vec<Option<u32>>,
    places: Places,
    open: Meeting,
    closed: View,
}

/// `%cluster_ctarank`: number of the block in its cluster.
pub fn block_rank() -> u32 {
    machine::with(|m| m.rank as u32)
}

/// `%cluster_nctarank`: blocks in the cluster.
pub fn block_count() -> u32 {
    machine::with(|m| m.config.cluster)
}

/// `barrier.cluster.arrive.release.aligned`: every thread of every block arrives once a phase, and
/// then waits once.
#[track_caller]
pub fn arrive() {
    let at = Location::caller();
    if !sites::omitted("barrier.cluster.arrive", at) {
        arrive_at(at);
    }
}

/// `barrier.cluster.wait.acquire.aligned`: until all the threads of the cluster have arrived.
#[track_caller]
pub fn wait() {
    let at = Location::caller();
    if !sites::omitted("barrier.cluster.wait", at) {
        wait_at(at);
    }
}

/// [`arrive`] and [`wait`], as one synchronisation.
#[track_caller]
pub fn sync() {
    let at = Location::caller();
    if !sites::omitted("barrier.cluster", at) {
        arrive_at(at);
        wait_at(at);
    }
}

fn arrive_at(at: Site) {
    machine::with(|m| {
        let me = m.me();
        let barrier = &mut m.cluster_barrier;
        barrier.pending.resize(m.threads.len(), None);
        if barrier.pending[me].is_some() {
            fault!(at, Barrier, "barrier.cluster.arrive a second time, without a wait in between");
        }
        barrier.places.check(me, "barrier.cluster.arrive", at);
        barrier.pending[me] = Some(barrier.phase);
        barrier.arrived += 1;
        m.order.publish(me, &mut barrier.open);
        settle(m);
    });
}

/// Ends the phase once all threads that haven't exited have arrived.
fn settle(m: &mut Machine) {
    let live: usize = m.blocks.iter().map(|block| block.live).sum();
    let barrier = &mut m.cluster_barrier;
    if barrier.arrived > 0 && barrier.arrived == live {
        barrier.arrived = 0;
        barrier.phase += 1;
        barrier.places.clear();
        barrier.closed = barrier.open.close();
        m.wake_all(|wait| wait == Wait::Cluster);
    }
}

/// `thread` has exited: the others don't wait for it.
pub(crate) fn left(m: &mut Machine, thread: usize) {
    let barrier = &mut m.cluster_barrier;
    if let Some(pending) = barrier.pending.get_mut(thread)
        && pending.take() == Some(barrier.phase)
    {
        barrier.arrived -= 1;
    }
    settle(m);
}

fn wait_at(at: Site) {
    let over = machine::with(|m| {
        let me = m.me();
        let barrier = &mut m.cluster_barrier;
        match barrier.pending.get_mut(me).and_then(Option::take) {
            None => fault!(at, Barrier, "barrier.cluster.wait without an arrival before it"),
            Some(phase) => phase != barrier.phase,
        }
    });
    if !over {
        machine::suspend(Wait::Cluster, at);
    }
    machine::with(|m| {
        let me = m.me();
        m.order.observe(me, &m.cluster_barrier.closed);
    });
}

/// `mapa.shared::cluster`: where `address` of this block's shared memory is in that of block
/// `rank`, as an address of the cluster's window, for [`load`], [`store`] and mbarriers.
#[track_caller]
pub fn map_shared(address: u32, rank: u32) -> u32 {
    let count = block_count();
    if rank >= count {
        fault!(
            Location::caller(),
            Cluster,
            "mapa: no block of rank {rank} in a cluster of {count}"
        );
    }
    shared_memory::in_cluster(address, rank as usize)
}

/// `ld.shared::cluster`: a scalar, or an array as a vector, aligned to its size.
#[track_caller]
#[inline]
pub fn load<T: Copy>(address: u32) -> T {
    shared::load_any(address, Location::caller())
}

/// `st.shared::cluster`: a scalar, or an array as a vector, aligned to its size.
#[track_caller]
#[inline]
pub fn store<T: Copy>(address: u32, value: T) {
    shared::store_any(address, value, Location::caller());
}
