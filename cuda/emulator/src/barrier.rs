//! The sixteen named barriers of a block.

use crate::{
    block::{self, Block, Site, Wait},
    fault::fault,
    order::View,
};
use std::panic::Location;

#[derive(Default)]
pub(crate) struct NamedBarrier {
    count: u32,
    pub arrived: u32,
    members: Vec<usize>,
    view: View,
}

/// `bar.sync id, count`; `None`: all the threads of the block.
#[track_caller]
pub fn sync(id: u32, count: Option<u32>) {
    let at = Location::caller();
    let (count, full) = block::with(|b| {
        let count = count.unwrap_or(b.threads.len() as u32);
        (count, arrive_at(b, id, count, at))
    });
    if !full {
        block::suspend(Wait::Barrier { id, count }, at);
    }
}

/// `bar.arrive id, count`
#[track_caller]
pub fn arrive(id: u32, count: u32) {
    block::with(|b| arrive_at(b, id, count, Location::caller()));
}

/// Has this arrival completed the barrier?
fn arrive_at(b: &mut Block, id: u32, count: u32, at: Site) -> bool {
    let me = b.me();
    if id >= 16 || count == 0 || !count.is_multiple_of(32) && count as usize != b.threads.len() {
        fault!(at, "bar {id}, {count}: ids are 0..16, and the count a multiple of the warp size");
    }
    let bar = &mut b.barriers[id as usize];
    if bar.arrived > 0 && bar.count != count {
        fault!(
            at,
            "bar {id}: {count} threads expected here, but {} by those that have arrived",
            bar.count
        );
    }
    if b.threads[me].arrivals >> id & 1 == 1 {
        fault!(at, "bar {id}: thread {me} arrives twice before the barrier completes");
    }
    bar.count = count;
    bar.arrived += 1;
    bar.members.push(me);
    b.threads[me].arrivals |= 1 << id;
    b.order.publish(me, &mut bar.view);
    if bar.arrived < count {
        return false;
    }
    let NamedBarrier { members, view, .. } = std::mem::take(bar);
    for t in members {
        b.threads[t].arrivals &= !(1 << id);
        let waits = matches!(b.threads[t].wait, Wait::Barrier { id: other, .. } if other == id);
        if waits || t == me {
            b.order.observe(t, &view);
        }
        if waits {
            b.wake(t);
        }
    }
    true
}
