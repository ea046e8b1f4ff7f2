//! Fences: what a thread has written before is visible to others who see what it writes after.

/// Orders the thread's memory accesses for all threads of the GPU (`__threadfence`).
#[inline(always)]
#[track_caller]
pub fn threadfence() {
    dual! {
        ptx: crate::intrinsics::membar_gl(),
        emulator: cuda_emulator::fence::threadfence(),
    }
}

/// Orders the thread's memory accesses for the threads of its block (`__threadfence_block`).
#[inline(always)]
#[track_caller]
pub fn threadfence_block() {
    dual! {
        ptx: crate::intrinsics::membar_cta(),
        emulator: cuda_emulator::fence::threadfence_block(),
    }
}

/// Lets asynchronous operations of the hardware (TMA, wgmma) that start later see what the thread
/// has stored to shared memory (`fence.proxy.async`). From sm_90, PTX 8.0.
#[inline(always)]
#[track_caller]
pub fn proxy_async() {
    dual! {
        ptx: core::arch::asm!("fence.proxy.async.shared::cta;", options(nostack)),
        emulator: cuda_emulator::fence::proxy_async(),
    }
}

/// Makes the thread's barriers ([`mbarrier::init`](crate::mbarrier::init)) known to the cluster by its
/// next barrier, even if that is relaxed. From sm_90, PTX 8.0.
#[inline(always)]
#[track_caller]
pub fn mbarrier_init() {
    dual! {
        ptx: core::arch::asm!("fence.mbarrier_init.release.cluster;", options(nostack)),
        // The emulator's barriers order initialisations as all else.
        emulator: (),
    }
}
