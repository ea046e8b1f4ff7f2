//! Stacks for coroutines: pooled by OS thread, and limited in number.
//!
//! Each stack is two memory mappings (itself and its guard page), and Linux allows a process
//! 65,530 of them.

use corosensei::stack::{DefaultStack, Stack};
use std::{
    cell::RefCell,
    sync::{Condvar, Mutex, PoisonError},
};

/// CUDA threads that run at a time, in all launches of the process. One cluster of the largest
/// size may exceed it, alone.
const RUNNING: usize = 12 << 10;

/// Stacks that are kept for later, in all pools.
const POOLED: usize = 12 << 10;

static IN_USE: Mutex<usize> = Mutex::new(0);
static RELEASED: Condvar = Condvar::new();

/// The right to run so many CUDA threads.
pub(crate) struct Permit(usize);

impl Permit {
    /// Waits until `threads` more may run.
    pub fn wait(threads: usize) -> Permit {
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        while *in_use > 0 && *in_use + threads > RUNNING {
            in_use = RELEASED.wait(in_use).unwrap_or_else(PoisonError::into_inner);
        }
        *in_use += threads;
        Permit(threads)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *IN_USE.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        RELEASED.notify_all();
    }
}

thread_local! {
    static POOL: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// A stack of at least `size` bytes.
pub(crate) fn take(size: usize) -> DefaultStack {
    let pooled = POOL.with_borrow_mut(|pool| {
        let stack = pool.pop()?;
        (stack.base().get() - stack.limit().get() >= size).then_some(stack)
    });
    pooled.unwrap_or_else(|| DefaultStack::new(size).expect("out of memory for a thread's stack"))
}

/// Keeps a stack for later, unless there are enough.
pub(crate) fn give_back(stack: DefaultStack) {
    POOL.with_borrow_mut(|pool| {
        if pool.len() < POOLED / rayon::current_num_threads() {
            pool.push(stack);
        }
    });
}
