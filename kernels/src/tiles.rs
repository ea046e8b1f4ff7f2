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

/// Where a row stays between the pass that sums up and the one that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Residence {
    /// In the registers of its threads: rows of limited length.
    Registers,
    /// In shared memory, as much of it as fits; what does not is read twice.
    SharedMemory,
    /// In shared memory, through which the rows of a cluster pass one after the other: the next one
    /// is being read while this one is being written.
    Ring,
    /// Nowhere: it is read twice.
    Streamed,
}

/// When a tile that can run a problem is preferred to those after it in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preference {
    /// Always.
    Always,
    /// For rows of up to this many bytes.
    RowBytesUpTo(u32),
    /// For rows of up to so many bytes: without masks, with a visible range, with element masks.
    RowBytesByMaskUpTo(u32, u32, u32),
}

/// How a softmax kernel is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SoftmaxTile {
    /// What it is called in entry names.
    pub name: &'static str,
    /// When it is preferred.
    pub preference: Preference,
    /// Which threads share a row.
    pub sharing: Sharing,
    /// Where a row stays.
    pub residence: Residence,
    /// Vectors of 16 bytes that a thread holds at once; in the backward of each of two tensors.
    pub vectors: u32,
    /// Every vector must be one aligned access.
    pub aligned: bool,
    /// Threads in a block, at most; for [`Sharing::Warp`] exactly.
    pub threads: u32,
    /// Blocks that fit on a multiprocessor at once, by their registers: without element masks; with
    /// them; of f64; of rows in turn.
    pub blocks_per_sm: (u32, u32, u32, u32),
    /// The architecture it is compiled for, and the oldest it runs on.
    pub arch: &'static str,
    /// Why these numbers.
    pub reason: &'static str,
}

/// Calls `$callback!` with all rows of the table of the softmax forward, in order of preference:
/// `(name, preference, sharing, residence, vectors, aligned, threads, blocks per multiprocessor
/// (without, with element masks, f64, in turns), arch, reason)`.
///
/// Shares of a copy's speed in the reasons are an H200's, without masks.
#[macro_export]
macro_rules! softmax_forward_tiles {
    ($callback:ident) => {
        $callback! {
            (warp4, RowBytesUpTo(1024), Warp, Registers, 4, true, 128, (8, 8, 8, 8), "sm_70",
                "up to 2 KiB a row, without a barrier; four vectors a lane, also where a few lanes \
take a whole row, spread the cost of finding the row")
            (block4, RowBytesByMaskUpTo(4096, 2048, 2048), Block, Registers, 4, true, 512, (2, 1, 1, 2), "sm_70",
                "up to 32 KiB a row; for 2 and 4 KiB a block of one or two warps: 1.01, where block8 \
gives 0.97")
            (block8, RowBytesByMaskUpTo(4096, 4096, 2048), Block, Registers, 8, true, 256, (3, 2, 2, 2), "sm_70",
                "up to 32 KiB a row: three rows on a multiprocessor at once, so that one loads while \
another computes; under a causal mask ahead at 4 KiB, and where there is no staged4")
            (staged4, Always, Block, SharedMemory, 4, true, 128, (6, 6, 5, 5), "sm_90",
                "up to 36 KiB a row, with element masks half as long: 768 threads on a multiprocessor \
in blocks as small as the row allows, since finding the row takes time: 1.0, where block8 gives 0.97")
            (cluster4, RowBytesUpTo(1 << 19), Cluster, SharedMemory, 4, true, 128, (6, 6, 6, 5), "sm_90",
                "any row, over up to sixteen blocks, as staged4 each: 1.0 up to 512 KiB, where reading \
twice gives 0.64")
            (ring4, Always, Cluster, Ring, 4, true, 512, (1, 1, 1, 1), "sm_90",
                "any row, over sixteen blocks that have a multiprocessor each: 0.75 to 0.95 from 1 to \
4 MiB, where cluster4 gives 0.58 to 0.74; more threads of fewer vectors give less")
            (streamed4, Always, Block, Streamed, 4, true, 512, (2, 2, 2, 2), "sm_70",
                "any row: read twice, 32 KiB at a time, the second time partly from the L2 cache: 0.64")
            (ragged_warp4, RowBytesUpTo(1024), Warp, Registers, 4, false, 128, (8, 6, 6, 6), "sm_70",
                "rows off the 16-byte grid, up to 2 KiB less a vector")
            (ragged_block4, Always, Block, Registers, 4, false, 512, (2, 1, 1, 1), "sm_70",
                "rows off the 16-byte grid, up to 32 KiB less a vector")
            (ragged_cluster4, RowBytesUpTo(1 << 20), Cluster, SharedMemory, 4, false, 128, (6, 5, 5, 5), "sm_90",
                "any row off the 16-byte grid, over up to sixteen blocks")
            (ragged_streamed4, Always, Block, Streamed, 4, false, 512, (1, 1, 1, 1), "sm_70",
                "any row off the 16-byte grid: read twice")
        }
    };
}

/// The same for the softmax backward.
#[macro_export]
macro_rules! softmax_backward_tiles {
    ($callback:ident) => {
        $callback! {
            (warp2, RowBytesUpTo(1024), Warp, Registers, 2, true, 128, (8, 6, 6, 6), "sm_70",
                "up to 1 KiB a row, without a barrier")
            (block4, RowBytesUpTo(4096), Block, Registers, 4, true, 256, (3, 2, 2, 2), "sm_70",
                "up to 16 KiB a row: two inputs of four vectors a thread take the registers of the \
forward's eight; 1.02 at 2 and 4 KiB")
            (staged2, Always, Block, SharedMemory, 2, true, 256, (3, 2, 2, 2), "sm_90",
                "up to 36 KiB a row, three of them on a multiprocessor at once, more if they are \
shorter: 1.02")
            (cluster2, RowBytesUpTo(1 << 20), Cluster, SharedMemory, 2, true, 256, (3, 2, 2, 2), "sm_90",
                "any row, over up to sixteen blocks: 1.02 from 64 to 256 KiB")
            (streamed2, Always, Block, Streamed, 2, true, 512, (2, 2, 2, 2), "sm_70",
                "any row: read twice")
            (ragged_warp2, RowBytesUpTo(1024), Warp, Registers, 2, false, 128, (8, 6, 6, 6), "sm_70",
                "rows off the 16-byte grid, up to 1 KiB less a vector")
            (ragged_block4, Always, Block, Registers, 4, false, 256, (2, 1, 1, 1), "sm_70",
                "rows off the 16-byte grid, up to 16 KiB less a vector")
            (ragged_cluster2, RowBytesUpTo(1 << 20), Cluster, SharedMemory, 2, false, 256, (2, 2, 2, 2), "sm_90",
                "any row off the 16-byte grid, over up to sixteen blocks")
            (ragged_streamed2, Always, Block, Streamed, 2, false, 512, (1, 1, 1, 1), "sm_70",
                "any row off the 16-byte grid: read twice")
        }
    };
}

/// When an attention tile that can run a problem is preferred to those after it in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttentionPreference {
    /// Always.
    Always,
    /// For row groups of up to so many rows: the queries of a head, or of all the heads that share a
    /// K/V head, where those are packed.
    RowsUpTo(u32),
    /// For at least so many queries.
    RowsFrom(u32),
    /// For at least so many queries, of up to so many keys.
    RowsFromKeysUpTo(u32, u32),
    /// Where a block can have so many bytes of shared memory, and several blocks on a multiprocessor
    /// their share of them.
    SharedFrom(u32),
}

/// How an attention kernel is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttentionTile {
    /// What it is called in entry names.
    pub name: &'static str,
    /// When it is preferred.
    pub preference: AttentionPreference,
    /// The widest head dimension of q and k.
    pub head_dim: u32,
    /// The widest head dimension of v and o.
    pub value_dim: u32,
    /// Rows of a tile: queries, or packed pairs of query and head.
    pub rows: u32,
    /// Keys of a block of keys, in the plain kernel if there is one.
    pub keys: u32,
    /// Threads in a block, exactly.
    pub threads: u32,
    /// Blocks that fit on a multiprocessor at once, by their registers.
    pub blocks_per_sm: u32,
    /// Bytes of shared memory that a block takes: plain, with masks, with all features.
    pub shared_bytes: [u32; 3],
    /// The architecture it is compiled for, and the oldest it runs on.
    pub arch: &'static str,
    /// Why these numbers.
    pub reason: &'static str,
}

/// Calls `$callback!` with all rows of the table of the attention forward, in order of preference:
/// `(name, preference, element kind, head dimension of q and k, of v and o, (fragments of 16 rows a
/// warp, warps, steps of 32 bytes along the head dimension, of 8 elements along v's, of 8 keys, the
/// same with masks, with all features), threads, blocks per multiprocessor, arch, reason)`. Of kind
/// `HalfPlain` there are entries without masks only.
#[macro_export]
macro_rules! attention_forward_tiles {
    ($callback:ident) => {
        $callback! {
            (portable_d32, Always, Half, 32, 32, (2, 4, 2, 4, 16, 8, 8), 128, 2, "sm_80",
                "128 queries, 32 a warp: half the reads of k and v from shared memory that 16 take")
            (portable_d64_few, RowsUpTo(64), Half, 64, 64, (1, 4, 4, 8, 8, 8, 8), 128, 3, "sm_80",
                "64 queries: of few, a smaller share of a tile is empty")
            (portable_d64_wide, SharedFrom(163_840), HalfPlain, 64, 64, (2, 4, 4, 8, 16, 16, 16), 128, 2,
                "sm_80",
                "128 queries, 32 a warp, 128 keys at a time: half the barriers, maxima and votes that 64 \
keys take; shared memory for two blocks is there from 160 KiB on")
            (portable_d64, Always, Half, 64, 64, (2, 4, 4, 8, 8, 8, 8), 128, 2, "sm_80",
                "128 queries, 32 a warp: half the reads of k and v from shared memory that 16 take")
            (portable_d96, Always, Half, 96, 96, (2, 4, 6, 12, 8, 4, 8), 128, 2, "sm_80",
                "128 queries, 32 a warp: half the reads of k and v from shared memory that 16 take")
            (portable_d128_few, RowsUpTo(64), Half, 128, 128, (1, 4, 8, 16, 8, 8, 8), 128, 2, "sm_80",
                "64 queries: of few, a smaller share of a tile is empty")
            (portable_d128, Always, Half, 128, 128, (2, 4, 8, 16, 8, 4, 4), 128, 2, "sm_80",
                "128 queries, 32 a warp: half the reads of k and v from shared memory that 16 take; \
two blocks on a multiprocessor, so that one multiplies while the other computes exponentials")
            (portable_d192_v128, Always, Half, 192, 128, (2, 4, 12, 16, 4, 4, 4), 128, 2, "sm_80",
                "128 queries, 32 a warp; 32 keys at a time, so that two blocks fit on a \
multiprocessor")
            (portable_d192, Always, Half, 192, 192, (1, 4, 12, 24, 4, 4, 4), 128, 2, "sm_80",
                "64 queries, 16 a warp, since the output of 32 would not leave registers for scores")
            (portable_d256, Always, Half, 256, 256, (1, 4, 16, 32, 4, 4, 4), 128, 2, "sm_80",
                "64 queries, 16 a warp, since the output of 32 would take all registers; 32 keys at \
a time, so that it fits where a block has 99 KiB of shared memory")
            (portable_f32_d64, Always, Single, 64, 64, (1, 4, 8, 8, 4, 4, 4), 128, 2, "sm_80",
                "64 queries, 16 a warp: each product is three of tf32, so that reads do not matter")
            (portable_f32_d128, Always, Single, 128, 128, (1, 4, 16, 16, 4, 4, 4), 128, 2, "sm_80",
                "64 queries, 16 a warp: each product is three of tf32, so that reads do not matter")
            (portable_f32_d256, Always, Single, 256, 256, (1, 2, 32, 32, 4, 4, 4), 64, 1, "sm_80",
                "32 queries, for want of shared memory, of which it takes 161 KiB")
        }
    };
}

/// The same for Hopper, before all others: `(name, features, preference, head dimension of q and k, of v and o,
/// (consumer warpgroups of 64 rows, panels of 64 elements along the head dimension, registers of the
/// scores of a block of keys, of the output, whether q stays in registers), threads, reason)`. With
/// features `Plain` there are entries without masks only, with `Masked` those with masks, and with all
/// features.
#[macro_export]
macro_rules! attention_hopper_forward_tiles {
    ($callback:ident) => {
        $callback! {
            (hopper_d64_short, Plain, RowsFromKeysUpTo(65, 3072), 64, 64, (4, 1, 32, 32, false), 640,
                "256 queries, 64 a warpgroup: with few keys, of which it takes 64 at a time, a fourth consumer \
computes while others begin and end tiles")
            (hopper_d64, Plain, RowsFrom(65), 64, 64, (3, 1, 64, 32, false), 512,
                "192 queries, 64 a warpgroup: a third consumer multiplies while two compute exponentials, \
which take as long as the products")
            (hopper_d128, Plain, RowsFrom(65), 128, 128, (2, 2, 64, 64, true), 384,
                "128 queries, 64 a warpgroup, q in registers; 128 keys at a time: scores, probabilities \
and output take 160 of 232 registers")
            (hopper_d192_v128, Plain, RowsFrom(65), 192, 128, (2, 3, 64, 64, false), 384,
                "128 queries, 64 a warpgroup, q in shared memory, where the output takes its place")
            (hopper_d192, Plain, RowsFrom(65), 192, 192, (2, 3, 56, 96, false), 384,
                "128 queries, 64 a warpgroup; 112 keys at a time, for which shared memory has room")
            (hopper_d256, Plain, RowsFrom(65), 256, 256, (2, 4, 40, 128, false), 384,
                "128 queries, 64 a warpgroup; 80 keys at a time, for which shared memory has room")
            (hopper_d64_masked, Masked, RowsFrom(65), 64, 64, (2, 1, 48, 32, false), 512,
                "128 queries, 64 a warpgroup: a third one would not leave registers for masks and biases; 96 keys at a \
time leave some for a second warpgroup of markers")
            (hopper_d128_masked, Masked, RowsFrom(65), 128, 128, (2, 2, 48, 64, false), 512,
                "128 queries, 64 a warpgroup; 96 keys at a time leave shared memory for biases, and registers for a second \
warpgroup of markers")
            (hopper_d256_masked, Masked, RowsFrom(65), 256, 256, (2, 4, 16, 128, false), 384,
                "128 queries, 64 a warpgroup; 32 keys at a time leave registers for masks and biases")
        }
    };
}
