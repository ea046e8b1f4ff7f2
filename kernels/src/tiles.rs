//! The one table of tiles and launch bounds.
//!
//! Each row is read by the kernels, which compile an entry for it, and by the host's dispatch,
//! which asks of each whether it can run a problem and takes the first in order of preference.
//! A row's reason says why its numbers are what they are.

/// Which threads share a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Lanes of a warp: a power of two.
    Warp,
    /// A block.
    Block,
    /// A cluster of blocks.
    Cluster,
}

/// How a softmax kernel is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SoftmaxTile {
    /// What it is called in entry names.
    pub name: &'static str,
    /// Which threads share a row.
    pub sharing: Sharing,
    /// Vectors of 16 bytes that a thread holds at once.
    pub vectors: u32,
    /// Every vector must be one aligned access.
    pub aligned: bool,
    /// Rows of any length, read twice; else a row stays in the registers of its threads.
    pub streamed: bool,
    /// Threads in a block, at most; for [`Sharing::Warp`] exactly.
    pub threads: u32,
    /// Blocks that fit on a multiprocessor at once, without and with element masks.
    pub blocks_per_sm: (u32, u32),
    /// The architecture it is compiled for, and the oldest it runs on.
    pub arch: &'static str,
    /// Why these numbers.
    pub reason: &'static str,
}

/// Calls `$callback!` with all rows of the table of the softmax forward, in order of preference:
/// `(name, sharing, body, vectors, aligned, threads, blocks per multiprocessor (without, with
/// element masks), arch, reason)`.
#[macro_export]
macro_rules! softmax_forward_tiles {
    ($callback:ident) => {
        $callback! {
            (warp4, Warp, forward, 4, true, 128, (8, 8), "sm_70",
                "up to 2 KiB a row: no barrier; four vectors a lane, also where a lane or a few \
take a whole row, spread the cost of finding the row over enough elements")
            (block4, Block, forward, 4, true, 512, (2, 2), "sm_70",
                "up to 32 KiB a row")
            (block8, Block, forward, 8, true, 256, (3, 2), "sm_70",
                "up to 32 KiB a row")
            (wide8, Block, forward, 8, true, 512, (1, 1), "sm_70",
                "up to 64 KiB a row: a multiprocessor for each row")
            (cluster8, Cluster, forward, 8, true, 512, (1, 1), "sm_90",
                "up to 512 KiB a row, over up to eight multiprocessors: still read once")
            (streamed4, Block, forward_streamed, 4, true, 512, (2, 2), "sm_70",
                "any row: read twice, 32 KiB at a time")
            (ragged_warp4, Warp, forward, 4, false, 128, (8, 6), "sm_70",
                "rows off the 16-byte grid, up to 2 KiB less a vector")
            (ragged_block4, Block, forward, 4, false, 512, (2, 1), "sm_70",
                "rows off the 16-byte grid, up to 32 KiB less a vector")
            (ragged_cluster8, Cluster, forward, 8, false, 512, (1, 1), "sm_90",
                "rows off the 16-byte grid, up to 512 KiB less a vector")
            (ragged_streamed4, Block, forward_streamed, 4, false, 512, (1, 1), "sm_70",
                "any row off the 16-byte grid: read twice")
        }
    };
}
