//! Loops that wait for others by looking again and again.

use crate::{
    fault::fault,
    machine::{self, Machine, Site},
    tma,
};
use std::time::Instant;

/// Polls between looks at the clock, which take longer.
const GLANCE: u32 = 1 << 6;

/// Accesses of a thread to one address in a row, without any to another, that are taken for a loop
/// that polls.
const SPINS: u32 = 1 << 10;

/// What a cluster's threads do instead of getting on.
#[derive(Default)]
pub(crate) struct Polling {
    /// Polls since something else happened.
    polls: u32,
    /// When that became many.
    since: Option<Instant>,
    address: usize,
    spins: u32,
}

impl Polling {
    /// Something else happens.
    #[inline]
    pub fn interrupt(&mut self) {
        self.polls = 0;
    }

    /// The running thread looks at `address`: has it done nothing else for long?
    #[inline]
    pub fn spins_at(&mut self, address: usize) -> bool {
        if self.address != address {
            (self.address, self.spins) = (address, 0);
            return false;
        }
        self.spins += 1;
        if self.spins < SPINS {
            return false;
        }
        self.spins = 0;
        true
    }
}

/// A turn of a loop that polls.
pub(crate) fn poll(at: Site) {
    machine::with(|m| {
        let polls = m.polling.polls.wrapping_add(1);
        m.polling.polls = polls;
        if polls as usize > 4 * m.threads.len() && !tma::progress(m) && polls.is_multiple_of(GLANCE)
        {
            check_patience(m, at);
        }
    });
    machine::step_aside();
}

fn check_patience(m: &mut Machine, at: Site) {
    let polls = m.polling.polls;
    // The first glance after something has happened starts the clock.
    let since = match m.polling.since.filter(|_| polls >= 2 * GLANCE) {
        Some(since) => since,
        None => *m.polling.since.insert(Instant::now()),
    };
    let patience = m.options.patience;
    if since.elapsed() > patience {
        fault!(
            at,
            Livelock,
            "livelock: for {patience:?} the cluster has only polled, {polls} times"
        );
    }
}
