//! Happens-before, as vector clocks: the basis of the data-race check.
//!
//! An *agent* is anything that touches shared memory in an order of its own: each thread of the
//! cluster, and each queue of asynchronous operations (a thread's cp.async groups, a warp's wgmma
//! groups, the bulk copies of one mbarrier). Each agent numbers its steps; a [`View`] says up to
//! which step of every agent one can see. Synchronisation moves views about, and an access races
//! with an earlier one that isn't in its view.
//!
//! A view is double: what the generic proxy sees, and what the async proxy (TMA, wgmma) sees. They
//! travel together, and `fence.proxy.async` is what lets the second catch up with the first.

use crate::{
    clock::{Clock, Comparison, Gathering},
    machine::Site,
};

/// What an agent, or whoever synchronises with it, has seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    generic: Clock,
    asynch: Clock,
}

impl View {
    fn join(&mut self, other: &View, comparison: &mut Comparison) {
        self.generic.join(&other.generic, comparison);
        self.asynch.join(&other.asynch, comparison);
    }

    /// Does it reach to `step` of `agent`?
    pub fn reached(&self, agent: usize, step: u32) -> bool {
        self.generic.get(agent) >= step
    }

    /// Steps of asynchronous operations; those of threads reach `asynch` by the proxy fence only.
    fn sees_step(&mut self, agent: usize, step: u32) {
        self.generic.raise(agent, step);
        self.asynch.raise(agent, step);
    }
}

/// The views of those who arrive somewhere, joined for those who wait there.
#[derive(Debug, Default)]
pub(crate) struct Meeting {
    generic: Gathering,
    asynch: Gathering,
}

impl Meeting {
    fn add(&mut self, view: &View) {
        self.generic.add(&view.generic);
        self.asynch.add(&view.asynch);
    }

    /// The operation of `actor`, and with it what its queue began before, is over.
    pub fn finished(&mut self, actor: &Actor) {
        if actor.step > 0 {
            self.generic.raise(actor.agent, actor.step);
            self.asynch.raise(actor.agent, actor.step);
        }
    }

    /// The operation of `actor` is over, and releases what its issuer had seen.
    pub fn released(&mut self, actor: &Actor) {
        if actor.step > 0 {
            self.add(&actor.view);
        }
    }

    /// What all that have arrived could see; empties it.
    pub fn close(&mut self) -> View {
        View { generic: self.generic.close(), asynch: self.asynch.close() }
    }
}

/// The way by which memory is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proxy {
    Generic,
    Async,
}

/// An asynchronous operation as one that accesses memory: whose, and what it can see.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    pub agent: usize,
    /// 0 when nobody counts.
    pub step: u32,
    pub proxy: Proxy,
    /// The block that issued it, by its rank in the cluster.
    pub rank: usize,
    view: View,
}

/// An access on record in the shadow of shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub agent: u32,
    pub step: u32,
    /// Bytes of the 8-byte word.
    pub bytes: u8,
    pub write: bool,
    pub proxy: Proxy,
    pub at: Site,
}

/// The views of a cluster's agents; empty when the race check is off, and then nothing costs.
#[derive(Debug, Default)]
pub(crate) struct Order {
    views: Vec<View>,
    steps: Vec<u32>,
    comparison: Comparison,
}

impl Order {
    pub fn reset(&mut self, threads: usize) {
        self.views.clear();
        self.views.resize(threads, View::default());
        self.steps.clear();
        self.steps.resize(threads, 0);
        (0..threads).for_each(|t| self.advance(t));
    }

    /// What `thread` does from now on is a step that only itself can see.
    fn advance(&mut self, thread: usize) {
        self.steps[thread] += 1;
        self.views[thread].generic.raise(thread, self.steps[thread]);
    }

    pub fn on(&self) -> bool {
        !self.views.is_empty()
    }

    /// The agent of a new queue of asynchronous operations.
    pub fn agent(&mut self) -> usize {
        if self.on() {
            self.views.push(View::default());
            self.steps.push(0);
        }
        self.steps.len().saturating_sub(1)
    }

    /// `from` lets what it did be seen by whoever observes `meeting`.
    pub fn publish(&mut self, from: usize, meeting: &mut Meeting) {
        if self.on() {
            meeting.add(&self.views[from]);
            self.advance(from);
        }
    }

    pub fn observe(&mut self, to: usize, view: &View) {
        if self.on() {
            self.views[to].join(view, &mut self.comparison);
        }
    }

    /// Everyone sees what everyone did.
    pub fn meet(&mut self, threads: impl Iterator<Item = usize> + Clone) {
        if self.on() {
            let mut all = Meeting::default();
            threads.clone().for_each(|t| self.publish(t, &mut all));
            let view = all.close();
            threads.for_each(|t| self.observe(t, &view));
        }
    }

    pub fn proxy_fence(&mut self, thread: usize) {
        if self.on() {
            let View { generic, asynch } = &mut self.views[thread];
            asynch.join(generic, &mut self.comparison);
            self.advance(thread);
        }
    }

    /// The next operation of the queue `agent`, issued by `threads` of block `rank`.
    pub fn issue(
        &mut self,
        agent: usize,
        threads: impl Iterator<Item = usize>,
        proxy: Proxy,
        rank: usize,
    ) -> Actor {
        let (mut view, mut step) = (View::default(), 0);
        if self.on() {
            self.steps[agent] += 1;
            step = self.steps[agent];
            for t in threads {
                view.join(&self.views[t], &mut self.comparison);
                self.advance(t);
            }
            view.sees_step(agent, step);
        }
        Actor { agent, step, proxy, rank, view }
    }

    /// `thread` has waited for the operations of the queue `agent` up to `step`.
    pub fn finished(&mut self, agent: usize, step: u32, thread: usize) {
        if self.on() {
            self.views[thread].sees_step(agent, step);
        }
    }

    /// Can `thread` see `step` of `agent`?
    pub fn reached(&self, thread: usize, agent: usize, step: u32) -> bool {
        self.views[thread].reached(agent, step)
    }

    /// Is `past` ordered before what is now done with `view` through `proxy`?
    fn sees(view: &View, proxy: Proxy, past: &Access) -> bool {
        // A read may be overwritten through the other proxy without a fence; a write must be
        // fenced before the async proxy reads or overwrites it.
        let fenced = proxy == Proxy::Async && past.write && past.proxy == Proxy::Generic;
        let clock = if fenced { &view.asynch } else { &view.generic };
        past.step <= clock.get(past.agent as usize)
    }
}

/// Who touches shared memory.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    /// A thread of the running block.
    Thread(usize),
    Queue(&'a Actor),
}

impl By<'_> {
    pub fn access(self, order: &Order, bytes: u8, write: bool, at: Site) -> Access {
        let (agent, step, proxy) = match self {
            By::Thread(t) => (t, order.steps[t], Proxy::Generic),
            By::Queue(actor) => (actor.agent, actor.step, actor.proxy),
        };
        Access { agent: agent as u32, step, bytes, write, proxy, at }
    }

    pub fn sees(self, order: &Order, past: &Access) -> bool {
        match self {
            By::Thread(t) => Order::sees(&order.views[t], Proxy::Generic, past),
            By::Queue(actor) => Order::sees(&actor.view, actor.proxy, past),
        }
    }
}
