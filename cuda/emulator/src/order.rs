//! Happens-before, as vector clocks: the basis of the data-race check.
//!
//! An *agent* is anything that touches shared memory in an order of its own: each thread, and each
//! queue of asynchronous operations (a thread's cp.async groups, a warpgroup's wgmma groups, the
//! bulk copies of one mbarrier). Each agent numbers its steps; a [`View`] says up to which step of
//! every agent one can see. Synchronisation moves views about, and an access races with an earlier
//! one that isn't in its view.
//!
//! A view is double: what the generic proxy sees, and what the async proxy (TMA, wgmma) sees. They
//! travel together, and `fence.proxy.async` is what lets the second catch up with the first.

use crate::block::{Block, Site};

#[derive(Debug, Clone, Default, PartialEq)]
struct Clock(Vec<u32>);

impl Clock {
    fn get(&self, agent: usize) -> u32 {
        self.0.get(agent).copied().unwrap_or(0)
    }

    fn raise(&mut self, agent: usize, to: u32) {
        if self.0.len() <= agent {
            self.0.resize(agent + 1, 0);
        }
        self.0[agent] = self.0[agent].max(to);
    }

    fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// What an agent, or whoever synchronises with it, has seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    generic: Clock,
    asynch: Clock,
}

impl View {
    pub fn join(&mut self, other: &View) {
        self.generic.join(&other.generic);
        self.asynch.join(&other.asynch);
    }

    /// Steps of asynchronous operations; those of threads reach `asynch` by the proxy fence only.
    fn sees_step(&mut self, agent: usize, step: u32) {
        self.generic.raise(agent, step);
        self.asynch.raise(agent, step);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proxy {
    Generic,
    Async,
}

/// Who makes an access, and what it can see.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    pub agent: usize,
    pub step: u32,
    pub proxy: Proxy,
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

/// The views of a block's agents; empty when the race check is off, and then nothing costs.
#[derive(Debug, Default)]
pub(crate) struct Order {
    views: Vec<View>,
    steps: Vec<u32>,
}

impl Order {
    pub fn reset(&mut self, threads: usize) {
        self.views = vec![View::default(); threads];
        self.steps = vec![0; threads];
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

    /// `from` lets what it did be seen by whoever gets `view`.
    pub fn publish(&mut self, from: usize, view: &mut View) {
        if self.on() {
            view.join(&self.views[from]);
            self.advance(from);
        }
    }

    pub fn observe(&mut self, to: usize, view: &View) {
        if self.on() {
            self.views[to].join(view);
        }
    }

    /// Everyone sees what everyone did.
    pub fn meet(&mut self, threads: impl Iterator<Item = usize> + Clone) {
        if self.on() {
            let mut all = View::default();
            threads.clone().for_each(|t| self.publish(t, &mut all));
            threads.for_each(|t| self.observe(t, &all));
        }
    }

    pub fn proxy_fence(&mut self, thread: usize) {
        if self.on() {
            let View { generic, asynch } = &mut self.views[thread];
            asynch.join(generic);
            self.advance(thread);
        }
    }

    /// The next operation of the queue `agent`, issued by `threads`.
    pub fn issue(
        &mut self,
        agent: usize,
        threads: impl Iterator<Item = usize>,
        proxy: Proxy,
    ) -> Actor {
        let (mut view, mut step) = (View::default(), 0);
        if self.on() {
            self.steps[agent] += 1;
            step = self.steps[agent];
            for t in threads {
                view.join(&self.views[t]);
                self.advance(t);
            }
            view.sees_step(agent, step);
        }
        Actor { agent, step, proxy, view }
    }

    /// The operation of `actor`, and with it what its queue began before, is over in `view`.
    pub fn finish(&self, actor: &Actor, view: &mut View) {
        if self.on() {
            view.sees_step(actor.agent, actor.step);
        }
    }

    /// `thread` has waited for the operations of the queue `agent` up to `step`.
    pub fn finished(&mut self, agent: usize, step: u32, thread: usize) {
        if self.on() {
            self.views[thread].sees_step(agent, step);
        }
    }

    /// Is `past` ordered before what `by` does now?
    fn sees(view: &View, proxy: Proxy, past: &Access) -> bool {
        // A read may be overwritten through the other proxy without a fence; a write must be
        // fenced before the async proxy reads or overwrites it.
        let fenced = proxy == Proxy::Async && past.write && past.proxy == Proxy::Generic;
        let clock = if fenced { &view.asynch } else { &view.generic };
        past.step <= clock.get(past.agent as usize)
    }
}

impl Block {
    /// Who the running thread is in the generic proxy, for the checks of shared memory.
    pub fn myself(&self) -> By<'static> {
        By::Thread(self.me())
    }
}

/// Who touches shared memory.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    Thread(usize),
    Queue(&'a Actor),
}

impl By<'_> {
    pub fn access(self, order: &Order, bytes: u8, write: bool, at: Site) -> Access {
        match self {
            By::Thread(t) => {
                let (agent, step) = (t as u32, order.steps[t]);
                Access { agent, step, bytes, write, proxy: Proxy::Generic, at }
            }
            By::Queue(a) => {
                let (agent, step) = (a.agent as u32, a.step);
                Access { agent, step, bytes, write, proxy: a.proxy, at }
            }
        }
    }

    pub fn sees(self, order: &Order, past: &Access) -> bool {
        match self {
            By::Thread(t) => Order::sees(&order.views[t], Proxy::Generic, past),
            By::Queue(a) => Order::sees(&a.view, a.proxy, past),
        }
    }
}
