//! Coroutines: running the threads of a cluster by turns.

use crate::{
    barrier, cluster,
    fault::{self, FaultKind, Raised},
    machine::{self, Machine, Wait},
    rendezvous, stacks, tma, trap,
};
use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};
use cuda_launch::Entry;
use std::{
    cell::Cell,
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::null,
};

type Fiber = Coroutine<(), (), (), DefaultStack>;

thread_local! {
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(null()) };
}

/// Leaves the running thread for the scheduler, until it is resumed.
pub(crate) fn switch() {
    let yielder = YIELDER.get();
    // SAFETY: set by the running fiber, on whose stack we are.
    unsafe { (*yielder).suspend(()) };
    YIELDER.set(yielder);
}

/// A kernel's function and its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    entry: Entry,
    args: *const *const c_void,
}

impl Call {
    /// # Safety
    /// `args` must be what `entry` takes, for as long as the call is used, and the kernel must be
    /// sound for them.
    pub unsafe fn new(entry: Entry, args: *const *const c_void) -> Call {
        Call { entry, args }
    }
}

// SAFETY: the arguments are only read, and outlive the launch.
unsafe impl Send for Call {}
// SAFETY: as above.
unsafe impl Sync for Call {}

/// Runs the threads of `m` to their end, or to the first fault. Which thread was at fault, `m`
/// knows.
pub(crate) fn run(m: &mut Machine, call: Call) -> Result<(), Raised> {
    let mut fibers: Vec<Option<Fiber>> = m.threads.iter().map(|_| None).collect();
    machine::enter(m);
    let result = catch_unwind(AssertUnwindSafe(|| drive(&mut fibers, call)));
    machine::enter(std::ptr::null_mut());
    trap::watch(None);
    for mut fiber in fibers.into_iter().flatten() {
        // SAFETY: device code owns nothing that would need to be dropped.
        unsafe { fiber.force_reset() };
        stacks::give_back(fiber.into_stack());
    }
    result.map_err(fault::catch)
}

fn drive(fibers: &mut [Option<Fiber>], call: Call) {
    loop {
        let next = machine::with(|m| {
            m.current = None;
            tma::maybe_progress(m);
            m.current = m.ready.pop();
            m.rank = m.current.map_or(m.rank, |t| m.threads[t].rank);
            m.current
        });
        let Some(t) = next else {
            if machine::with(tma::progress) {
                continue;
            }
            return machine::with(check_finished);
        };
        let fiber = fibers[t].get_or_insert_with(|| spawn(call));
        trap::watch(Some(fiber));
        if let CoroutineResult::Return(()) = fiber.resume(()) {
            stacks::give_back(fibers[t].take().expect("it has just run").into_stack());
            machine::with(|m| exit(m, t));
        }
    }
}

fn spawn(call: Call) -> Fiber {
    let stack = stacks::take(machine::with(|m| m.options.stack));
    Coroutine::with_stack(stack, move |yielder, ()| {
        YIELDER.set(yielder);
        // The call as a whole, which is Send.
        let call = call;
        // SAFETY: promised to `Call::new`.
        unsafe { (call.entry)(call.args) };
    })
}

fn exit(m: &mut Machine, t: usize) {
    if let Some(at) = m.threads[t].stores.first() {
        fault::fault!(
            at,
            Instruction,
            "the thread ends, and has not waited for this copy to read shared memory, which may be \
             gone before"
        );
    }
    (m.threads[t].wait, m.threads[t].at) = (Wait::Exited, None);
    let rank = m.threads[t].rank;
    m.blocks[rank].live -= 1;
    m.polling.interrupt();
    if m.blocks[rank].live == 0 && m.order.on() {
        m.check_visits(rank);
    }
    rendezvous::left(m, t);
    barrier::left(m, rank);
    cluster::left(m, t);
}

/// Nobody can run any more: have all ended?
fn check_finished(m: &mut Machine) {
    if m.threads.iter().all(|thread| thread.wait == Wait::Exited) {
        return;
    }
    let (first, at, message) = m.deadlock();
    m.current = first;
    m.rank = first.map_or(0, |t| m.threads[t].rank);
    fault::raise(Raised { kind: FaultKind::Deadlock, at, instruction: None, message });
}
