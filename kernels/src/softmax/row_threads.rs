//! Which threads share a row.

use super::problem::SoftmaxForward;
use crate::reduction::{Part, block, cluster};
use cuda_std::{
    cluster as cluster_index, shared,
    thread::{block_dim_x, block_idx_x, thread_idx_x},
};

/// The threads that share a row, as one of them sees them.
pub trait RowThreads: Copy {
    /// The calling thread's place.
    ///
    /// # Safety
    /// All threads of the block must call together, once, at the kernel's start.
    unsafe fn here(problem: &SoftmaxForward) -> Self;
    /// The row's number. There may be none of that number.
    fn row(self) -> u32;
    /// The thread's number among those of the row.
    fn thread(self) -> u32;
    /// How many they are.
    fn threads(self) -> u32;
    /// The block's number among those of the row, and how many these are.
    fn block(self) -> (u32, u32);
    /// How many lanes of a warp belong to the row.
    fn lanes(self) -> u32;
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
    unsafe fn here(problem: &SoftmaxForward) -> Self {
        Warp { lanes_log2: problem.row_lanes_log2 & 31 }
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
    unsafe fn merge<P: Part>(self, of_warp: P, _: P::Number) -> P {
        of_warp
    }
}

/// A block takes one row.
#[derive(Clone, Copy)]
pub struct Block;

impl RowThreads for Block {
    #[inline(always)]
    unsafe fn here(_: &SoftmaxForward) -> Self {
        Block
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
    unsafe fn merge<P: Part>(self, of_warp: P, coefficient: P::Number) -> P {
        block::merge(of_warp, coefficient, shared::dynamic())
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
    /// The calling thread's place on the first of the rows that its cluster takes in turn. Shared
    /// memory begins with [`cluster::SHARED_BYTES_IN_TURNS`].
    ///
    /// # Safety
    /// As for [`RowThreads::here`].
    #[inline(always)]
    pub unsafe fn first() -> Self {
        Self::begin(cluster::SHARED_BYTES_IN_TURNS)
    }

    /// The place on the cluster's next row: clusters take rows in turn.
    #[inline(always)]
    pub fn next(self) -> Self {
        Cluster { turn: self.turn + 1, ..self }
    }

    /// # Safety
    /// As for [`cluster::begin`].
    #[inline(always)]
    unsafe fn begin(shared_bytes: u32) -> Self {
        cluster::begin(shared::dynamic(), shared_bytes);
        let (rank, blocks) = (cluster_index::block_rank(), cluster_index::block_count());
        Cluster { rank, blocks, turn: 0 }
    }
}

impl RowThreads for Cluster {
    #[inline(always)]
    unsafe fn here(_: &SoftmaxForward) -> Self {
        Self::begin(cluster::SHARED_BYTES)
    }
    #[inline(always)]
    fn row(self) -> u32 {
        cluster_index::cluster_idx_x() + self.turn * cluster_index::cluster_count_x()
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
    unsafe fn merge<P: Part>(self, of_warp: P, coefficient: P::Number) -> P {
        cluster::merge(of_warp, coefficient, shared::dynamic(), self.turn)
    }
}
