//! Global memory. A vector is one access, and must be aligned to its whole size.
//!
//! Loads and stores leave it to the caches what stays: hints that data is used only once
//! (`L1::no_allocate`, `cs`) make the L2 cache evict it first, which on an H200 costs streaming
//! kernels 2 to 5 % of a copy's speed.

use crate::Value;

/// Loads what the kernel may itself have written.
///
/// # Safety
/// `from` is aligned and valid in global memory, and no other thread stores there unless a
/// barrier or a fence orders it.
#[inline(always)]
#[track_caller]
pub unsafe fn load<T: Value>(from: *const T) -> T {
    dual! { ptx: T::load_global(from), emulator: cuda_emulator::global::load(from) }
}

/// Loads what is constant while the kernel runs, and will be loaded again: keeps it in L1.
///
/// # Safety
/// `from` is aligned and valid in global memory, and nobody stores there while the kernel runs.
#[inline(always)]
#[track_caller]
pub unsafe fn load_cached<T: Value>(from: *const T) -> T {
    dual! { ptx: T::load_global_nc(from), emulator: cuda_emulator::global::load(from) }
}

/// Asks for the 32 bytes around `from` to be brought to the L2 cache.
///
/// # Safety
/// `from` is valid in global memory.
#[inline(always)]
#[track_caller]
pub unsafe fn fetch(from: *const u8) {
    dual! {
        ptx: core::arch::asm!("prefetch.global.L2 [{}];", in(reg64) from, options(nostack)),
        emulator: {
            let _: u8 = cuda_emulator::global::load(from);
        },
    }
}

/// Stores.
///
/// # Safety
/// `to` is aligned and valid for writes in global memory, and accesses of other threads to it are
/// ordered before or after this store by a barrier or a fence.
#[inline(always)]
#[track_caller]
pub unsafe fn store<T: Value>(to: *mut T, value: T) {
    dual! { ptx: T::store_global(to, value), emulator: cuda_emulator::global::store(to, value) }
}

/// [`load_cached`] where `condition` holds, else `otherwise`; without a branch, so that several of
/// them are under way at once.
///
/// # Safety
/// As for [`load_cached`], where `condition` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn load_cached_if<T: Value>(condition: bool, from: *const T, otherwise: T) -> T {
    dual! {
        ptx: T::load_global_nc_if(condition, from, otherwise),
        emulator: if condition { cuda_emulator::global::load(from) } else { otherwise },
    }
}

/// A u16 as [`load_cached_if`] loads it, or 0, in a register of its own: one of 16 bits would be half
/// of another, whose value the assembler keeps from before.
///
/// # Safety
/// As for [`load_cached`], where `condition` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn load_cached_u16_if(condition: bool, from: *const u16) -> u32 {
    dual! {
        ptx: {
            let mut value = 0u32;
            core::arch::asm!(
                "{{ .reg .pred p; setp.ne.u32 p, {}, 0; @p ld.global.nc.u16 {}, [{}]; }}",
                in(reg32) condition as u32, inout(reg32) value, in(reg64) from,
                options(pure, nomem, nostack),
            );
            value
        },
        emulator: if condition { cuda_emulator::global::load(from) as u32 } else { 0 },
    }
}

/// [`load`] where `condition` holds, else `otherwise`; without a branch, so that several of them are
/// under way at once.
///
/// # Safety
/// As for [`load`], where `condition` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn load_if<T: Value>(condition: bool, from: *const T, otherwise: T) -> T {
    dual! {
        ptx: T::load_global_if(condition, from, otherwise),
        emulator: if condition { cuda_emulator::global::load(from) } else { otherwise },
    }
}
