//! How many of the rows that share all their masks the same threads take in turn.

use super::cut::{Demand, MULTIPROCESSORS};
use kernels::tiles::{Residence, Sharing, SoftmaxTile};

/// How rows are taken in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turns {
    /// Rows of a group.
    pub rows: u32,
    /// Rows that are left to be taken one by one, at least.
    tail: u32,
    /// Groups of a block: their number is a multiple of it.
    of_block: u32,
}

/// Rows of a group, at most: beyond four, reading masks less often does not pay where rows stay in
/// registers, as more rows have to be left for the end.
fn most(residence: Residence) -> u64 {
    if residence == Residence::Registers { 4 } else { 8 }
}

/// Threads that a multiprocessor runs at once, about.
const RESIDENT_THREADS: u64 = 768;

impl Turns {
    /// Rows are taken one by one.
    pub const NONE: Self = Turns { rows: 1, tail: 0, of_block: 1 };

    /// For rows that `row_threads` threads share, of blocks of `threads`. A group has as many rows as
    /// still let each multiprocessor take several groups after each other. Multiprocessors do not come to the
    /// end of their groups together: the rows that are left fill the time until the last does.
    ///
    /// Clusters take longer to begin: their groups are as long as possible, and fewer rows are left.
    pub fn of(demand: &Demand, tile: &SoftmaxTile, row_threads: u64, threads: u32) -> Self {
        let at_once = (MULTIPROCESSORS * RESIDENT_THREADS).div_ceil(row_threads);
        let of_clusters = tile.sharing == Sharing::Cluster;
        let groups_at_least = if of_clusters { 2 } else { 4 };
        let possible = |turns: &u64| {
            demand.sharers.is_multiple_of(*turns)
                && demand.rows >= groups_at_least * turns * at_once
        };
        let rows = (1..=most(tile.residence)).rev().find(possible).unwrap_or(1);
        let tail = match rows {
            1 => 0,
            _ if of_clusters => 2 * at_once,
            _ => rows * at_once / 2,
        };
        let of_block = (u64::from(threads) / row_threads).max(1);
        Turns { rows: rows as u32, tail: tail as u32, of_block: of_block as u32 }
    }

    /// Groups among the rows of a launch: those in front.
    pub fn groups(self, rows: u32) -> u32 {
        let groups = rows.saturating_sub(self.tail) / self.rows;
        groups - groups % self.of_block
    }
}
