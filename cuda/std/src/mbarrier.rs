//! Barriers in shared memory, of 8 bytes: each phase ends after a number of arrivals and of bytes
//! copied. From sm_80; bytes from sm_90.
//!
//! Phases alternate in parity, the first has parity 0. Waiting for parity 1 on a new barrier
//! succeeds at once.

/// Makes a barrier whose phases take `count` arrivals.
///
/// # Safety
/// `addr` is aligned to 8 and inside of shared memory, and no barrier is in use there. Others use
/// it only after a barrier of another kind.
#[inline(always)]
#[track_caller]
pub unsafe fn init(addr: u32, count: u32) {
    dual! {
        ptx: core::arch::asm!(
            "mbarrier.init.shared.b64 [{}], {};",
            in(reg32) addr, in(reg32) count, options(nostack),
        ),
        emulator: cuda_emulator::mbarrier::init(addr, count),
    }
}

/// Arrives; what the thread has stored before is visible to those who wait.
///
/// # Safety
/// There is a barrier at `addr`, and its phase lacks an arrival.
#[inline(always)]
#[track_caller]
pub unsafe fn arrive(addr: u32) {
    dual! {
        ptx: core::arch::asm!(
            "{{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [{}]; }}",
            in(reg32) addr, options(nostack),
        ),
        emulator: cuda_emulator::mbarrier::arrive(addr, 0),
    }
}

/// [`arrive`] at the barrier of another block of the cluster, or one's own: `addr` is an address made
/// by [`map_shared`](crate::cluster::map_shared). From sm_90.
///
/// On the GPU, what the thread has stored before is not made visible to the other block: it tells that
/// it has read what is to be overwritten there. Making it visible costs a fence of the whole GPU's
/// memory at each arrival.
///
/// # Safety
/// As for [`arrive`], and the cluster's barrier has ordered the barrier's initialisation before.
#[inline(always)]
#[track_caller]
pub unsafe fn arrive_remote(addr: u32) {
    dual! {
        ptx: core::arch::asm!(
            "mbarrier.arrive.shared::cluster.b64 _, [{}];", in(reg32) addr, options(nostack),
        ),
        emulator: cuda_emulator::mbarrier::arrive(addr, 0),
    }
}

/// [`arrive`] where `condition` holds, without a branch: for one thread of a warp beside
/// convergent instructions, which a branch could separate.
///
/// # Safety
/// As for [`arrive`], where `condition` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn arrive_if(condition: bool, addr: u32) {
    dual! {
        ptx: core::arch::asm!(
            "{{ .reg .pred p; .reg .b64 state; setp.ne.u32 p, {}, 0;",
            "@p mbarrier.arrive.shared.b64 state, [{}]; }}",
            in(reg32) condition as u32, in(reg32) addr, options(nostack),
        ),
        emulator: if condition {
            cuda_emulator::mbarrier::arrive(addr, 0)
        },
    }
}

/// Arrives, and lets the phase wait for `bytes` more bytes of asynchronous copies. From sm_90,
/// PTX 8.0.
///
/// # Safety
/// As for [`arrive`]; copies of that many bytes in all report to the barrier in this phase.
#[inline(always)]
#[track_caller]
pub unsafe fn arrive_expect_tx(addr: u32, bytes: u32) {
    dual! {
        ptx: core::arch::asm!(
            "{{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [{}], {}; }}",
            in(reg32) addr, in(reg32) bytes, options(nostack),
        ),
        emulator: cuda_emulator::mbarrier::arrive(addr, bytes),
    }
}

/// [`arrive_expect_tx`] where `condition` holds, without a branch, as [`arrive_if`].
///
/// # Safety
/// As for [`arrive_expect_tx`], where `condition` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn arrive_expect_tx_if(condition: bool, addr: u32, bytes: u32) {
    dual! {
        ptx: core::arch::asm!(
            "{{ .reg .pred p; .reg .b64 state; setp.ne.u32 p, {}, 0;",
            "@p mbarrier.arrive.expect_tx.shared::cta.b64 state, [{}], {}; }}",
            in(reg32) condition as u32, in(reg32) addr, in(reg32) bytes, options(nostack),
        ),
        emulator: if condition {
            cuda_emulator::mbarrier::arrive(addr, bytes)
        },
    }
}

/// Has the phase of this parity ended? If so, what was stored before its arrivals is visible.
///
/// # Safety
/// There is a barrier at `addr`, in the phase of this parity or the one after.
#[inline(always)]
#[track_caller]
pub unsafe fn test(addr: u32, parity: u32) -> bool {
    dual! {
        ptx: asm!(
            reg32 -> u32: concat!(
                "{{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [{1}], {2};",
                " selp.u32 {0}, 1, 0, p; }}",
            ),
            in(reg32) addr, in(reg32) parity, options(nostack),
        ) != 0,
        emulator: cuda_emulator::mbarrier::test(addr, parity),
    }
}

/// Waits until the phase of this parity has ended. What was stored before its arrivals is then
/// visible.
///
/// # Safety
/// As for [`test()`].
#[inline(always)]
#[track_caller]
pub unsafe fn wait(addr: u32, parity: u32) {
    dual! {
        ptx: {
            // sm_90 can sleep for a while in the instruction.
            #[cfg(any(cuda_arch = "sm_70", cuda_arch = "sm_80"))]
            while !test(addr, parity) {}
            #[cfg(not(any(cuda_arch = "sm_70", cuda_arch = "sm_80")))]
            while asm!(
                reg32 -> u32: concat!(
                    "{{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [{1}], {2};",
                    " selp.u32 {0}, 1, 0, p; }}",
                ),
                in(reg32) addr, in(reg32) parity, options(nostack),
            ) == 0 {}
        },
        emulator: cuda_emulator::mbarrier::wait(addr, parity),
    }
}
