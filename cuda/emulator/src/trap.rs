//! Illegal accesses to memory by kernels, and overflows of their stacks: faults, not crashes.
//!
//! Kernels may use raw pointers, and nothing can check those accesses one by one. But a
//! [`Buffer`](crate::Buffer) lies between inaccessible pages, and what reaches them raises a
//! signal. This is for Linux on x86-64; elsewhere such an access ends the process.

use corosensei::{Coroutine, stack::DefaultStack};

type Fiber = Coroutine<(), (), (), DefaultStack>;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod handler {
    pub(crate) fn install() {}
    pub(crate) fn watch(_: Option<&super::Fiber>) {}
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod handler {
    use super::Fiber;
    use crate::fault::{self, FaultKind, Raised};
    use corosensei::trap::CoroutineTrapHandler;
    use std::{
        cell::Cell,
        ffi::{c_int, c_void},
        mem::MaybeUninit,
        ptr,
        sync::OnceLock,
    };

    thread_local! {
        static RUNNING: Cell<Option<CoroutineTrapHandler<()>>> = const { Cell::new(None) };
    }

    /// Lets signals find the coroutine that is about to run.
    pub(crate) fn watch(fiber: Option<&Fiber>) {
        RUNNING.set(fiber.map(Coroutine::trap_handler));
    }

    type Coroutine = super::Fiber;

    /// Who handled the signals before.
    static PREVIOUS: OnceLock<[libc::sigaction; 2]> = OnceLock::new();

    const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

    pub(crate) fn install() {
        PREVIOUS.get_or_init(|| {
            SIGNALS.map(|signal| {
                let mut previous = MaybeUninit::uninit();
                // SAFETY: an all-zero sigaction is valid, and so is the handler.
                unsafe {
                    let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
                    action.sa_sigaction = on_signal as *const () as usize;
                    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                    libc::sigaction(signal, &action, previous.as_mut_ptr());
                    previous.assume_init()
                }
            })
        });
    }

    extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: called by the kernel with an interrupted context.
        let (address, context) =
            unsafe { ((*info).si_addr() as usize, &mut *context.cast::<libc::ucontext_t>()) };
        let registers = &mut context.uc_mcontext.gregs;
        let stack = registers[libc::REG_RSP as usize] as usize;
        let instruction = registers[libc::REG_RIP as usize] as usize;
        let Some(running) = RUNNING.get().filter(|r| r.stack_ptr_in_bounds(stack)) else {
            // Not a kernel's: once back in place, the previous handler meets it again.
            let i = SIGNALS.iter().position(|s| *s == signal).unwrap_or(0);
            let previous = PREVIOUS.get().map_or(ptr::null(), |all| &raw const all[i]);
            // SAFETY: restores what was set before; null changes nothing.
            unsafe { libc::sigaction(signal, previous, ptr::null_mut()) };
            return;
        };
        let raise = move || {
            // Of a stack's own pages only its guard is inaccessible. A buffer may lie beside it.
            let (kind, name) = match running.stack_ptr_in_bounds(address) {
                true => (FaultKind::StackOverflow, "stack overflow"),
                false => (FaultKind::IllegalAccess, "illegal access to memory"),
            };
            let message = format!("{name} at {address:#x}");
            fault::raise(Raised { kind, at: None, instruction: Some(instruction), message })
        };
        // SAFETY: the coroutine is the one interrupted, and device code may be left anywhere: it
        // owns nothing. The registers are set as asked for.
        let new = unsafe { running.setup_trap_handler(raise) };
        let mut set = |register: c_int, value: u64| registers[register as usize] = value as i64;
        set(libc::REG_RIP, new.rip);
        set(libc::REG_RSP, new.rsp);
        set(libc::REG_RBP, new.rbp);
        set(libc::REG_RDI, new.rdi);
        set(libc::REG_RSI, new.rsi);
    }
}

pub(crate) use handler::{install, watch};
