//! The places where a kernel synchronises: listing them, and leaving one out.

use crate::machine::{self, Site};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// A synchronisation as it stands in a kernel's source: a barrier (of a block, a warp or a
/// cluster), an arrival, a fence, a commit or a wait.
///
/// It is known by its instruction and its place. A helper function that synchronises is one place,
/// from wherever it is called, unless it is `#[track_caller]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SyncSite {
    instruction: &'static str,
    location: Site,
}

impl SyncSite {
    /// The instruction, as in PTX: `bar.sync`, `cp.async.wait_group`, ..
    pub fn instruction(&self) -> &'static str {
        self.instruction
    }

    /// Where it is called.
    pub fn location(&self) -> Site {
        self.location
    }
}

impl fmt::Display for SyncSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.instruction, self.location)
    }
}

/// Collects the sites of all the launches of the emulators that it was given to.
///
/// ```
/// use cuda_emulator::{Emulator, SiteRecorder};
///
/// let recorder = SiteRecorder::default();
/// let emulator = Emulator::default().recording(&recorder);
/// // .. launches ..
/// for site in recorder.sites() {
///     let without = Emulator::default().race_check(true).omitting(site);
///     // .. the same launches must fail ..
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct SiteRecorder(Arc<Mutex<Vec<SyncSite>>>);

impl SiteRecorder {
    /// The sites so far, each once: launches in the order in which they ended, in each the
    /// clusters in the grid's order, and within those the order of first execution.
    pub fn sites(&self) -> Vec<SyncSite> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds the sites of a launch, by cluster.
    pub(crate) fn add(&self, mut clusters: Vec<(usize, Vec<SyncSite>)>) {
        clusters.sort_unstable_by_key(|(cluster, _)| *cluster);
        let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for site in clusters.into_iter().flat_map(|(_, sites)| sites) {
            if !sites.contains(&site) {
                sites.push(site);
            }
        }
    }
}

/// What a cluster knows of its sites.
#[derive(Default)]
pub(crate) struct SiteLog {
    pub omitted: Option<SyncSite>,
    /// The sites executed, in the order of their first execution; none: not recorded.
    pub seen: Option<Vec<SyncSite>>,
}

impl SiteLog {
    fn visit(&mut self, site: SyncSite) -> bool {
        if let Some(seen) = &mut self.seen
            && !seen.contains(&site)
        {
            seen.push(site);
        }
        self.omitted == Some(site)
    }
}

/// The running thread comes to a synchronisation: is it to be left out?
#[inline]
pub(crate) fn omitted(instruction: &'static str, location: Site) -> bool {
    machine::with(|m| match &mut m.sites {
        None => false,
        Some(log) => log.visit(SyncSite { instruction, location }),
    })
}
