//! Global memory: accesses checked against the buffers that exist.

use crate::{block::Site, fault::fault};
use std::panic::Location;

/// `ld.global`: a scalar, or an array as a vector, aligned to its size.
///
/// # Safety
/// `from` must be valid for reads, or nothing at all (a fault).
#[track_caller]
#[inline]
pub unsafe fn load<T: Copy>(from: *const T) -> T {
    check(from.cast(), size_of::<T>(), Location::caller());
    // SAFETY: promised; the fields of a vector are plain values.
    unsafe { from.read() }
}

/// `st.global`: a scalar, or an array as a vector, aligned to its size.
///
/// # Safety
/// `to` must be valid for writes, or nothing at all (a fault).
#[track_caller]
#[inline]
pub unsafe fn store<T: Copy>(to: *mut T, value: T) {
    check(to.cast(), size_of::<T>(), Location::caller());
    // SAFETY: promised.
    unsafe { to.write(value) };
}

/// Faults unless `len` bytes at `address` are aligned to `len`.
pub(crate) fn check(address: *const u8, len: usize, at: Site) {
    if !(address as usize).is_multiple_of(len) {
        fault!(at, "misaligned access to global memory: {address:p} isn't a multiple of {len}");
    }
}
