//! Illegal accesses to memory by kernels, and overflows of their stacks: faults, not crashes.
//!
//! Kernels use raw pointers, so nothing can check their accesses to global memory one by one. But
//! a [`Buffer`] ends at an inaccessible page, and what is wrong then raises a signal.

use crate::fault;
use corosensei::{Coroutine, stack::Stack, trap::CoroutineTrapHandler};
use std::{
    cell::Cell,
    ffi::{c_int, c_void},
    mem, ops, ptr,
    sync::Once,
};

thread_local! {
    static RUNNING: Cell<Option<CoroutineTrapHandler<()>>> = const { Cell::new(None) };
}

/// Lets signals find the coroutine that is about to run.
pub(crate) fn watch<S: Stack>(fiber: &Coroutine<(), (), (), S>) {
    RUNNING.set(Some(fiber.trap_handler()));
}

pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
        libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
    });
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: called by the kernel with an interrupted context; the handler that is set up runs on
    // the coroutine's stack in place of what was interrupted, once we have returned.
    unsafe {
        let addr = (*info).si_addr() as usize;
        let context = &mut *context.cast::<libc::ucontext_t>();
        let registers = &mut context.uc_mcontext.gregs;
        let sp = registers[libc::REG_RSP as usize] as usize;
        match RUNNING.get().filter(|running| running.stack_ptr_in_bounds(sp)) {
            None => {
                // Not a kernel's: crash as usual.
                libc::signal(signal, libc::SIG_DFL);
            }
            Some(running) => {
                let new = running.setup_trap_handler(move || {
                    let kind = if addr.abs_diff(sp) < 1 << 16 {
                        "stack overflow"
                    } else {
                        "illegal access to memory"
                    };
                    fault::raise(None, format!("{kind} at {addr:#x}"))
                });
                let mut set =
                    |register: c_int, value: u64| registers[register as usize] = value as i64;
                set(libc::REG_RIP, new.rip);
                set(libc::REG_RSP, new.rsp);
                set(libc::REG_RBP, new.rbp);
                set(libc::REG_RDI, new.rdi);
                set(libc::REG_RSI, new.rsi);
            }
        }
    }
}

/// Global memory that faults when a kernel runs past either end.
pub struct Buffer<T> {
    map: *mut c_void,
    map_len: usize,
    data: *mut T,
    len: usize,
}

impl<T: Copy> From<&[T]> for Buffer<T> {
    fn from(values: &[T]) -> Self {
        const PAGE: usize = 4096;
        let inner = size_of_val(values).next_multiple_of(PAGE).max(PAGE);
        let map_len = inner + 2 * PAGE;
        // SAFETY: a fresh mapping, large enough for two guard pages around the values.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let map = libc::mmap(ptr::null_mut(), map_len, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED, "out of memory for a buffer");
            libc::mprotect(map.add(PAGE), inner, libc::PROT_READ | libc::PROT_WRITE);
            // As far towards the end as an alignment of 16 allows.
            let start = PAGE + (inner - size_of_val(values)) / 16 * 16;
            let data: *mut T = map.add(start).cast();
            data.copy_from_nonoverlapping(values.as_ptr(), values.len());
            Buffer { map, map_len, data, len: values.len() }
        }
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours.
        unsafe { libc::munmap(self.map, self.map_len) };
    }
}

impl<T> ops::Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: initialised by `from`.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl<T> ops::DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: initialised by `from`, and borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}
