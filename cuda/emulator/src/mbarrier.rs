//! mbarrier objects. Their state lives beside shared memory, keyed by address.

use crate::{
    fault::fault,
    machine::{self, Machine, Site, Wait},
    order::{By, Meeting, View},
    shared_memory::in_cluster,
    sites, thread,
};
use std::{fmt, mem, panic::Location};

pub(crate) struct Mbarrier {
    /// In the cluster's window.
    pub addr: u32,
    count: u32,
    pending: u32,
    bytes: i64,
    phase: u32,
    /// Published in the phase that is open, and in the one completed last.
    open: Meeting,
    closed: View,
    /// The queue of the bulk copies that report here.
    pub queue: usize,
}

impl fmt::Display for Mbarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mbarrier { count, pending, bytes, phase, .. } = self;
        write!(f, "phase {phase}, {pending} of {count} arrivals and {bytes} bytes missing")
    }
}

impl Machine {
    /// The mbarrier at `addr`, in the cluster's window.
    pub fn mbarrier(&mut self, addr: u32, at: Site) -> &mut Mbarrier {
        match self.mbarriers.iter().position(|bar| bar.addr == addr) {
            Some(i) => &mut self.mbarriers[i],
            None => {
                let place = self.place_name(addr);
                fault!(at, Barrier, "there is no initialised mbarrier at {place}")
            }
        }
    }

    /// Ends the phase if nothing is missing, and wakes those that wait for that.
    fn settle(&mut self, addr: u32, at: Site) {
        let bar = self.mbarrier(addr, at);
        if bar.pending > 0 || bar.bytes != 0 {
            return;
        }
        bar.pending = bar.count;
        let parity = bar.phase & 1;
        bar.phase += 1;
        bar.closed = bar.open.close();
        self.wake_all(|wait| wait == Wait::Mbarrier { addr, parity });
    }

    /// A bulk copy has brought `bytes`; `publish` tells those who wait what they may see.
    pub fn complete_tx(
        &mut self,
        addr: u32,
        bytes: u32,
        publish: impl FnOnce(&mut Meeting),
        at: Site,
    ) {
        let bar = self.mbarrier(addr, at);
        bar.bytes -= bytes as i64;
        publish(&mut bar.open);
        self.settle(addr, at);
    }
}

/// `mbarrier.init`
#[track_caller]
pub fn init(addr: u32, count: u32) {
    let at = Location::caller();
    machine::with(|m| {
        if count == 0 {
            fault!(at, Instruction, "mbarrier.init: the count must be positive");
        }
        m.smem_write(By::Thread(m.me()), addr, 8, 8, at);
        let addr = in_cluster(addr, m.rank);
        m.mbarriers.retain(|bar| bar.addr != addr);
        let queue = m.order.agent();
        let (open, closed) = Default::default();
        let pending = count;
        m.mbarriers.push(Mbarrier {
            addr,
            count,
            pending,
            bytes: 0,
            phase: 0,
            open,
            closed,
            queue,
        });
    });
}

/// `mbarrier.arrive`, with `expect_tx` if there are bytes to expect. The barrier may be another
/// block's, by its address in the cluster's window.
#[track_caller]
pub fn arrive(addr: u32, expect_bytes: u32) {
    let at = Location::caller();
    if sites::omitted("mbarrier.arrive", at) {
        return;
    }
    machine::with(|m| {
        let me = m.me();
        m.smem_read(By::Thread(me), addr, 8, 8, at);
        let addr = in_cluster(addr, m.rank);
        let bar = m.mbarrier(addr, at);
        if bar.pending == 0 {
            let count = bar.count;
            fault!(at, Barrier, "mbarrier: more arrivals than the {count} of its phase");
        }
        bar.pending -= 1;
        bar.bytes += expect_bytes as i64;
        let mut open = mem::take(&mut bar.open);
        m.order.publish(me, &mut open);
        m.mbarrier(addr, at).open = open;
        m.settle(addr, at);
    });
}

/// Is the phase of `parity` over?
fn is_over(addr: u32, parity: u32, at: Site) -> bool {
    machine::with(|m| {
        m.smem_read(By::Thread(m.me()), addr, 8, 8, at);
        let addr = in_cluster(addr, m.rank);
        m.mbarrier(addr, at).phase & 1 != parity
    })
}

/// The running thread sees what was published in the phase completed last.
fn observe(addr: u32, at: Site) {
    machine::with(|m| {
        let addr = in_cluster(addr, m.rank);
        let view = m.mbarrier(addr, at).closed.clone();
        m.order.observe(m.me(), &view);
    });
}

/// `mbarrier.test_wait.parity`
#[track_caller]
pub fn test(addr: u32, parity: u32) -> bool {
    let at = Location::caller();
    if sites::omitted("mbarrier.test_wait", at) {
        return true;
    }
    let over = is_over(addr, parity, at);
    match over {
        true => observe(addr, at),
        false => thread::poll(),
    }
    over
}

/// `mbarrier.try_wait.parity`, until it succeeds.
#[track_caller]
pub fn wait(addr: u32, parity: u32) {
    let at = Location::caller();
    if sites::omitted("mbarrier.try_wait", at) {
        return;
    }
    if !is_over(addr, parity, at) {
        let addr = machine::with(|m| in_cluster(addr, m.rank));
        machine::suspend(Wait::Mbarrier { addr, parity }, at);
    }
    observe(addr, at);
}
