//! Global memory. A vector is one access, and must be aligned to its whole size.

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

/// Loads what is constant while the kernel runs, and is loaded only once: leaves L1 to others.
///
/// # Safety
/// As for [`load_cached`].
#[inline(always)]
#[track_caller]
pub unsafe fn load_streaming<T: Value>(from: *const T) -> T {
    dual! { ptx: T::load_global_nc_once(from), emulator: cuda_emulator::global::load(from) }
}

/// Loads what the kernel may itself write later, and is loaded only once: leaves L1 to others.
///
/// # Safety
/// As for [`load`].
#[inline(always)]
#[track_caller]
pub unsafe fn load_once<T: Value>(from: *const T) -> T {
    dual! { ptx: T::load_global_once(from), emulator: cuda_emulator::global::load(from) }
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

/// Stores what this kernel will not load again: first to be evicted from the caches.
///
/// # Safety
/// As for [`store`].
#[inline(always)]
#[track_caller]
pub unsafe fn store_streaming<T: Value>(to: *mut T, value: T) {
    dual! { ptx: T::store_global_once(to, value), emulator: cuda_emulator::global::store(to, value) }
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

/// [`load_streaming`] where `condition` holds, else `otherwise`; without a branch, so that several
/// of them are under way at once.
///
/// # Safety
/// As for [`load_cached`], where `condition` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn load_streaming_if<T: Value>(condition: bool, from: *const T, otherwise: T) -> T {
    dual! {
        ptx: T::load_global_nc_once_if(condition, from, otherwise),
        emulator: if condition { cuda_emulator::global::load(from) } else { otherwise },
    }
}

/// [`load_once`] where `condition` holds, else `otherwise`; without a branch, so that several of
/// them are under way at once.
///
/// # Safety
/// As for [`load`], where `condition` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn load_once_if<T: Value>(condition: bool, from: *const T, otherwise: T) -> T {
    dual! {
        ptx: T::load_global_once_if(condition, from, otherwise),
        emulator: if condition { cuda_emulator::global::load(from) } else { otherwise },
    }
}

/// [`store_streaming`] where `condition` holds, without a branch.
///
/// # Safety
/// As for [`store`], where `condition` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn store_streaming_if<T: Value>(condition: bool, to: *mut T, value: T) {
    dual! {
        ptx: T::store_global_once_if(condition, to, value),
        emulator: if condition {
            cuda_emulator::global::store(to, value)
        },
    }
}
