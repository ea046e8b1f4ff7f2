//! Fences.

use crate::block;

/// `fence.acq_rel.gpu` (`membar.gl`): orders this thread's accesses to global memory.
#[track_caller]
pub fn threadfence() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// `fence.acq_rel.cta` (`membar.cta`): orders this thread's accesses within the block.
#[track_caller]
pub fn threadfence_block() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// `fence.proxy.async`: lets the async proxy (TMA, wgmma) see this thread's earlier ordinary
/// writes to shared memory.
#[track_caller]
pub fn proxy_async() {
    block::with(|b| b.order.proxy_fence(b.me()));
}
