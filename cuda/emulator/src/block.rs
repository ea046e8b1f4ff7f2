//! The state of one running block, and how the running thread reaches it.

use crate::{
    barrier::NamedBarrier,
    copy::{AsyncCopy, BulkCopy, BulkStore, Groups},
    fault::fault,
    mbarrier::Mbarrier,
    order::Order,
    rendezvous::Rendezvous,
    sched::{AsyncTiming, Emulator, Ready},
    shared::SharedMemory,
    wgmma::TensorCore,
};
use cuda_launch::Dim3;
use std::{cell::Cell, panic::Location, ptr::null_mut};

/// Where in the kernel's source an instruction was issued.
pub type Site = &'static Location<'static>;

/// Why a thread is not running.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wait {
    /// It isn't waiting: it runs, or is ready to.
    Nothing,
    Exited,
    Collective {
        name: &'static str,
        mask: u128,
    },
    Barrier {
        id: u32,
        count: u32,
    },
    Mbarrier {
        addr: u32,
        parity: u32,
    },
}

pub(crate) struct Thread {
    pub idx: Dim3,
    pub wait: Wait,
    pub at: Option<Site>,
    /// The named barriers at which it counts as arrived.
    pub arrivals: u16,
    pub copies: Groups<AsyncCopy>,
    pub stores: Groups<BulkStore>,
}

pub(crate) struct Block {
    pub grid_dim: Dim3,
    pub block_dim: Dim3,
    pub block_idx: Dim3,
    pub options: Emulator,
    pub current: Option<usize>,
    pub threads: Vec<Thread>,
    pub ready: Ready,
    /// How many times in a row threads have only polled.
    pub polls: u32,
    pub shared: SharedMemory,
    pub order: Order,
    /// Collectives that wait for threads, by the first warp of their scope.
    pub meetings: Vec<Vec<Rendezvous>>,
    pub spare_seats: Vec<Vec<*mut ()>>,
    /// By warp, the lanes that have exited or never were.
    pub gone: Vec<u32>,
    pub barriers: [NamedBarrier; 16],
    pub mbarriers: Vec<Mbarrier>,
    pub bulk: Vec<BulkCopy>,
    /// One per warp.
    pub tensor_cores: Vec<TensorCore>,
}

impl Block {
    pub fn new(options: &Emulator, grid_dim: Dim3, block_dim: Dim3, smem: usize) -> Block {
        let n = block_dim.count();
        let thread = |i| Thread {
            idx: block_dim.at(i),
            wait: Wait::Nothing,
            at: None,
            arrivals: 0,
            copies: Groups::default(),
            stores: Groups::default(),
        };
        Block {
            grid_dim,
            block_dim,
            block_idx: Dim3::from(0),
            options: options.clone(),
            current: None,
            threads: (0..n).map(thread).collect(),
            ready: Ready::default(),
            polls: 0,
            shared: SharedMemory::new(smem, options.races),
            order: Order::default(),
            meetings: (0..n.div_ceil(32)).map(|_| Vec::new()).collect(),
            spare_seats: Vec::new(),
            gone: Vec::new(),
            barriers: Default::default(),
            mbarriers: Vec::new(),
            bulk: Vec::new(),
            tensor_cores: (0..n.div_ceil(32)).map(|_| TensorCore::default()).collect(),
        }
    }

    /// Number of the running thread within the block.
    pub fn me(&self) -> usize {
        self.current.expect("no CUDA thread is running")
    }

    pub fn wake(&mut self, thread: usize) {
        debug_assert!(!matches!(self.threads[thread].wait, Wait::Nothing | Wait::Exited));
        self.threads[thread].wait = Wait::Nothing;
        self.polls = 0;
        self.ready.push(thread);
    }

    pub fn wake_all(&mut self, which: impl Fn(Wait) -> bool) {
        for t in 0..self.threads.len() {
            if which(self.threads[t].wait) {
                self.wake(t);
            }
        }
    }

    /// Who waits where, with threads that wait alike on one line.
    pub fn deadlock(&self) -> String {
        let mut lines: Vec<(Wait, Option<Site>, Vec<usize>)> = Vec::new();
        for (t, thread) in self.threads.iter().enumerate() {
            match lines.iter_mut().find(|l| (l.0, l.1) == (thread.wait, thread.at)) {
                Some(line) => line.2.push(t),
                None => lines.push((thread.wait, thread.at, vec![t])),
            }
        }
        let mut text = String::from("deadlock: no thread can run");
        for (wait, at, threads) in lines {
            text += &format!("\n  threads {}: ", ranges(&threads));
            text += &match wait {
                Wait::Nothing => "ready".into(),
                Wait::Exited => "exited".into(),
                Wait::Collective { name, mask } => format!("{name}, members {mask:#x}"),
                Wait::Barrier { id, count } => {
                    format!(
                        "bar.sync {id}, {count} ({} arrived)",
                        self.barriers[id as usize].arrived
                    )
                }
                Wait::Mbarrier { addr, parity } => {
                    let state = self.mbarriers.iter().find(|m| m.addr == addr);
                    let state = state.map_or("gone".into(), |m| m.to_string());
                    format!("mbarrier wait at {addr:#x} for parity {parity} ({state})")
                }
            };
            if let Some(at) = at {
                text += &format!(" at {at}");
            }
        }
        text
    }
}

/// `[0, 1, 2, 5]` as `0-2, 5`.
fn ranges(sorted: &[usize]) -> String {
    let runs = sorted.chunk_by(|a, b| a + 1 == *b);
    let text = runs.map(|r| match r {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => unreachable!(),
    });
    text.collect::<Vec<_>>().join(", ")
}

thread_local! {
    static BLOCK: Cell<*mut Block> = const { Cell::new(null_mut()) };
}

/// Makes `block` the one that [`with`] finds on this OS thread; null for none.
pub(crate) fn enter(block: *mut Block) {
    BLOCK.set(block);
}

/// Lends the running block to `f`, which must neither suspend nor call `with`.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&mut Block) -> R) -> R {
    let block = BLOCK.get();
    assert!(!block.is_null(), "a device function was called outside of an emulated kernel");
    // SAFETY: `enter` got a block that outlives the kernel's run on this OS thread; whoever holds
    // the reference neither suspends nor calls back, so it is the only one.
    f(unsafe { &mut *block })
}

/// Puts the running thread to sleep until [`Block::wake`].
pub(crate) fn suspend(wait: Wait, at: Site) {
    with(|b| {
        let me = b.me();
        b.threads[me].wait = wait;
        b.threads[me].at = Some(at);
    });
    crate::sched::switch();
}

/// Lets every other ready thread have a turn.
pub(crate) fn step_aside() {
    with(|b| {
        let me = b.me();
        b.ready.push_aside(me);
    });
    crate::sched::switch();
}

/// Before a wait for asynchronous operations that are to be late: lets the others go first, who
/// may not have to wait for them.
pub(crate) fn linger() {
    if with(|b| b.options.timing != AsyncTiming::Eager) {
        step_aside();
    }
}

pub(crate) fn check_warpgroup(b: &Block, at: Site, name: &str) -> usize {
    let group = b.me() / 128;
    if (group + 1) * 128 > b.threads.len() {
        fault!(at, "{name} needs a whole warpgroup, and the block has {} threads", b.threads.len());
    }
    group
}
