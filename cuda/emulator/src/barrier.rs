//! The sixteen named barriers of a block.

use crate::{
    fault::fault,
    machine::{self, Machine, Site, Wait},
    order::Meeting,
    sites,
};
use std::{mem, panic::Location};

#[derive(Default)]
pub(crate) struct NamedBarrier {
    count: u32,
    /// It is for all the threads of the block that haven't exited.
    whole: bool,
    pub arrived: u32,
    members: Vec<usize>,
    places: Places,
    meeting: Meeting,
}

/// By warp, where its threads have met an aligned instruction: they must do so at one place.
#[derive(Default)]
pub(crate) struct Places(Vec<Option<Site>>);

impl Places {
    pub fn check(&mut self, thread: usize, name: &str, at: Site) {
        let warp = thread / 32;
        if self.0.len() <= warp {
            self.0.resize(warp + 1, None);
        }
        let other = *self.0[warp].get_or_insert(at);
        if other != at {
            fault!(
                at,
                Divergence,
                "divergence: lane {} is at {name}, while others of its warp are at that of {other}",
                thread % 32
            );
        }
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// `bar.sync id, count`; `None`: all the threads of the block that haven't exited.
#[track_caller]
pub fn sync(id: u32, count: Option<u32>) {
    let at = Location::caller();
    if sites::omitted("bar.sync", at) {
        return;
    }
    let (full, count) = machine::with(|m| {
        let full = arrive_at(m, id, count, at);
        (full, count.unwrap_or(m.block_threads as u32))
    });
    if !full {
        machine::suspend(Wait::Barrier { id, count }, at);
    }
}

/// `bar.arrive id, count`
#[track_caller]
pub fn arrive(id: u32, count: u32) {
    let at = Location::caller();
    if !sites::omitted("bar.arrive", at) {
        machine::with(|m| arrive_at(m, id, Some(count), at));
    }
}

/// Has this arrival completed the barrier?
fn arrive_at(m: &mut Machine, id: u32, count: Option<u32>, at: Site) -> bool {
    let (me, all, whole) = (m.me(), m.block_threads, count.is_none());
    let count = count.unwrap_or(all as u32);
    let allowed = whole || count > 0 && count.is_multiple_of(32);
    if id >= 16 || !allowed || count as usize > all.next_multiple_of(32) {
        fault!(
            at,
            Barrier,
            "bar {id}, {count}: ids are 0..16, the count a multiple of the warp size, up to the \
             {all} threads of the block"
        );
    }
    let bar = &mut m.blocks[m.rank].barriers[id as usize];
    if bar.arrived > 0 && (bar.count, bar.whole) != (count, whole) {
        let other = bar.count;
        fault!(at, Barrier, "bar {id}: {count} threads expected, but {other} by those arrived");
    }
    if m.threads[me].arrivals >> id & 1 == 1 {
        fault!(at, Barrier, "bar {id}: this thread arrives twice before the barrier completes");
    }
    bar.places.check(me - m.rank * m.stride, "bar", at);
    (bar.count, bar.whole) = (count, whole);
    bar.arrived += 1;
    bar.members.push(me);
    m.threads[me].arrivals |= 1 << id;
    m.order.publish(me, &mut bar.meeting);
    settle(m, m.rank, id as usize)
}

/// Completes the barrier if all have arrived.
fn settle(m: &mut Machine, rank: usize, id: usize) -> bool {
    let live = m.blocks[rank].live;
    let bar = &mut m.blocks[rank].barriers[id];
    let expected = if bar.whole { live } else { bar.count as usize };
    if bar.arrived == 0 || (bar.arrived as usize) < expected {
        return false;
    }
    bar.arrived = 0;
    bar.places.clear();
    let view = bar.meeting.close();
    let mut members = mem::take(&mut bar.members);
    for t in members.drain(..) {
        m.threads[t].arrivals &= !(1 << id);
        let waits = matches!(m.threads[t].wait, Wait::Barrier { id: at, .. } if at as usize == id);
        if waits || m.current == Some(t) {
            m.order.observe(t, &view);
        }
        if waits {
            m.wake(t);
        }
    }
    m.blocks[rank].barriers[id].members = members;
    true
}

/// A thread of block `rank` has exited: barriers of the whole block don't wait for it.
pub(crate) fn left(m: &mut Machine, rank: usize) {
    for id in 0..16 {
        let bar = &m.blocks[rank].barriers[id];
        if bar.whole && bar.arrived > 0 {
            settle(m, rank, id);
        }
    }
}
