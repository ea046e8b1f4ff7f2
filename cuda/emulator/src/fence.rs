//! Fences.

use crate::{machine, sites};
use std::{
    panic::Location,
    sync::atomic::{Ordering::SeqCst, fence},
};

/// `fence.acq_rel.gpu` (`membar.gl`): orders this thread's accesses to global memory, for which it
/// is the host's own.
#[track_caller]
pub fn threadfence() {
    if !sites::omitted("fence.acq_rel.gpu", Location::caller()) {
        fence(SeqCst);
    }
}

/// `fence.acq_rel.cta` (`membar.cta`): orders this thread's accesses within the block. Alone it
/// doesn't make two threads meet, so for the race check it does nothing.
#[track_caller]
pub fn threadfence_block() {
    if !sites::omitted("fence.acq_rel.cta", Location::caller()) {
        fence(SeqCst);
    }
}

/// `fence.mbarrier_init.release.cluster`: lets the other blocks of the cluster see the mbarriers
/// that this thread has initialised, once they have met it at a barrier.
#[track_caller]
pub fn mbarrier_init() {
    let _ = sites::omitted("fence.mbarrier_init", Location::caller());
}

/// `fence.proxy.async`: lets the async proxy (TMA, wgmma) see this thread's earlier ordinary
/// writes to shared memory.
#[track_caller]
pub fn proxy_async() {
    if !sites::omitted("fence.proxy.async", Location::caller()) {
        machine::with(|m| m.order.proxy_fence(m.me()));
    }
}
