//! Bulk copies from global to shared memory by one instruction, which report to an
//! [`mbarrier`](crate::mbarrier). From sm_90, PTX 8.0.

use crate::cache::Policy;

/// Asks for `bytes` bytes in the L2 cache, and waits for nothing.
///
/// # Safety
/// `from` is aligned to 16, and `bytes` is a positive multiple of 16. `from` is valid for so many
/// bytes of global memory.
#[inline(always)]
#[track_caller]
pub unsafe fn prefetch(from: *const u8, bytes: u32) {
    dual! {
        ptx: core::arch::asm!(
            "cp.async.bulk.prefetch.L2.global [{}], {};",
            in(reg64) from, in(reg32) bytes, options(nostack),
        ),
        emulator: cuda_emulator::copy::bulk_prefetch(from, bytes),
    }
}

/// Copies `bytes` bytes, and tells the barrier of the block's own at `mbarrier` when they are
/// there: its phase must expect them
/// ([`arrive_expect_tx`](crate::mbarrier::arrive_expect_tx)). The L2 cache treats their lines by
/// `policy`.
///
/// # Safety
/// `to` and `from` are aligned to 16, and `bytes` is a positive multiple of 16. `from` is valid
/// for so many bytes of global memory, and nobody stores there, until the phase has ended; until
/// then nobody touches the bytes at `to`, and what threads did there before is ordered before by
/// [`proxy_async`](crate::fence::proxy_async). The barrier's initialisation is, too.
#[inline(always)]
#[track_caller]
pub unsafe fn load(to: u32, from: *const u8, bytes: u32, mbarrier: u32, policy: Policy) {
    dual! {
        ptx: core::arch::asm!(
            concat!(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
                ".L2::cache_hint [{}], [{}], {}, [{}], {};",
            ),
            in(reg32) to, in(reg64) from, in(reg32) bytes, in(reg32) mbarrier,
            in(reg64) policy.operand(), options(nostack),
        ),
        emulator: {
            let _ = policy;
            cuda_emulator::copy::bulk_load(to, from, bytes, mbarrier)
        },
    }
}
