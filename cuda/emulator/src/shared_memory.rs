//! The shared memory of a block: bytes, with a shadow that knows which are initialised and who
//! touched them last.
//!
//! A block finds its own under addresses below 2^24. Above is the cluster's window, in which every
//! block of the cluster, also one's own, has 2^24 addresses for itself.

use crate::{
    fault::fault,
    machine::{Machine, Site},
    order::{Access, By, Meeting, Proxy},
};
use std::mem;

/// Address of the first byte of dynamic shared memory in the shared window (on sm_90 the system
/// keeps the first KiB).
pub(crate) const BASE: u32 = 1024;

const WINDOW_BITS: u32 = 24;

/// Is this an address of the cluster's window?
pub(crate) fn is_of_cluster(addr: u32) -> bool {
    addr >> WINDOW_BITS != 0
}

/// The address of the cluster's window for `addr` of block `rank`.
pub(crate) fn in_cluster(addr: u32, rank: usize) -> u32 {
    match is_of_cluster(addr) {
        true => addr,
        false => (rank as u32 + 1) << WINDOW_BITS | addr,
    }
}

#[derive(Default)]
pub(crate) struct SharedMemory {
    bytes: Vec<u8>,
    init: Vec<bool>,
    /// The last few accesses to each 8-byte word; empty without the race check.
    past: Vec<[Option<Access>; 4]>,
    /// By agent of another block, its last access; empty without the race check.
    visits: Vec<Option<(u32, Site)>>,
    /// How much has been written or put on record since the last reset, from the start.
    touched: usize,
}

impl SharedMemory {
    pub fn new(size: usize, races: bool) -> Self {
        let words = if races { size.div_ceil(8) } else { 0 };
        SharedMemory {
            // NaN-like rubbish, in case something gets past the checks.
            bytes: vec![0xff; size],
            init: vec![false; size],
            past: vec![[None; 4]; words],
            visits: Vec::new(),
            touched: 0,
        }
    }

    pub fn reset(&mut self) {
        let touched = mem::take(&mut self.touched);
        self.bytes[..touched].fill(0xff);
        self.init[..touched].fill(false);
        let words = touched.div_ceil(8).min(self.past.len());
        self.past[..words].fill([None; 4]);
        self.visits.clear();
    }

    fn visit(&mut self, access: Access) {
        let agent = access.agent as usize;
        if self.visits.len() <= agent {
            self.visits.resize(agent + 1, None);
        }
        self.visits[agent] = Some((access.step, access.at));
    }
}

/// Bytes of the shared memory of a block of the cluster.
#[derive(Clone, Copy)]
struct Place {
    rank: usize,
    offset: usize,
    len: usize,
}

impl Machine {
    /// `addr` as a message shows it.
    pub fn place_name(&self, addr: u32) -> String {
        let offset = addr & ((1 << WINDOW_BITS) - 1);
        match addr >> WINDOW_BITS {
            0 => format!("{offset:#x}"),
            _ if self.blocks.len() == 1 => format!("{offset:#x}"),
            window => format!("{offset:#x} of the block of rank {}", window - 1),
        }
    }

    /// Where `len` bytes at `addr` are for a thread of block `home`; they must be aligned to
    /// `align`.
    #[inline]
    fn locate(&self, home: usize, addr: u32, len: usize, align: usize, at: Site) -> Place {
        if !(addr as usize).is_multiple_of(align) {
            let place = self.place_name(addr);
            fault!(
                at,
                Misaligned,
                "misaligned access to shared memory: {place} isn't a multiple of {align}"
            );
        }
        let rank = match addr >> WINDOW_BITS {
            0 => home,
            window => window as usize - 1,
        };
        let offset = ((addr & ((1 << WINDOW_BITS) - 1)) as usize).wrapping_sub(BASE as usize);
        let Some(block) = self.blocks.get(rank) else {
            fault!(at, OutOfBounds, "shared memory at {addr:#x}: no such block in the cluster");
        };
        let size = block.shared.bytes.len();
        if offset.checked_add(len).is_none_or(|end| end > size) {
            let (place, end) = (self.place_name(addr), BASE as usize + size);
            fault!(
                at,
                OutOfBounds,
                "{len} bytes at {place} are outside of shared memory, {BASE:#x}..{end:#x}"
            );
        }
        if block.live == 0 {
            let place = self.place_name(addr);
            fault!(at, Cluster, "access to shared memory at {place}, which has ended");
        }
        Place { rank, offset, len }
    }

    #[inline]
    pub fn smem_read(&mut self, by: By, addr: u32, len: usize, align: usize, at: Site) -> &[u8] {
        let home = self.home(by);
        let place = self.locate(home, addr, len, align, at);
        let Place { rank, offset: i, .. } = place;
        if !self.blocks[rank].shared.init[i..i + len].iter().all(|init| *init) {
            let place = self.place_name(addr);
            fault!(
                at,
                Uninitialised,
                "read of uninitialised shared memory, {len} bytes at {place}"
            );
        }
        if self.order.on() {
            self.check_race(by, home, place, false, at);
        }
        &self.blocks[rank].shared.bytes[i..i + len]
    }

    #[inline]
    pub fn smem_write(
        &mut self,
        by: By,
        addr: u32,
        len: usize,
        align: usize,
        at: Site,
    ) -> &mut [u8] {
        let home = self.home(by);
        let place = self.locate(home, addr, len, align, at);
        let Place { rank, offset: i, .. } = place;
        let shared = &mut self.blocks[rank].shared;
        shared.init[i..i + len].fill(true);
        shared.touched = shared.touched.max(i + len);
        if self.order.on() {
            self.check_race(by, home, place, true, at);
        }
        &mut self.blocks[rank].shared.bytes[i..i + len]
    }

    /// The rank of the block on whose behalf memory is touched.
    fn home(&self, by: By) -> usize {
        match by {
            By::Thread(_) => self.rank,
            By::Queue(actor) => actor.rank,
        }
    }

    fn check_race(&mut self, by: By, home: usize, place: Place, write: bool, at: Site) {
        let Place { rank, offset, len } = place;
        if rank != home {
            self.check_visit(by, rank, write, at);
        }
        for word in offset / 8..(offset + len).div_ceil(8) {
            let from = offset.max(word * 8) - word * 8;
            let to = (offset + len).min(word * 8 + 8) - word * 8;
            let bytes = (0xff << from & 0xff >> (8 - to)) as u8;
            let now = by.access(&self.order, bytes, write, at);
            let mut slot = None;
            for (i, past) in self.blocks[rank].shared.past[word].iter().enumerate() {
                let Some(past) = past else {
                    slot = slot.or(Some(i));
                    continue;
                };
                let seen = by.sees(&self.order, past);
                if past.bytes & bytes != 0 && (past.write || write) && !seen {
                    let addr = self.place_name(in_cluster(BASE + word as u32 * 8, rank));
                    let [now, then] = [&now, past].map(|access| self.describe_access(access));
                    fault!(
                        at,
                        DataRace,
                        "data race in shared memory at {addr}: {now}, not ordered after {then} at {}",
                        past.at
                    );
                }
                // What is seen and covered need not be kept.
                if seen && past.bytes & !bytes == 0 && (write || !past.write) {
                    slot = Some(i);
                }
            }
            let slot = slot.unwrap_or_else(|| self.ready.random.below(4));
            self.blocks[rank].shared.past[word][slot] = Some(now);
        }
    }

    /// An access to the memory of another block: it must be known to have started, and the access
    /// is kept for the check when it ends.
    fn check_visit(&mut self, by: By, rank: usize, write: bool, at: Site) {
        if let By::Thread(me) = by {
            let mut host = rank * self.stride..rank * self.stride + self.block_threads;
            if !host.any(|thread| self.order.reached(me, thread, 1)) {
                fault!(
                    at,
                    Cluster,
                    "access to shared memory of the block of rank {rank}, of which nothing says \
                     that it has started: a barrier of the cluster must come first"
                );
            }
        }
        let access = by.access(&self.order, 0xff, write, at);
        self.blocks[rank].shared.visit(access);
    }

    /// All threads of block `rank` have exited: every access of other blocks to its memory must be
    /// known to have happened before.
    pub fn check_visits(&mut self, rank: usize) {
        let visits = mem::take(&mut self.blocks[rank].shared.visits);
        if visits.is_empty() {
            return;
        }
        let mut all = Meeting::default();
        let first = rank * self.stride;
        (first..first + self.block_threads).for_each(|t| self.order.publish(t, &mut all));
        let view = all.close();
        for (agent, visit) in visits.iter().enumerate() {
            if let Some((step, at)) = *visit
                && !view.reached(agent, step)
            {
                let who = self.agent_name(agent, Proxy::Generic);
                fault!(
                    at,
                    Cluster,
                    "the block of rank {rank} ends, and nothing says that the access to its \
                     shared memory by {who} came before"
                );
            }
        }
    }

    fn describe_access(&self, access: &Access) -> String {
        let verb = if access.write { "write" } else { "read" };
        format!("{verb} by {}", self.agent_name(access.agent as usize, access.proxy))
    }

    fn agent_name(&self, agent: usize, proxy: Proxy) -> String {
        match (proxy, self.threads.get(agent)) {
            (Proxy::Async, _) => "TMA or wgmma".into(),
            (Proxy::Generic, None) => "cp.async".into(),
            (Proxy::Generic, Some(thread)) => match self.blocks.len() {
                1 => format!("thread {}", self.number(agent)),
                _ => format!("thread {} of the block of rank {}", self.number(agent), thread.rank),
            },
        }
    }
}
