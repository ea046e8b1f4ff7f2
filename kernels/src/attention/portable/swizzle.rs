//! Where the chunks of a tile's rows lie in shared memory.
//!
//! A row is whole chunks of 16 bytes. They are exchanged within groups of 8 (or 4, where a row is
//! not whole groups of 8), by an XOR with a number that differs between rows: so the same chunk of
//! the 8 rows that `ldmatrix` and stores of fragments take at once lies in 8 different sets of banks,
//! and a row is still contiguous for copies. Those are neighbouring rows of queries, and rows of keys
//! in the order of the columns that stand for them ([`key_order`]).

use super::key_order;

/// Bytes of a chunk.
pub const CHUNK: u32 = 16;

/// The layout of rows of so many chunks.
#[derive(Clone, Copy)]
pub struct Swizzle {
    /// Chunks of a row: a multiple of 4.
    pub chunks: u32,
    /// The rows are keys, not queries.
    pub of_keys: bool,
}

impl Swizzle {
    /// Chunks that are exchanged with each other: a power of two.
    #[inline(always)]
    pub const fn group(self) -> u32 {
        if self.chunks.is_multiple_of(8) { 8 } else { 4 }
    }

    /// Bytes of a row.
    #[inline(always)]
    pub const fn row_bytes(self) -> u32 {
        self.chunks * CHUNK
    }

    /// What a row's chunks are exchanged by: that of two rows whose numbers have no bit in common is
    /// the XOR of theirs.
    #[inline(always)]
    const fn twist(self, row: u32) -> u32 {
        match (self.of_keys, self.group()) {
            (false, 8) => row & 7,
            (false, _) => row >> 1 & 3,
            (true, 8) => (row >> 3 & 3) << 1 | row & 1,
            // Two rows, of which one is even, take all banks.
            (true, _) => row >> 3 & 3,
        }
    }

    /// The address of a chunk in the first group of a row. `base` is aligned to a group.
    #[inline(always)]
    pub const fn address(self, base: u32, row: u32, chunk: u32) -> u32 {
        base + row * self.row_bytes() + (chunk ^ self.twist(row)) * CHUNK
    }

    /// From a row's first chunk in the first group to that of its chunk `chunk`.
    #[inline(always)]
    pub const fn along(self, address: u32, chunk: u32) -> u32 {
        let (groups, rest) = (chunk / self.group(), chunk % self.group());
        (address ^ (rest * CHUNK)) + groups * self.group() * CHUNK
    }

    /// From a chunk to the same one so many rows below: their number has no bit in common with that
    /// of the chunk's row.
    #[inline(always)]
    pub const fn down(self, address: u32, rows: u32) -> u32 {
        (address ^ (self.twist(rows) * CHUNK)) + rows * self.row_bytes()
    }

    /// What a lane gives `ldmatrix` for four matrices of 16 queries, relative to the first: those of
    /// two chunks from chunk `chunk` on, an even number; first the two of the first chunk.
    #[inline(always)]
    pub const fn queries(self, lane: u32, chunk: u32) -> u32 {
        self.along(self.address(0, lane % 16, lane / 16), chunk)
    }

    /// The same for the keys of two neighbouring fragments.
    #[inline(always)]
    pub const fn values(self, lane: u32, chunk: u32) -> u32 {
        let row = key_order::key(lane % 8) + key_order::fragment((lane / 8 % 2) as usize);
        self.along(self.address(0, row, lane / 16), chunk)
    }

    /// The same, but first the two of the first fragment: a right operand takes neighbouring
    /// registers.
    #[inline(always)]
    pub const fn keys(self, lane: u32, chunk: u32) -> u32 {
        let row = key_order::key(lane % 8) + key_order::fragment((lane / 16) as usize);
        self.along(self.address(0, row, lane / 8 % 2), chunk)
    }
}
