//! Coroutines: running the threads of a block by turns, and the blocks of a grid in parallel.

use crate::{
    block::{self, Block, Wait},
    copy,
    fault::{self, Fault, Raised},
    rendezvous, trap,
};
use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};
use cuda_launch::{Dim3, Entry};
use rayon::prelude::*;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::null,
};

/// In which order ready threads run. What a correct kernel computes doesn't depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// First come, first served.
    Fair,
    /// At random, in one of several styles: even, or with some threads far ahead of the others.
    Random { seed: u64 },
}

/// When asynchronous operations (cp.async, TMA, wgmma) touch memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncTiming {
    /// When they are issued.
    Eager,
    /// As late as the kernel's waits allow.
    Late,
    /// At any time in between.
    Random,
}

/// How to emulate: the options of a launch.
#[derive(Debug, Clone)]
pub struct Emulator {
    pub schedule: Schedule,
    pub timing: AsyncTiming,
    /// Check for data races in shared memory.
    pub races: bool,
    /// Bytes of stack per CUDA thread; only what is touched costs memory.
    pub stack: usize,
    /// How many times in a row a block's threads may do nothing but poll.
    pub patience: u32,
}

impl Default for Emulator {
    fn default() -> Self {
        Emulator {
            schedule: Schedule::Fair,
            timing: AsyncTiming::Eager,
            races: false,
            stack: 256 << 10,
            patience: 100_000_000,
        }
    }
}

impl Emulator {
    /// All the checks, a random schedule, and asynchronous operations at random times.
    pub fn adversarial(seed: u64) -> Self {
        let timing = if seed.is_multiple_of(2) { AsyncTiming::Late } else { AsyncTiming::Random };
        Emulator { schedule: Schedule::Random { seed }, timing, races: true, ..Default::default() }
    }
}

/// SplitMix64.
#[derive(Default)]
pub(crate) struct Rng(u64);

impl Rng {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58476d1ce4e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d049bb133111eb);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

/// The threads that can run, and the choice among them.
#[derive(Default)]
pub(crate) struct Ready {
    queue: VecDeque<usize>,
    style: Style,
    pub rng: Rng,
}

#[derive(Default, Clone, Copy)]
enum Style {
    #[default]
    First,
    Last,
    Any,
}

impl Ready {
    fn reset(&mut self, schedule: Schedule, block: usize, threads: usize) {
        self.queue.clear();
        self.queue.extend(0..threads);
        if let Schedule::Random { seed } = schedule {
            self.rng = Rng(seed ^ (block as u64) << 32);
            self.style = [Style::First, Style::Last, Style::Any][self.rng.below(3)];
            for i in (1..threads).rev() {
                self.queue.swap(i, self.rng.below(i + 1));
            }
        }
    }

    pub fn push(&mut self, thread: usize) {
        self.queue.push_back(thread);
    }

    /// For a thread that would rather have all the others run first.
    pub fn push_aside(&mut self, thread: usize) {
        match self.style {
            Style::Last => self.queue.push_front(thread),
            Style::First | Style::Any => self.queue.push_back(thread),
        }
    }

    fn pop(&mut self) -> Option<usize> {
        match self.style {
            Style::First => self.queue.pop_front(),
            Style::Last => self.queue.pop_back(),
            Style::Any if self.queue.is_empty() => None,
            Style::Any => self.queue.swap_remove_back(self.rng.below(self.queue.len())),
        }
    }
}

type Fiber = Coroutine<(), (), (), DefaultStack>;

thread_local! {
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(null()) };
}

/// Leaves the running thread for the scheduler, until it is resumed.
pub(crate) fn switch() {
    let yielder = YIELDER.get();
    // SAFETY: set by the running fiber, on whose stack we are.
    unsafe { (*yielder).suspend(()) };
    YIELDER.set(yielder);
}

#[derive(Clone, Copy)]
struct Call {
    entry: Entry,
    args: *const *const c_void,
}

// SAFETY: the arguments are only read, and outlive the launch.
unsafe impl Send for Call {}
unsafe impl Sync for Call {}

/// # Safety
/// `args` must be what `entry` takes, and the kernel must be sound for them.
pub(crate) unsafe fn run_grid(
    options: &Emulator,
    grid: Dim3,
    block: Dim3,
    smem: usize,
    entry: Entry,
    args: *const *const c_void,
) -> Result<(), Fault> {
    trap::install();
    let call = Call { entry, args };
    (0..grid.count()).into_par_iter().try_for_each_init(
        || Box::new(Block::new(options, grid, block, smem)),
        |state, i| run_block(state, i, call),
    )
}

fn run_block(b: &mut Block, index: usize, call: Call) -> Result<(), Fault> {
    let n = b.threads.len();
    reset(b, index);
    block::enter(b);
    let mut fibers: Vec<Option<Fiber>> = (0..n).map(|_| None).collect();
    let result = catch_unwind(AssertUnwindSafe(|| drive(&mut fibers, call)));
    let result = result.map_err(|payload| {
        let Raised { at, message } = fault::catch(payload);
        let (block, thread) = block::with(|b| (b.block_idx, b.current.map(|t| b.threads[t].idx)));
        Fault { block, thread, at, message }
    });
    for mut fiber in fibers.into_iter().flatten() {
        // SAFETY: device code owns nothing that would need to be dropped.
        unsafe { fiber.force_reset() };
        keep(fiber.into_stack());
    }
    block::enter(std::ptr::null_mut());
    result
}

fn reset(b: &mut Block, index: usize) {
    let n = b.threads.len();
    b.block_idx = b.grid_dim.at(index);
    (b.current, b.polls) = (None, 0);
    b.ready.reset(b.options.schedule, index, n);
    b.shared.reset();
    if b.options.races {
        b.order.reset(n);
    }
    for thread in &mut b.threads {
        (thread.wait, thread.at, thread.arrivals) = (Wait::Nothing, None, 0);
        (thread.copies, thread.stores) = Default::default();
    }
    b.meetings.iter_mut().for_each(Vec::clear);
    b.gone = (0..n)
        .step_by(32)
        .map(|first| if n - first < 32 { !0 << (n - first) } else { 0 })
        .collect();
    b.barriers = Default::default();
    b.mbarriers.clear();
    b.bulk.clear();
    b.tensor_cores.iter_mut().for_each(|t| *t = Default::default());
}

/// Runs the block to its end.
fn drive(fibers: &mut [Option<Fiber>], call: Call) {
    loop {
        let next = block::with(|b| {
            copy::maybe_progress(b);
            b.current = b.ready.pop();
            b.current
        });
        let Some(t) = next else {
            if block::with(copy::progress) {
                continue;
            }
            if block::with(|b| b.threads.iter().all(|t| t.wait == Wait::Exited)) {
                return;
            }
            let report = block::with(|b| b.deadlock());
            fault::raise(None, report);
        };
        let fiber = fibers[t].get_or_insert_with(|| spawn(call));
        trap::watch(fiber);
        if let CoroutineResult::Return(()) = fiber.resume(()) {
            keep(fibers[t].take().unwrap().into_stack());
            block::with(|b| {
                (b.threads[t].wait, b.threads[t].at) = (Wait::Exited, None);
                rendezvous::left(b, t);
            });
        }
    }
}

fn spawn(call: Call) -> Fiber {
    let size = block::with(|b| b.options.stack);
    let pooled = STACKS.with_borrow_mut(|s| s.pop());
    let stack =
        pooled.unwrap_or_else(|| DefaultStack::new(size).expect("out of memory for a stack"));
    Coroutine::with_stack(stack, move |yielder, ()| {
        YIELDER.set(yielder);
        // SAFETY: promised to `run_grid`.
        unsafe { ({ call }.entry)({ call }.args) };
    })
}

fn keep(stack: DefaultStack) {
    STACKS.with_borrow_mut(|s| s.push(stack));
}
