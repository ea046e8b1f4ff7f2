//! The places where a kernel synchronises: listing them, and leaving one out.

use crate::machine::{self, Site};
use std::fmt;

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

/// The sites of all clusters in one list, without duplicates: the order of the clusters in the
/// grid, and within each that of first execution.
pub(crate) fn merge(mut clusters: Vec<(usize, Vec<SyncSite>)>) -> Vec<SyncSite> {
    clusters.sort_unstable_by_key(|(cluster, _)| *cluster);
    let mut sites = Vec::new();
    for site in clusters.into_iter().flat_map(|(_, sites)| sites) {
        if !sites.contains(&site) {
            sites.push(site);
        }
    }
    sites
}
