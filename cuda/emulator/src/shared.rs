//! Shared memory, by 32-bit addresses of the shared window.

use crate::{
    fault::fault,
    machine::{self, Site},
    order::By,
    polling,
    shared_memory::{BASE, is_of_cluster},
};
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
    check_own(addr, at);
    load_any(addr, at)
}

/// `st.shared`: a scalar, or an array as a vector, aligned to its size.
#[track_caller]
#[inline]
pub fn store<T: Copy>(addr: u32, value: T) {
    let at = Location::caller();
    check_own(addr, at);
    store_any(addr, value, at);
}

/// The block's own instructions don't reach the cluster's window.
#[inline]
fn check_own(addr: u32, at: Site) {
    if is_of_cluster(addr) {
        let place = machine::with(|m| m.place_name(addr));
        fault!(at, Cluster, "ld.shared or st.shared at {place}: an address for the cluster's own");
    }
}

/// Loads from this block's memory or the cluster's.
#[inline]
pub(crate) fn load_any<T: Copy>(addr: u32, at: Site) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    let spins = machine::with(|m| {
        let by = By::Thread(m.me());
        let from = m.smem_read(by, addr, size_of::<T>(), size_of::<T>(), at);
        // SAFETY: `from` holds as many bytes as the value has.
        unsafe {
            value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), from.len())
        };
        m.polling.spins_at(addr as usize)
    });
    if spins {
        polling::poll(at);
    }
    // SAFETY: filled with what was stored as plain data.
    unsafe { value.assume_init() }
}

/// Stores to this block's memory or the cluster's.
#[inline]
pub(crate) fn store_any<T: Copy>(addr: u32, value: T, at: Site) {
    machine::with(|m| {
        let by = By::Thread(m.me());
        let to = m.smem_write(by, addr, size_of::<T>(), size_of::<T>(), at);
        // SAFETY: `to` has room for as many bytes as the value has.
        unsafe { to.as_mut_ptr().copy_from_nonoverlapping((&raw const value).cast(), to.len()) };
    });
}
