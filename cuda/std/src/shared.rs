//! Shared memory, by 32-bit addresses of its window.

use crate::Value;

#[cfg(target_arch = "nvptx64")]
core::arch::global_asm!(".extern .shared .align 1024 .b8 dyn_smem[];");

/// The address of the block's dynamic shared memory, aligned to 1024 bytes; its size is given at
/// launch.
#[inline(always)]
pub fn dynamic() -> u32 {
    dual! {
        ptx: asm!(reg32 -> u32: "mov.u32 {}, dyn_smem;", options(pure, nomem, nostack)),
        emulator: cuda_emulator::shared::dynamic(),
    }
}

/// Loads from shared memory.
///
/// # Safety
/// `addr` is aligned and inside of shared memory, and what was stored there is ordered before
/// this load (by a barrier, if another thread stored it).
#[inline(always)]
#[track_caller]
pub unsafe fn load<T: Value>(addr: u32) -> T {
    dual! { ptx: T::load_shared(addr), emulator: cuda_emulator::shared::load(addr) }
}

/// Stores to shared memory.
///
/// # Safety
/// `addr` is aligned and inside of shared memory, and accesses of other threads to it are ordered
/// before or after this store by a barrier.
#[inline(always)]
#[track_caller]
pub unsafe fn store<T: Value>(addr: u32, value: T) {
    dual! { ptx: T::store_shared(addr, value), emulator: cuda_emulator::shared::store(addr, value) }
}
