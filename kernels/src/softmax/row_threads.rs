//! Which threads share a row.

use super::problem::SoftmaxForward;
use crate::reduction::{Part, block, cluster};
use cuda_std::{
    cluster as cluster_index, shared,
    thread::{block_dim_x, block_idx_x, thread_idx_x},
};

/// The threads that share a row, as one of them sees them.
pub trait RowThreads: Copy {
    /// The calling thread's place. Where blocks share a row, shared memory begins with
    /// [`cluster::SHARED_BYTES`], or if `in_turns` with [`cluster::SHARED_BYTES_IN_TURNS`].
    ///
    /// # Safety
    /// All threads of the block must call together, once, at the kernel's start.
    unsafe fn here(problem: &SoftmaxForward, in_turns: bool) -> Self;
    /// The same place, on the next of the rows that its threads take in turn.
    fn next(self) -> Self;
    /// The number of the row, or of the group of rows that its threads take in turn. There may be
    /// none of that number.
    fn row(self) -> u32;
    /// The thread's number among those of the row.
    fn thread(self) -> u32;
    /// How many they are.
    fn threads(self) -> u32;
    /// The block's number among those of the row, and how many these are.
    fn block(self) -> (u32, u32);
    /// How many lanes of a warp belong to the row.
    fn lanes(self) -> u32;
    /// Bytes of shared memory that [`RowThreads::merge`] takes in a block of `threads` threads that takes
    /// one row.
    fn merge_bytes(threads: u32) -> u32;
    /// Merges what the row's warps have, of which every lane holds that of its own.
    ///
    /// # Safety
    /// All threads of the row must call together, once; those that take several rows in turn, once
    /// on each.
    unsafe fn merge<P: Part>(self, of_warp: P, coefficient: P::Number) -> P;
}

/// A warp takes one row, or several: 32 lanes or a smaller power of two for each.
#[derive(Clone, Copy)]
pub struct Warp {
    lanes_log2: u32,
}

impl RowThreads for Warp {
    #[inline(always)]
    unsafe fn here(problem: &SoftmaxForward, _: bool) -> Self {
        Warp { lanes_log2: problem.row_lanes_log2 & 31 }
    }
    #[inline(always)]
    fn next(self) -> Self {
        self
    }
    #[inline(always)]
    fn row(self) -> u32 {
        block_idx_x() * (block_dim_x() >> self.lanes_log2) + (thread_idx_x() >> self.lanes_log2)
    }
    #[inline(always)]
    fn thread(self) -> u32 {
        thread_idx_x() & (self.lanes() - 1)
    }
    #[inline(always)]
    fn threads(self) -> u32 {
        self.lanes()
    }
    #[inline(always)]
    fn block(self) -> (u32, u32) {
        (0, 1)
    }
    #[inline(always)]
    fn lanes(self) -> u32 {
        1 << self.lanes_log2
    }
    #[inline(always)]
    fn merge_bytes(_: u32) -> u32 {
        0
    }
    #[inline(always)]
    unsafe fn merge<P: Part>(self, of_warp: P, _: P::Number) -> P {
        of_warp
    }
}

/// A block takes one row, or several in turn.
#[derive(Clone, Copy)]
pub struct Block {
    /// Rows that the block has taken before.
    turn: u32,
}

impl RowThreads for Block {
    #[inline(always)]
    unsafe fn here(_: &SoftmaxForward, _: bool) -> Self {
        Block { turn: 0 }
    }
    #[inline(always)]
    fn next(self) -> Self {
        Block { turn: self.turn + 1 }
    }
    #[inline(always)]
    fn row(self) -> u32 {
        block_idx_x()
    }
    #[inline(always)]
    fn thread(self) -> u32 {
        thread_idx_x()
    }
    #[inline(always)]
    fn threads(self) -> u32 {
        block_dim_x()
    }
    #[inline(always)]
    fn block(self) -> (u32, u32) {
        (0, 1)
    }
    #[inline(always)]
    fn lanes(self) -> u32 {
        32
    }
    #[inline(always)]
    fn merge_bytes(threads: u32) -> u32 {
        block::shared_bytes(threads)
    }
    #[inline(always)]
    unsafe fn merge<P: Part>(self, of_warp: P, coefficient: P::Number) -> P {
        block::merge(of_warp, coefficient, shared::dynamic(), self.turn)
    }
}

/// A cluster takes one row, or several in turn.
#[derive(Clone, Copy)]
pub struct Cluster {
    rank: u32,
    blocks: u32,
    /// Rows that the cluster has taken before.
    turn: u32,
}

impl Cluster {
    /// The number of the row that the cluster takes in this turn, where clusters deal out rows among
    /// them one by one.
    #[inline(always)]
    pub fn dealt_row(self) -> u32 {
        cluster_index::cluster_idx_x() + self.turn * cluster_index::cluster_count_x()
    }
}

impl RowThreads for Cluster {
    #[inline(always)]
    unsafe fn here(_: &SoftmaxForward, in_turns: bool) -> Self {
        let shared_bytes =
            if in_turns { cluster::SHARED_BYTES_IN_TURNS } else { cluster::SHARED_BYTES };
        cluster::begin(shared::dynamic(), shared_bytes);
        let (rank, blocks) = (cluster_index::block_rank(), cluster_index::block_count());
        Cluster { rank, blocks, turn: 0 }
    }
    #[inline(always)]
    fn next(self) -> Self {
        Cluster { turn: self.turn + 1, ..self }
    }
    #[inline(always)]
    fn row(self) -> u32 {
        cluster_index::cluster_idx_x()
    }
    #[inline(always)]
    fn thread(self) -> u32 {
        self.rank * block_dim_x() + thread_idx_x()
    }
    #[inline(always)]
    fn threads(self) -> u32 {
        self.blocks * block_dim_x()
    }
    #[inline(always)]
    fn block(self) -> (u32, u32) {
        (self.rank, self.blocks)
    }
    #[inline(always)]
    fn lanes(self) -> u32 {
        32
    }
    #[inline(always)]
    fn merge_bytes(_: u32) -> u32 {
        cluster::SHARED_BYTES
    }
    #[inline(always)]
    unsafe fn merge<P: Part>(self, of_warp: P, coefficient: P::Number) -> P {
        cluster::merge(of_warp, coefficient, shared::dynamic(), self.turn)
    }
}
