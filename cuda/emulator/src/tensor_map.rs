//! Tensor maps of the emulator, and the tiles they describe.

use crate::{fault::fault, global, machine::Site};
use cuda_launch::{TensorMap, TensorTiling, TileSwizzle, TilingError};
use std::{mem, ops::Range};

/// How the 16-byte pieces of a tile are permuted, as in tensor maps and matrix descriptors: in
/// rows of 16 << bits bytes, piece numbers are xored with the number of the 128-byte line.
pub(crate) fn swizzle(addr: u32, bits: u32) -> u32 {
    addr ^ (addr >> 7 & ((1 << bits) - 1)) << 4
}

const MOST_DIMENSIONS: usize = TensorTiling::MOST_DIMENSIONS;

/// Bytes that the swizzle keeps together.
pub(crate) const PIECE: usize = 16;

/// What the emulator keeps in a [`TensorMap`].
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Tiled {
    /// Tells it from other maps.
    mark: u64,
    address: u64,
    strides: [u64; MOST_DIMENSIONS],
    /// Elements less one.
    last: [u32; MOST_DIMENSIONS],
    tile: [u16; MOST_DIMENSIONS],
    dimensions: u8,
    element: u8,
    swizzle_bits: u8,
    padding: [u8; 39],
}

const MARK: u64 = u64::from_le_bytes(*b"tensor\xe5\xae");

/// The map that describes a tensor and its tiles to the emulator.
///
/// # Errors
/// No map does.
pub fn encode(tiling: &TensorTiling<'_>) -> Result<TensorMap, TilingError> {
    tiling.check()?;
    let mut tiled = Tiled {
        mark: MARK,
        address: tiling.address,
        strides: [0; MOST_DIMENSIONS],
        last: [0; MOST_DIMENSIONS],
        tile: [1; MOST_DIMENSIONS],
        dimensions: tiling.dimensions.len() as u8,
        element: tiling.element.bytes() as u8,
        swizzle_bits: match tiling.swizzle {
            TileSwizzle::None => 0,
            TileSwizzle::Bytes32 => 1,
            TileSwizzle::Bytes64 => 2,
            TileSwizzle::Bytes128 => 3,
        },
        padding: [0; 39],
    };
    for (i, dimension) in tiling.dimensions.iter().enumerate() {
        tiled.strides[i] = dimension.stride;
        tiled.last[i] = (dimension.size - 1) as u32;
        tiled.tile[i] = dimension.tile as u16;
    }
    // SAFETY: both are as large, and plain numbers without padding.
    Ok(TensorMap::from_words(unsafe { mem::transmute::<Tiled, [u64; 16]>(tiled) }))
}

impl Tiled {
    /// Reads a map made by [`encode`].
    ///
    /// # Safety
    /// There must be one.
    pub unsafe fn of_map(map: *const TensorMap, at: Site) -> Tiled {
        // SAFETY: the caller's. In a kernel's arguments it may be less aligned.
        let words = unsafe { map.cast::<[u64; 16]>().read_unaligned() };
        // SAFETY: any numbers are one.
        let tiled = unsafe { mem::transmute::<[u64; 16], Tiled>(words) };
        if tiled.mark != MARK {
            fault!(at, Instruction, "TMA: at {map:p} there is no tensor map of the emulator");
        }
        tiled
    }

    /// Bytes of a tile's row.
    fn row_bytes(&self) -> usize {
        usize::from(self.tile[0]) * usize::from(self.element)
    }

    /// From the tensor's first byte to its last.
    fn span(&self) -> usize {
        let strides = self.strides.iter().zip(&self.last);
        let last: u64 = strides.map(|(stride, last)| stride * u64::from(*last)).sum();
        last as usize + usize::from(self.element)
    }
}

/// The tile of a tensor that begins somewhere.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    tiled: Tiled,
    begin: [i32; MOST_DIMENSIONS],
}

/// 16 bytes of a tile.
pub(crate) struct Piece {
    /// Where they are in shared memory.
    pub addr: u32,
    /// Where the first of them would be in global memory.
    pub global: *mut u8,
    /// Which of them are inside of the tensor.
    pub inside: Range<usize>,
}

impl Tile {
    /// Checks what a copy of this tile from or to shared memory asks for.
    ///
    /// # Safety
    /// That of [`Tiled::of_map`].
    pub unsafe fn of_map(
        map: *const TensorMap,
        coordinates: &[i32],
        shared: u32,
        at: Site,
    ) -> Tile {
        // SAFETY: the caller's.
        let tiled = unsafe { Tiled::of_map(map, at) };
        let (given, dimensions) = (coordinates.len(), tiled.dimensions);
        if given != usize::from(dimensions) {
            fault!(
                at,
                Instruction,
                "TMA: {given} coordinates for a tensor of {dimensions} dimensions"
            );
        }
        // Rows of 128 bytes repeat their swizzle after 1024 bytes, of 64 after 512, ...
        let align = 128 << tiled.swizzle_bits;
        if !shared.is_multiple_of(align) {
            fault!(
                at,
                Misaligned,
                "TMA: the tile's address {shared:#x} must be a multiple of {align}"
            );
        }
        let first = i64::from(coordinates[0]) * i64::from(tiled.element);
        if first % PIECE as i64 != 0 {
            fault!(
                at,
                Instruction,
                "TMA: the tile begins {first} bytes from the beginning of rows, which isn't a multiple \
                 of {PIECE}"
            );
        }
        global::check_range(tiled.address as *const u8, tiled.span(), at);
        let mut begin = [0; MOST_DIMENSIONS];
        begin[..given].copy_from_slice(coordinates);
        Tile { tiled, begin }
    }

    /// Checks what only a store asks for: hardware cuts tiles off at whole pieces, and takes no
    /// negative coordinates.
    pub fn check_store(&self, at: Site) {
        let Tile { tiled, begin } = self;
        if let Some(negative) = begin.iter().find(|begin| **begin < 0) {
            fault!(at, Instruction, "TMA: a tile is stored at the negative coordinate {negative}");
        }
        let size = u64::from(tiled.last[0]) + 1;
        let (row, end) =
            (size * u64::from(tiled.element), begin[0] as u64 + u64::from(tiled.tile[0]));
        if end > size && !row.is_multiple_of(PIECE as u64) {
            fault!(
                at,
                Instruction,
                "TMA: a tile is stored past the end of rows of {row} bytes, which isn't a multiple of \
                 {PIECE}"
            );
        }
    }

    /// Bytes of the tile, outside of the tensor too.
    pub fn bytes(&self) -> u32 {
        let rows: u32 = self.tiled.tile[1..].iter().map(|n| u32::from(*n)).product();
        rows * self.tiled.row_bytes() as u32
    }

    /// Its pieces, for a tile at `shared`.
    pub fn pieces(self, shared: u32) -> impl Iterator<Item = Piece> {
        let Tile { tiled, begin } = self;
        let row_bytes = tiled.row_bytes();
        let element = i64::from(tiled.element);
        let row_end = (i64::from(tiled.last[0]) + 1) * element;
        (0..self.bytes() as usize).step_by(PIECE).map(move |offset| {
            let mut row = offset / row_bytes;
            let x = i64::from(begin[0]) * element + (offset % row_bytes) as i64;
            let mut global = (tiled.address as *mut u8).wrapping_offset(x as isize);
            let mut inside = true;
            let extents = tiled.tile.iter().zip(&tiled.last);
            let others = begin.iter().zip(&tiled.strides).zip(extents).skip(1);
            for ((begin, stride), (tile, last)) in others {
                let at = i64::from(*begin) + (row % usize::from(*tile)) as i64;
                row /= usize::from(*tile);
                inside &= (0..=i64::from(*last)).contains(&at);
                global = global.wrapping_offset(at as isize * *stride as isize);
            }
            let clip = |byte: i64| (byte - x).clamp(0, PIECE as i64) as usize;
            let range = if inside { clip(0)..clip(row_end) } else { 0..0 };
            let addr = swizzle(shared + offset as u32, tiled.swizzle_bits.into());
            Piece { addr, global, inside: range }
        })
    }
}
