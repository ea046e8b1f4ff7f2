//! Where the chunks of a tile's rows lie in shared memory.
//!
//! A row is whole chunks of 16 bytes. They are exchanged within groups of 8 (or 4, where a row is
//! not whole groups of 8), by an XOR with a number that differs between rows: so the same chunk of
//! 8 neighbouring rows, which is what `ldmatrix` and stores of fragments take at once, lies in 8
//! different sets of banks, and a row is still contiguous for copies.

/// Bytes of a chunk.
pub const CHUNK: u32 = 16;

/// The layout of rows of so many chunks.
#[derive(Clone, Copy)]
pub struct Swizzle {
    /// Chunks of a row: a multiple of 4.
    pub chunks: u32,
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

    /// The address of a chunk in the first group of a row. `base` is aligned to a group.
    #[inline(always)]
    pub const fn address(self, base: u32, row: u32, chunk: u32) -> u32 {
        let twist = if self.group() == 8 { row & 7 } else { row >> 1 & 3 };
        base + row * self.row_bytes() + (chunk ^ twist) * CHUNK
    }

    /// From a row's first chunk in the first group to that of its chunk `chunk`.
    #[inline(always)]
    pub const fn along(self, address: u32, chunk: u32) -> u32 {
        let (groups, rest) = (chunk / self.group(), chunk % self.group());
        (address ^ (rest * CHUNK)) + groups * self.group() * CHUNK
    }

    /// What a lane gives `ldmatrix` for four matrices of 16 rows, relative to the first: those of two
    /// chunks from chunk `chunk` on, an even number; first the two of the first chunk.
    #[inline(always)]
    pub const fn fragment(self, lane: u32, chunk: u32) -> u32 {
        self.along(self.address(0, lane % 16, lane / 16), chunk)
    }

    /// The same, but first the two of the first 8 rows: a right operand takes neighbouring registers.
    #[inline(always)]
    pub const fn right_fragment(self, lane: u32, chunk: u32) -> u32 {
        self.along(self.address(0, lane % 8 + lane / 16 * 8, lane / 8 % 2), chunk)
    }
}
