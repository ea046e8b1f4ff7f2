//! Asynchronous copies from global to shared memory: cp.async by thread, and in bulk.

use crate::{
    asynchronous::{Deferred, commit_group, issue, wait_group},
    fault::fault,
    global,
    machine::{Machine, Site},
    order::{Actor, By, Proxy},
};
use std::{mem, panic::Location};

pub use crate::{
    tensor_map::encode,
    tma::{
        bulk_commit, bulk_load, bulk_prefetch, bulk_wait, bulk_wait_read, prefetch_tensor_map,
        store_async, tma_load, tma_load_multicast, tma_store,
    },
};

pub(crate) struct AsyncCopy {
    to: u32,
    from: *const u8,
    /// Bytes to write, and how many of them to read; the others are zero.
    len: usize,
    read: usize,
    done: bool,
    actor: Actor,
    at: Site,
}

impl Deferred for AsyncCopy {
    fn perform(&mut self, m: &mut Machine) {
        if !mem::replace(&mut self.done, true) {
            let to = m.smem_write(By::Queue(&self.actor), self.to, self.len, self.len, self.at);
            // SAFETY: the kernel promised that `from` holds `read` bytes until its wait.
            let from = unsafe { std::slice::from_raw_parts(self.from, self.read) };
            to[..self.read].copy_from_slice(from);
            to[self.read..].fill(0);
        }
    }

    fn actor(&self) -> &Actor {
        &self.actor
    }

    fn at(&self) -> Site {
        self.at
    }
}

/// `cp.async.shared.global to, from, len, read`: copies `len` bytes, 4, 8 or 16, of which those
/// past the first `read` are zero.
///
/// # Safety
/// `from` must be valid for `read` bytes until the copy has been waited for.
#[track_caller]
pub unsafe fn cp_async(to: u32, from: *const u8, len: usize, read: usize) {
    let at = Location::caller();
    let read = read.min(len);
    if !matches!(len, 4 | 8 | 16) {
        fault!(at, Instruction, "cp.async: {len} bytes, where 4, 8 or 16 are allowed");
    }
    if !(from as usize).is_multiple_of(len) {
        fault!(at, Misaligned, "cp.async: the source {from:p} isn't aligned to {len} bytes");
    }
    if read > 0 {
        global::check_range(from, read, at);
    }
    issue(
        |t| &mut t.copies,
        Proxy::Generic,
        |actor| AsyncCopy { to, from, len, read, done: false, actor, at },
    );
}

/// `cp.async.commit_group`
#[track_caller]
pub fn commit() {
    commit_group(|t| &mut t.copies, "cp.async.commit_group", Location::caller());
}

/// `cp.async.wait_group`: at most `pending` groups of this thread remain in flight.
#[track_caller]
pub fn wait(pending: usize) {
    wait_group(|t| &mut t.copies, pending, "cp.async.wait_group", Location::caller());
}
