//! The state of one running cluster, and how the running thread reaches it.
//!
//! A launch without clusters runs clusters of one block.

use crate::{
    asynchronous::Groups,
    barrier::NamedBarrier,
    cluster::ClusterBarrier,
    copy::AsyncCopy,
    emulator::{AsyncTiming, Emulator},
    fault::fault,
    mbarrier::Mbarrier,
    order::Order,
    polling::Polling,
    ready::Ready,
    registry::Buffers,
    rendezvous::Rendezvous,
    shared_memory::SharedMemory,
    sites::SiteLog,
    tma::{BulkCopy, BulkStore},
    wgmma::TensorCore,
};
use cuda_launch::{Dim3, LaunchConfig};
use std::{cell::Cell, panic::Location, ptr::null_mut};

/// Where in the kernel's source an instruction was issued.
pub(crate) type Site = &'static Location<'static>;

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
    Cluster,
    Mbarrier {
        addr: u32,
        parity: u32,
    },
}

pub(crate) struct Thread {
    pub idx: Dim3,
    /// Its block's rank in the cluster.
    pub rank: usize,
    pub wait: Wait,
    pub at: Option<Site>,
    /// The named barriers at which it counts as arrived.
    pub arrivals: u16,
    pub copies: Groups<AsyncCopy>,
    pub stores: Groups<BulkStore>,
}

pub(crate) struct Block {
    pub idx: Dim3,
    pub shared: SharedMemory,
    pub barriers: [NamedBarrier; 16],
    /// Threads that haven't exited.
    pub live: usize,
}

pub(crate) struct Machine {
    pub options: Emulator,
    pub config: LaunchConfig,
    /// Threads of a block.
    pub block_threads: usize,
    /// From a thread to the same one of the next block: whole warps.
    pub stride: usize,
    pub current: Option<usize>,
    /// Rank of the block whose thread runs.
    pub rank: usize,
    /// Those of each block, filled up to whole warps with threads that have exited.
    pub threads: Vec<Thread>,
    /// By rank.
    pub blocks: Vec<Block>,
    pub ready: Ready,
    pub polling: Polling,
    pub order: Order,
    /// Collectives that wait for threads, by the first warp of their scope.
    pub meetings: Vec<Vec<Rendezvous>>,
    pub spare_seats: Vec<Vec<*mut ()>>,
    /// By warp, the lanes that have exited or never were.
    pub gone: Vec<u32>,
    pub cluster_barrier: ClusterBarrier,
    pub mbarriers: Vec<Mbarrier>,
    pub bulk: Vec<BulkCopy>,
    /// One per warp.
    pub tensor_cores: Vec<TensorCore>,
    /// None, unless sites are recorded or left out.
    pub sites: Option<SiteLog>,
    pub buffers: Buffers,
}

impl Machine {
    pub fn new(options: &Emulator, config: LaunchConfig, buffers: Buffers) -> Machine {
        let block_threads = config.block.count();
        let stride = block_threads.next_multiple_of(32);
        let blocks = config.cluster as usize;
        let thread = |t| Thread {
            idx: config.block.at(t % stride),
            rank: t / stride,
            wait: Wait::Exited,
            at: None,
            arrivals: 0,
            copies: Groups::default(),
            stores: Groups::default(),
        };
        let block = |_| Block {
            idx: Dim3::from(0),
            shared: SharedMemory::new(config.shared_bytes as usize, options.races),
            barriers: Default::default(),
            live: 0,
        };
        let warps = blocks * stride / 32;
        Machine {
            options: options.clone(),
            config,
            block_threads,
            stride,
            current: None,
            rank: 0,
            threads: (0..blocks * stride).map(thread).collect(),
            blocks: (0..blocks).map(block).collect(),
            ready: Ready::default(),
            polling: Polling::default(),
            order: Order::default(),
            meetings: (0..warps).map(|_| Vec::new()).collect(),
            spare_seats: Vec::new(),
            gone: vec![0; warps],
            cluster_barrier: ClusterBarrier::default(),
            mbarriers: Vec::new(),
            bulk: Vec::new(),
            tensor_cores: (0..warps).map(|_| TensorCore::default()).collect(),
            sites: None,
            buffers,
        }
    }

    /// Makes ready for the `cluster`-th cluster of the grid.
    pub fn reset(&mut self, cluster: usize) {
        let (stride, live, options) = (self.stride, self.block_threads, &self.options);
        let clusters = Dim3 { x: self.config.grid.x / self.config.cluster, ..self.config.grid };
        let first = clusters.at(cluster);
        self.current = None;
        self.polling = Polling::default();
        for (rank, block) in self.blocks.iter_mut().enumerate() {
            block.idx = Dim3 { x: first.x * self.config.cluster + rank as u32, ..first };
            block.live = live;
            block.shared.reset();
            block.barriers = Default::default();
        }
        let exists = |t: usize| t % stride < live;
        let threads = 0..self.threads.len();
        for (t, thread) in self.threads.iter_mut().enumerate() {
            let wait = if exists(t) { Wait::Nothing } else { Wait::Exited };
            (thread.wait, thread.at, thread.arrivals) = (wait, None, 0);
            (thread.copies, thread.stores) = Default::default();
        }
        for (warp, gone) in self.gone.iter_mut().enumerate() {
            let rest = live - warp * 32 % stride;
            *gone = if rest < 32 { !0 << rest } else { 0 };
        }
        if options.races {
            self.order.reset(threads.len());
        }
        self.ready.reset(options.schedule, cluster, threads.filter(|t| exists(*t)));
        self.meetings.iter_mut().for_each(Vec::clear);
        self.cluster_barrier = ClusterBarrier::default();
        self.mbarriers.clear();
        self.bulk.clear();
        self.tensor_cores.iter_mut().for_each(|core| *core = TensorCore::default());
        let record = options.recorder.is_some();
        let log = || SiteLog { omitted: options.omitted, seen: record.then(Vec::new) };
        self.sites = (record || options.omitted.is_some()).then(log);
    }

    /// The running thread's number in the cluster.
    pub fn me(&self) -> usize {
        self.current.expect("no CUDA thread is running")
    }

    /// A thread's number within its block.
    pub fn number(&self, thread: usize) -> usize {
        thread - self.threads[thread].rank * self.stride
    }

    /// The first thread of the warpgroup of the running thread, which must be a whole one.
    pub fn warpgroup(&self, at: Site, name: &str) -> usize {
        let first = self.number(self.me()) / 128 * 128;
        if first + 128 > self.block_threads {
            let threads = self.block_threads;
            fault!(
                at,
                Instruction,
                "{name} needs a whole warpgroup; the block has {threads} threads"
            );
        }
        self.rank * self.stride + first
    }

    pub fn wake(&mut self, thread: usize) {
        debug_assert!(!matches!(self.threads[thread].wait, Wait::Nothing | Wait::Exited));
        self.threads[thread].wait = Wait::Nothing;
        self.polling.interrupt();
        self.ready.push(thread);
    }

    pub fn wake_all(&mut self, which: impl Fn(Wait) -> bool) {
        for t in 0..self.threads.len() {
            if which(self.threads[t].wait) {
                self.wake(t);
            }
        }
    }
}

thread_local! {
    static MACHINE: Cell<*mut Machine> = const { Cell::new(null_mut()) };
}

/// Makes `machine` the one that [`with`] finds on this OS thread; null for none.
pub(crate) fn enter(machine: *mut Machine) {
    MACHINE.set(machine);
}

/// Does this OS thread run a kernel?
pub(crate) fn is_running() -> bool {
    !MACHINE.get().is_null()
}

/// Lends the running machine to `f`, which must neither suspend nor call `with`.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&mut Machine) -> R) -> R {
    let machine = MACHINE.get();
    assert!(!machine.is_null(), "a device function was called outside of an emulated kernel");
    // SAFETY: `enter` got a machine that outlives the kernel's run on this OS thread; whoever holds
    // the reference neither suspends nor calls back, so it is the only one.
    f(unsafe { &mut *machine })
}

/// Puts the running thread to sleep until [`Machine::wake`].
pub(crate) fn suspend(wait: Wait, at: Site) {
    with(|m| {
        let me = m.me();
        m.threads[me].wait = wait;
        m.threads[me].at = Some(at);
    });
    crate::scheduler::switch();
}

/// Lets every other ready thread have a turn.
pub(crate) fn step_aside() {
    with(|m| {
        let me = m.me();
        m.ready.push_aside(me);
    });
    crate::scheduler::switch();
}

/// Before a wait for asynchronous operations that are to be late: lets the others go first, who
/// may not have to wait for them.
pub(crate) fn linger() {
    if with(|m| m.options.timing != AsyncTiming::Eager) {
        step_aside();
    }
}
