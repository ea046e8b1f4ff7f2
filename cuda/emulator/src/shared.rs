//! Shared memory: a window of bytes, with a shadow that knows which are initialised and who
//! touched them last.

use crate::{
    block::{self, Block, Site},
    fault::fault,
    order::{Access, By, Proxy},
};
use std::{mem::MaybeUninit, panic::Location};

/// Address of the first byte of dynamic shared memory in the shared window (on sm_90 the system
/// keeps the first KiB).
pub const BASE: u32 = 1024;

#[derive(Default)]
pub(crate) struct SharedMemory {
    bytes: Vec<u8>,
    init: Vec<bool>,
    /// The last few accesses to each 8-byte word; empty without the race check.
    past: Vec<[Option<Access>; 4]>,
}

impl SharedMemory {
    pub fn new(size: usize, races: bool) -> Self {
        let words = if races { size.div_ceil(8) } else { 0 };
        SharedMemory { bytes: vec![0; size], init: vec![false; size], past: vec![[None; 4]; words] }
    }

    pub fn reset(&mut self) {
        // Signalling-NaN-like rubbish, in case something gets past the checks.
        self.bytes.fill(0xff);
        self.init.fill(false);
        self.past.fill([None; 4]);
    }
}

impl Block {
    /// Offset of `len` bytes at `addr`, which must be aligned to `align`.
    fn locate(&self, addr: u32, len: usize, align: usize, at: Site) -> usize {
        let size = self.shared.bytes.len();
        if !(addr as usize).is_multiple_of(align) {
            fault!(at, "misaligned access to shared memory: {addr:#x} isn't a multiple of {align}");
        }
        let offset = (addr as usize).wrapping_sub(BASE as usize);
        if offset.checked_add(len).is_none_or(|end| end > size) {
            let end = BASE as usize + size;
            fault!(
                at,
                "{len} bytes at {addr:#x} are outside of shared memory, {BASE:#x}..{end:#x}"
            );
        }
        offset
    }

    pub fn smem_read(&mut self, by: By, addr: u32, len: usize, align: usize, at: Site) -> &[u8] {
        let i = self.locate(addr, len, align, at);
        if let Some(bad) = self.shared.init[i..i + len].iter().position(|init| !init) {
            fault!(at, "read of uninitialised shared memory at {:#x}", addr as usize + bad);
        }
        self.check_race(by, i, len, false, at);
        &self.shared.bytes[i..i + len]
    }

    pub fn smem_write(
        &mut self,
        by: By,
        addr: u32,
        len: usize,
        align: usize,
        at: Site,
    ) -> &mut [u8] {
        let i = self.locate(addr, len, align, at);
        self.shared.init[i..i + len].fill(true);
        self.check_race(by, i, len, true, at);
        &mut self.shared.bytes[i..i + len]
    }

    fn check_race(&mut self, by: By, offset: usize, len: usize, write: bool, at: Site) {
        if !self.order.on() {
            return;
        }
        for word in offset / 8..(offset + len).div_ceil(8) {
            let from = offset.max(word * 8) - word * 8;
            let to = (offset + len).min(word * 8 + 8) - word * 8;
            let bytes = (0xff << from & 0xff >> (8 - to)) as u8;
            let now = by.access(&self.order, bytes, write, at);
            let mut slot = None;
            for (i, past) in self.shared.past[word].iter().enumerate() {
                let Some(past) = past else {
                    slot = slot.or(Some(i));
                    continue;
                };
                let seen = by.sees(&self.order, past);
                if past.bytes & bytes != 0 && (past.write || write) && !seen {
                    let addr = BASE as usize + word * 8;
                    let [now, then] = [&now, past].map(|a| describe(a, self.threads.len()));
                    fault!(
                        at,
                        "data race in shared memory at {addr:#x}: {now}, not ordered after {then} at {}",
                        past.at
                    );
                }
                // What is seen and covered need not be kept.
                if seen && past.bytes & !bytes == 0 && (write || !past.write) {
                    slot = Some(i);
                }
            }
            let slot = slot.unwrap_or_else(|| self.ready.rng.below(4));
            self.shared.past[word][slot] = Some(now);
        }
    }
}

fn describe(a: &Access, threads: usize) -> String {
    let verb = if a.write { "write" } else { "read" };
    match (a.proxy, a.agent as usize) {
        (Proxy::Async, _) => format!("{verb} by TMA or wgmma"),
        (Proxy::Generic, t) if t < threads => format!("{verb} by thread {t}"),
        (Proxy::Generic, _) => format!("{verb} by cp.async"),
    }
}

/// `ld.shared`: a scalar, or an array as a vector.
#[track_caller]
#[inline]
pub fn load<T: Copy>(addr: u32) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    load_bytes(addr, value.as_mut_ptr().cast(), size_of::<T>(), Location::caller());
    // SAFETY: filled with what was stored as plain data.
    unsafe { value.assume_init() }
}

/// `st.shared`
#[track_caller]
#[inline]
pub fn store<T: Copy>(addr: u32, value: T) {
    store_bytes(addr, (&raw const value).cast(), size_of::<T>(), Location::caller());
}

fn load_bytes(addr: u32, to: *mut u8, len: usize, at: Site) {
    block::with(|b| {
        let from = b.smem_read(b.myself(), addr, len, len, at);
        // SAFETY: `to` has room for `len` bytes.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), len) };
    });
}

fn store_bytes(addr: u32, from: *const u8, len: usize, at: Site) {
    block::with(|b| {
        let to = b.smem_write(b.myself(), addr, len, len, at);
        // SAFETY: `from` holds `len` bytes.
        unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from, len) };
    });
}

/// Address of dynamic shared memory.
pub fn dynamic() -> u32 {
    BASE
}
