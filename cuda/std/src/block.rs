//! The named barriers of a block, 1 to 15; 0 is [`thread::sync_threads`](crate::thread)'s.
//!
//! A barrier completes when `threads` threads have called either function on it, and is then
//! ready for its next use.

/// Waits until `threads` threads have come, and orders their memory accesses (`bar.sync`).
///
/// # Safety
/// Convergent: each warp that takes part, as a whole. `threads` is a multiple of 32 and the same
/// in all calls of one use; `id` is below 16.
#[inline(always)]
#[track_caller]
pub unsafe fn barrier_sync(id: u32, threads: u32) {
    dual! {
        ptx: crate::intrinsics::barrier_sync(id, threads),
        emulator: cuda_emulator::barrier::sync(id, Some(threads)),
    }
}

/// Counts as come, without waiting: what was stored before is visible to those who wait
/// (`bar.arrive`).
///
/// # Safety
/// As for [`barrier_sync`]; and a warp does not arrive twice in one use.
#[inline(always)]
#[track_caller]
pub unsafe fn barrier_arrive(id: u32, threads: u32) {
    dual! {
        ptx: crate::intrinsics::barrier_arrive(id, threads),
        emulator: cuda_emulator::barrier::arrive(id, threads),
    }
}
