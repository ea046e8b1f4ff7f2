//! Where the threads of a collective instruction meet.
//!
//! Each thread leaves a pointer to its operands, which stay on its own stack, and sleeps. The last
//! one to arrive carries out the instruction for all of them, writing the results where their
//! owners will find them, and wakes them. So a collective needs no buffers, and any type of operand
//! will do.

use crate::{
    fault::fault,
    machine::{self, Machine, Site, Wait},
};
use std::{marker::PhantomData, ptr};

/// A collective instruction, as one thread meets it.
#[derive(Clone, Copy)]
pub(crate) struct Collective {
    pub name: &'static str,
    pub at: Site,
    /// First thread of the warp or warpgroup.
    pub first: usize,
    /// Which of the 32 or 128 threads take part.
    pub mask: u128,
    /// All members must be at the very same instruction (PTX `.aligned`).
    pub aligned: bool,
    /// It orders the members' accesses to memory (PTX: only bar.warp.sync does).
    pub orders_memory: bool,
}

impl Collective {
    fn matches(&self, other: &Collective) -> bool {
        self.mask == other.mask && (ptr::eq(self.name, other.name) || self.name == other.name)
    }

    fn is_of_warpgroup(&self) -> bool {
        self.mask >> 32 != 0
    }

    /// Can `self` not be carried out while others of its warp are at `other`?
    fn clashes(&self, other: &Collective) -> bool {
        if self.aligned || other.aligned {
            let same_place = ptr::eq(self.at, other.at) || self.at == other.at;
            self.mask & other.mask != 0 && !(self.matches(other) && same_place)
        } else {
            self.mask == other.mask && !self.matches(other)
        }
    }
}

pub(crate) struct Rendezvous {
    what: Collective,
    arrived: u128,
    seats: Vec<*mut ()>,
    /// Bytes of everybody's operands.
    size: usize,
}

struct Seat<T> {
    item: T,
    served: bool,
}

/// The operands of those who take part, by lane.
pub(crate) struct Peers<T> {
    present: u128,
    seats: Vec<*mut ()>,
    item: PhantomData<T>,
}

impl<T> Peers<T> {
    pub fn get(&mut self, lane: usize) -> Option<&mut T> {
        // SAFETY: whoever is present sleeps, and its seat is a `Seat<T>` on its stack.
        (self.present >> lane & 1 == 1)
            .then(|| unsafe { &mut (*self.seats[lane].cast::<Seat<T>>()).item })
    }

    /// The operands of `lane`, which must take part.
    pub fn of(&mut self, lane: usize) -> &mut T {
        self.get(lane).expect("the lane takes part")
    }

    pub fn lanes(&self) -> impl Iterator<Item = usize> + Clone + use<T> {
        let mut rest = self.present;
        std::iter::from_fn(move || {
            let lane = (rest != 0).then(|| rest.trailing_zeros() as usize);
            rest &= rest.wrapping_sub(1);
            lane
        })
    }
}

/// Meets the other members of `what`; the last to arrive runs `act` on everybody's items.
pub(crate) fn meet<T: Copy>(
    what: Collective,
    item: T,
    act: impl FnOnce(&mut Machine, &mut Peers<T>),
) -> T {
    let mut seat = Seat { item, served: false };
    let here = (&raw mut seat).cast();
    let mut mine = machine::with(|m| arrive(m, what, here, size_of::<T>()));
    loop {
        match mine {
            Some((arrived, seats)) => {
                machine::with(|m| {
                    let mut peers = Peers { present: arrived, seats, item: PhantomData };
                    act(m, &mut peers);
                    if what.orders_memory {
                        m.order.meet(peers.lanes().map(|lane| what.first + lane));
                    }
                    let me = m.me();
                    for lane in peers.lanes() {
                        // SAFETY: as in `Peers::get`.
                        unsafe { (*peers.seats[lane].cast::<Seat<T>>()).served = true };
                        if what.first + lane != me {
                            m.wake(what.first + lane);
                        }
                    }
                    m.spare_seats.push(peers.seats);
                });
                return seat.item;
            }
            None => {
                machine::suspend(Wait::Collective { name: what.name, mask: what.mask }, what.at);
                // SAFETY: it is ours; a peer may have written through its pointer to it.
                let Seat { item, served } = unsafe { ptr::read_volatile(&raw const seat) };
                if served {
                    return item;
                }
                // Woken because the last missing member has exited.
                mine = machine::with(|m| complete(m, what.first));
            }
        }
    }
}

type Complete = Option<(u128, Vec<*mut ()>)>;

fn arrive(m: &mut Machine, what: Collective, seat: *mut (), size: usize) -> Complete {
    let Collective { name, at, first, mask, .. } = what;
    let lane = m.me() - first;
    if mask >> lane & 1 == 0 {
        fault!(at, Divergence, "{name}: lane {lane} isn't in its own member mask {mask:#x}");
    }
    let pending = &mut m.meetings[first / 32];
    let own_warp = 0xffff_ffff << (lane / 32 * 32);
    for other in pending.iter() {
        // A warpgroup's first warp may be at an instruction of its own while others wait for it.
        let of_one_scope = what.is_of_warpgroup() == other.what.is_of_warpgroup();
        let concerned = of_one_scope || other.arrived & own_warp != 0;
        if concerned && what.clashes(&other.what) {
            fault!(
                at,
                Divergence,
                "divergence: lane {lane} is at {name}, mask {mask:#x}, while lanes {:#x} of its \
                 warp wait in {}, mask {:#x}, at {}",
                other.arrived,
                other.what.name,
                other.what.mask,
                other.what.at
            );
        }
    }
    let i = pending.iter().position(|r| r.what.matches(&what)).unwrap_or_else(|| {
        let mut seats = m.spare_seats.pop().unwrap_or_default();
        seats.resize(128, ptr::null_mut());
        pending.push(Rendezvous { what, arrived: 0, seats, size });
        pending.len() - 1
    });
    if pending[i].size != size {
        let (other, theirs) = (pending[i].what.at, pending[i].size);
        fault!(
            at,
            Divergence,
            "divergence: lane {lane} brings {size} bytes to {name}, others {theirs} at {other}"
        );
    }
    pending[i].arrived |= 1 << lane;
    pending[i].seats[lane] = seat;
    if pending[i].arrived == mask {
        let Rendezvous { arrived, seats, .. } = pending.swap_remove(i);
        return Some((arrived, seats));
    }
    if gone(m, first) & mask == 0 { None } else { complete(m, first) }
}

/// Takes out a collective at `first` that the running thread waits in and that lacks nobody but
/// threads that have exited.
fn complete(m: &mut Machine, first: usize) -> Complete {
    let lane = m.me() - first;
    let i = m.meetings[first / 32].iter().position(|r| {
        let gone = gone(m, first);
        r.arrived >> lane & 1 == 1 && r.what.mask & !gone == r.arrived
    })?;
    let gone = gone(m, first);
    let Rendezvous { what, arrived, seats, .. } = m.meetings[first / 32].swap_remove(i);
    if what.aligned {
        let (name, exited) = (what.name, what.mask & gone);
        fault!(what.at, Divergence, "{name}: lanes {exited:#x} of its warp have exited");
    }
    Some((arrived, seats))
}

/// Members of the warpgroup at `first` that have exited, or never were.
fn gone(m: &Machine, first: usize) -> u128 {
    let warps = (0..4).map(|i| m.gone.get(first / 32 + i).copied().unwrap_or(!0));
    warps.rev().fold(0, |mask, warp| mask << 32 | warp as u128)
}

/// `thread` has exited: wakes one member of each collective that waited for it alone.
pub(crate) fn left(m: &mut Machine, thread: usize) {
    m.gone[thread / 32] |= 1 << (thread % 32);
    let number = m.number(thread);
    let block = thread - number;
    for first in [block + number / 32 * 32, block + number / 128 * 128] {
        if m.meetings[first / 32].is_empty() {
            continue;
        }
        let gone = gone(m, first);
        let full = |r: &&Rendezvous| r.what.first == first && r.what.mask & !gone == r.arrived;
        let leaders = m.meetings[first / 32].iter().filter(full);
        let leaders: Vec<_> =
            leaders.map(|r| first + r.arrived.trailing_zeros() as usize).collect();
        for leader in leaders {
            if m.threads[leader].wait != Wait::Nothing {
                m.wake(leader);
            }
        }
    }
}
