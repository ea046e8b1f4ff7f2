//! mbarrier objects. Their state lives beside shared memory, keyed by address.

use crate::{
    block::{self, Block, Site, Wait},
    fault::fault,
    order::{By, View},
    thread,
};
use std::{fmt, panic::Location};

pub(crate) struct Mbarrier {
    pub addr: u32,
    count: u32,
    pending: u32,
    bytes: i64,
    phase: u32,
    /// Published in the phase that is open, and in the one completed last.
    open: View,
    closed: View,
    /// The queue of the bulk copies that report here.
    pub queue: usize,
}

impl fmt::Display for Mbarrier {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Mbarrier { count, pending, bytes, phase, .. } = self;
        write!(f, "phase {phase}, {pending} of {count} arrivals and {bytes} bytes missing")
    }
}

impl Block {
    pub fn mbarrier(&mut self, addr: u32, at: Site) -> &mut Mbarrier {
        match self.mbarriers.iter().position(|m| m.addr == addr) {
            Some(i) => &mut self.mbarriers[i],
            None => fault!(at, "there is no initialised mbarrier at {addr:#x}"),
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
        bar.closed = std::mem::take(&mut bar.open);
        self.wake_all(|wait| wait == Wait::Mbarrier { addr, parity });
    }

    /// A bulk copy has brought `bytes`.
    pub fn complete_tx(&mut self, addr: u32, bytes: u32, seen: impl FnOnce(&mut View), at: Site) {
        let bar = self.mbarrier(addr, at);
        bar.bytes -= bytes as i64;
        seen(&mut bar.open);
        self.settle(addr, at);
    }
}

/// `mbarrier.init`
#[track_caller]
pub fn init(addr: u32, count: u32) {
    let at = Location::caller();
    block::with(|b| {
        if count == 0 {
            fault!(at, "mbarrier.init: the count must be positive");
        }
        b.smem_write(b.myself(), addr, 8, 8, at);
        b.mbarriers.retain(|m| m.addr != addr);
        let queue = b.order.agent();
        let (open, closed) = Default::default();
        b.mbarriers.push(Mbarrier {
            addr,
            count,
            pending: count,
            bytes: 0,
            phase: 0,
            open,
            closed,
            queue,
        });
    });
}

/// `mbarrier.arrive`, with `expect_tx` if there are bytes to expect.
#[track_caller]
pub fn arrive(addr: u32, expect_bytes: u32) {
    let at = Location::caller();
    block::with(|b| {
        let me = b.me();
        b.smem_read(By::Thread(me), addr, 8, 8, at);
        let bar = b.mbarrier(addr, at);
        if bar.pending == 0 {
            fault!(at, "mbarrier {addr:#x}: more arrivals than the {} of its phase", bar.count);
        }
        bar.pending -= 1;
        bar.bytes += expect_bytes as i64;
        let mut view = std::mem::take(&mut bar.open);
        b.order.publish(me, &mut view);
        b.mbarrier(addr, at).open = view;
        b.settle(addr, at);
    });
}

/// `mbarrier.test_wait.parity`
#[track_caller]
pub fn test(addr: u32, parity: u32) -> bool {
    let at = Location::caller();
    let is_over = block::with(|b| {
        b.smem_read(b.myself(), addr, 8, 8, at);
        b.mbarrier(addr, at).phase & 1 != parity
    });
    match is_over {
        true => wait(addr, parity),
        false => thread::poll(),
    }
    is_over
}

/// `mbarrier.try_wait.parity`, until it succeeds.
#[track_caller]
pub fn wait(addr: u32, parity: u32) {
    let at = Location::caller();
    let is_over = block::with(|b| {
        b.smem_read(b.myself(), addr, 8, 8, at);
        b.mbarrier(addr, at).phase & 1 != parity
    });
    if !is_over {
        block::suspend(Wait::Mbarrier { addr, parity }, at);
    }
    block::with(|b| {
        let view = b.mbarrier(addr, at).closed.clone();
        b.order.observe(b.me(), &view);
    });
}
