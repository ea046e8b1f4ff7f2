//! Collectives of a warp.

use crate::{
    fault::fault,
    machine,
    rendezvous::{Collective, meet},
    sites,
};
use std::panic::Location;

#[track_caller]
pub(crate) fn collective(name: &'static str, mask: u32) -> Collective {
    let first = machine::with(|m| m.me() / 32 * 32);
    let at = Location::caller();
    Collective { name, at, first, mask: mask as u128, aligned: false, orders_memory: false }
}

/// For instructions that a whole warp must execute together.
#[track_caller]
pub(crate) fn aligned(name: &'static str) -> Collective {
    Collective { aligned: true, ..collective(name, !0) }
}

/// The `value` of lane `source`.
#[track_caller]
pub fn shuffle<T: Copy>(name: &'static str, mask: u32, value: T, source: u32) -> T {
    let what = collective(name, mask);
    let (.., result) = meet(what, (value, source as usize, value), |_, peers| {
        for lane in peers.lanes() {
            let (_, source, _) = *peers.of(lane);
            let Some((value, ..)) = peers.get(source).copied() else {
                fault!(
                    what.at,
                    Divergence,
                    "{name}: lane {lane} reads from lane {source}, which doesn't take part"
                );
            };
            peers.of(lane).2 = value;
        }
    });
    result
}

/// `vote.sync.ballot`
#[track_caller]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    let (_, votes) = meet(collective("vote.sync.ballot", mask), (predicate, 0), |_, peers| {
        let votes = peers.lanes().fold(0, |v, lane| v | (peers.of(lane).0 as u32) << lane);
        peers.lanes().for_each(|lane| peers.of(lane).1 = votes);
    });
    votes
}

/// `redux.sync`
#[track_caller]
pub fn reduce(name: &'static str, mask: u32, value: u32, f: fn(u32, u32) -> u32) -> u32 {
    meet(collective(name, mask), value, |_, peers| {
        let mut lanes = peers.lanes();
        let first = lanes.next().map_or(value, |lane| *peers.of(lane));
        let total = lanes.fold(first, |total, lane| f(total, *peers.of(lane)));
        peers.lanes().for_each(|lane| *peers.of(lane) = total);
    })
}

/// `bar.warp.sync`
#[track_caller]
pub fn sync(mask: u32) {
    if sites::omitted("bar.warp.sync", Location::caller()) {
        return;
    }
    meet(Collective { orders_memory: true, ..collective("bar.warp.sync", mask) }, (), |_, _| {});
}

/// `elect.sync`: true in one thread of the mask.
#[track_caller]
pub fn elect(mask: u32) -> bool {
    meet(collective("elect.sync", mask), false, |_, peers| {
        if let Some(leader) = peers.lanes().next() {
            *peers.of(leader) = true;
        }
    })
}

/// `setmaxnreg`, which only has to be legal: executed by a whole warpgroup.
#[track_caller]
pub fn set_max_registers(count: u32) {
    let at = Location::caller();
    let first = machine::with(|m| m.warpgroup(at, "setmaxnreg"));
    let what = Collective { first, mask: !0, ..aligned("setmaxnreg") };
    if !count.is_multiple_of(8) || !(24..=256).contains(&count) {
        fault!(what.at, Instruction, "setmaxnreg {count}: must be a multiple of 8 in 24..=256");
    }
    meet(what, (), |_, _| {});
}
