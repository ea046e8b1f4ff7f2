//! Asynchronous operations: those of a thread in groups, each performed any time until its wait.

use crate::{
    emulator::AsyncTiming,
    machine::{self, Machine, Site, Thread},
    order::{Actor, Proxy},
    sites,
};
use std::{collections::VecDeque, mem};

impl Machine {
    /// Should an asynchronous operation happen as soon as it's issued?
    pub fn at_once(&mut self) -> bool {
        match self.options.timing {
            AsyncTiming::Eager => true,
            AsyncTiming::Late => false,
            AsyncTiming::Random => self.ready.random.below(2) == 0,
        }
    }
}

/// An operation that may happen any time until its wait.
pub(crate) trait Deferred {
    fn perform(&mut self, m: &mut Machine);
    fn actor(&self) -> &Actor;
    /// Where it was issued.
    fn at(&self) -> Site;
}

/// A thread's asynchronous operations that aren't known to be over, by groups.
pub(crate) struct Groups<T> {
    agent: Option<usize>,
    open: Vec<T>,
    groups: VecDeque<Vec<T>>,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Groups { agent: None, open: Vec::new(), groups: VecDeque::new() }
    }
}

impl<T: Deferred> Groups<T> {
    /// Where the first operation was issued that nothing has waited for.
    pub fn first(&self) -> Option<Site> {
        self.groups.iter().flatten().chain(&self.open).next().map(T::at)
    }
}

/// Which of a thread's queues.
pub(crate) type Queue<T> = fn(&mut Thread) -> &mut Groups<T>;

/// The running thread issues an operation.
pub(crate) fn issue<T: Deferred>(queue: Queue<T>, proxy: Proxy, op: impl FnOnce(Actor) -> T) {
    machine::with(|m| {
        let (me, rank) = (m.me(), m.rank);
        let agent = queue(&mut m.threads[me]).agent.unwrap_or_else(|| m.order.agent());
        queue(&mut m.threads[me]).agent = Some(agent);
        let mut op = op(m.order.issue(agent, [me].into_iter(), proxy, rank));
        if m.at_once() {
            op.perform(m);
        }
        queue(&mut m.threads[me]).open.push(op);
    });
}

/// What the running thread has issued since its last commit becomes a group.
pub(crate) fn commit_group<T>(queue: Queue<T>, name: &'static str, at: Site) {
    if sites::omitted(name, at) {
        return;
    }
    machine::with(|m| {
        let me = m.me();
        let queue = queue(&mut m.threads[me]);
        let group = mem::take(&mut queue.open);
        queue.groups.push_back(group);
    });
}

/// Waits until at most `pending` groups of the running thread are in flight.
pub(crate) fn wait_group<T: Deferred>(
    queue: Queue<T>,
    pending: usize,
    name: &'static str,
    at: Site,
) {
    if sites::omitted(name, at) {
        return;
    }
    machine::linger();
    machine::with(|m| {
        let me = m.me();
        while queue(&mut m.threads[me]).groups.len() > pending {
            let group = queue(&mut m.threads[me]).groups.pop_front();
            for mut op in group.into_iter().flatten() {
                op.perform(m);
                m.order.finished(op.actor().agent, op.actor().step, me);
            }
        }
    });
}
