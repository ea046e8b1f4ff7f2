//! Global memory: accesses checked against the buffers that exist.

use crate::{
    fault::fault,
    machine::{self, Machine, Site},
    polling,
};
use std::panic::Location;

/// `ld.global`: a scalar, or an array as a vector, aligned to its size. What isn't within a
/// [`Buffer`](crate::Buffer) is a fault.
///
/// # Safety
/// What the buffer holds there must be valid values of `T`, and nobody may write them meanwhile.
#[track_caller]
#[inline]
pub unsafe fn load<T: Copy>(from: *const T) -> T {
    check(from.cast(), size_of::<T>(), Location::caller());
    // SAFETY: within a buffer, by the check, and aligned; valid by promise. The alignment of a
    // vector's elements is all that the type asks for.
    unsafe { from.read() }
}

/// `st.global`: a scalar, or an array as a vector, aligned to its size. What isn't within a
/// [`Buffer`](crate::Buffer) is a fault.
///
/// # Safety
/// Nobody may read or write the place meanwhile.
#[track_caller]
#[inline]
pub unsafe fn store<T: Copy>(to: *mut T, value: T) {
    check(to.cast(), size_of::<T>(), Location::caller());
    // SAFETY: within a buffer, by the check, and aligned; exclusive by promise.
    unsafe { to.write(value) };
}

/// Faults unless `len` bytes at `address` are aligned to `len` and within a buffer.
#[inline]
pub(crate) fn check(address: *const u8, len: usize, at: Site) {
    if !(address as usize).is_multiple_of(len) {
        fault!(
            at,
            Misaligned,
            "misaligned access to global memory: {address:p} isn't a multiple of {len}"
        );
    }
    let spins = machine::with(|m| {
        check_buffers(m, address, len, at);
        m.polling.spins_at(address as usize)
    });
    if spins {
        polling::poll(at);
    }
}

/// Faults unless `len` bytes at `address` are within a buffer.
pub(crate) fn check_range(address: *const u8, len: usize, at: Site) {
    machine::with(|m| check_buffers(m, address, len, at));
}

#[inline]
fn check_buffers(m: &mut Machine, address: *const u8, len: usize, at: Site) {
    if !m.buffers.contain(address as usize, len) {
        let place = m.buffers.describe(address as usize, len);
        fault!(at, OutOfBounds, "access to global memory that is in no buffer: {place}");
    }
}
