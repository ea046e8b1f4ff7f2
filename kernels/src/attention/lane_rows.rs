//! Which rows and keys of a block of scores a lane has, as products leave them, and which it loads.
//!
//! Scores come in fragments of 8 keys. Of what each has in memory a lane loads *runs*: what 8
//! neighbouring keys of one of its rows have, for each group of four fragments. By the time that it is
//! needed, each lane must have what its own scores have.

use super::{
    per_score::{Fragments, PerScore},
    problem::AttentionForward,
    row_facts::RowFacts,
};

/// Neighbouring keys of a run.
pub const RUN: i32 = 8;

/// Fragments whose keys are those of the runs of four lanes.
pub const GROUP: usize = 4;

/// Keys of a group of fragments.
pub const GROUP_KEYS: i32 = GROUP as i32 * RUN;

/// Fragments that a block of keys has at most.
pub const MOST_FRAGMENTS: usize = 16;

/// Which runs a lane loads, of two rows.
pub trait Runs {
    /// Fragments of a block of keys, whole groups of them: a run of each row for each group.
    const FRAGMENTS: usize;
    /// Keys from a run to that of the next group.
    const DISTANCE: i32 = GROUP_KEYS;
    /// Of how many of two rows there are registers for elements at once.
    const ROWS_AT_ONCE: usize;

    /// The problem.
    fn problem(&self) -> &AttentionForward;

    /// The queries and keys that count.
    fn counts(&self) -> (i32, i32);

    /// The facts of rows, and the number of the lane's row `h` of its 16 rows number `m` in them.
    fn facts(&self, m: usize, h: usize) -> (RowFacts, u32);

    /// The first key of the lane's first run in a block that begins at `first`.
    fn first_run(&self, first: i32) -> i32;

    /// The same of the run of a group of fragments.
    #[inline(always)]
    fn run(&self, first: i32, group: usize) -> i32 {
        self.first_run(first) + group as i32 * Self::DISTANCE
    }
}

/// A lane's rows in a tile, and its keys in a block of keys.
pub trait LaneRows: Runs {
    /// Of how many fragments there are registers for a word for each score, whole groups of them.
    const SINGLES: usize;
    /// The lane loads masks and biases of 16 bits itself, and does not find what others have loaded.
    const LOADS: bool;

    /// The key of the lane's first score in a block that begins at `first`.
    fn key(&self, first: i32) -> i32;

    /// From there to the key of element `i` of a row.
    fn offset(i: usize) -> i32;

    /// What the lane's own scores have, of the runs that it and its three neighbours have loaded.
    ///
    /// # Safety
    /// Convergent: the whole warp.
    unsafe fn exchange<P: PerScore>(&self, run: [u32; 8]) -> [u32; 8];

    /// Biases of 16 bits that others have loaded, a word for two neighbouring scores of each row.
    ///
    /// # Safety
    /// Convergent: the whole warp. They must be there, and the lane not load them itself.
    unsafe fn find_biases(&self) -> Fragments<[u32; 2]>;
}

/// The first key of the run that a lane loads of the first four fragments, where each of four
/// neighbours loads one.
#[inline(always)]
pub fn first_run_of_four(first: i32, lane: u32) -> i32 {
    first + (lane % 4) as i32 * RUN
}
