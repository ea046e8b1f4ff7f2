//! Shared memory, by 32-bit addresses of the shared window.

use crate::{machine, order::By, shared_memory::BASE};
use std::{mem::MaybeUninit, panic::Location};

/// Address of dynamic shared memory.
pub fn dynamic() -> u32 {
    BASE
}

/// `ld.shared`: a scalar, or an array as a vector, aligned to its size.
#[track_caller]
#[inline]
pub fn load<T: Copy>(addr: u32) -> T {
    let at = Location::caller();
    let mut value = MaybeUninit::<T>::uninit();
    machine::with(|m| {
        let by = By::Thread(m.me());
        let from = m.smem_read(by, addr, size_of::<T>(), size_of::<T>(), at);
        // SAFETY: `from` holds as many bytes as the value has.
        unsafe {
            value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), from.len())
        };
    });
    // SAFETY: filled with what was stored as plain data.
    unsafe { value.assume_init() }
}

/// `st.shared`: a scalar, or an array as a vector, aligned to its size.
#[track_caller]
#[inline]
pub fn store<T: Copy>(addr: u32, value: T) {
    let at = Location::caller();
    machine::with(|m| {
        let by = By::Thread(m.me());
        let to = m.smem_write(by, addr, size_of::<T>(), size_of::<T>(), at);
        // SAFETY: `to` has room for as many bytes as the value has.
        unsafe { to.as_mut_ptr().copy_from_nonoverlapping((&raw const value).cast(), to.len()) };
    });
}
