//! What TMA copies: tiles of tensors.

use core::ffi::c_void;

/// A tensor in global memory and the tile that a copy takes from it, as the hardware wants to have
/// it described (`CUtensorMap`). Kernels take it by value; only the device that it was made for knows
/// what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct TensorMap([u64; 16]);

impl TensorMap {
    /// A map of these words.
    pub const fn from_words(words: [u64; 16]) -> Self {
        TensorMap(words)
    }

    /// The words.
    pub const fn words(&self) -> &[u64; 16] {
        &self.0
    }

    /// Where a driver writes it.
    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }
}

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorElement {
    /// u8.
    U8,
    /// u16.
    U16,
    /// u32.
    U32,
    /// i32.
    I32,
    /// u64.
    U64,
    /// i64.
    I64,
    /// f16.
    F16,
    /// f32.
    F32,
    /// f64.
    F64,
    /// bf16.
    Bf16,
}

impl TensorElement {
    /// Bytes of an element.
    pub const fn bytes(self) -> u32 {
        match self {
            TensorElement::U8 => 1,
            TensorElement::U16 | TensorElement::F16 | TensorElement::Bf16 => 2,
            TensorElement::U32 | TensorElement::I32 | TensorElement::F32 => 4,
            TensorElement::U64 | TensorElement::I64 | TensorElement::F64 => 8,
        }
    }
}

/// How the 16-byte pieces of a tile's rows are permuted in shared memory, in rows of so many bytes:
/// a piece's number is xored with that of its 128-byte line, modulo the pieces in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TileSwizzle {
    /// Not at all; rows may be of any length.
    None,
    /// Rows of 32 bytes.
    Bytes32,
    /// Rows of 64 bytes.
    Bytes64,
    /// Rows of 128 bytes.
    Bytes128,
}

impl TileSwizzle {
    /// Bytes that a tile's row has; none: any multiple of 16.
    pub const fn row_bytes(self) -> Option<u32> {
        match self {
            TileSwizzle::None => None,
            TileSwizzle::Bytes32 => Some(32),
            TileSwizzle::Bytes64 => Some(64),
            TileSwizzle::Bytes128 => Some(128),
        }
    }
}

/// A dimension of a tensor and of its tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorDimension {
    /// Elements of the tensor.
    pub size: u64,
    /// Bytes from one element to the next.
    pub stride: u64,
    /// Elements of a tile.
    pub tile: u32,
}

/// A tensor and its tiles, of 2 to 5 dimensions. A tile lies densely in shared memory, the first
/// dimension fastest; what it has beyond the tensor's ends is 0 when loaded, and not stored, if the first
/// dimension is a multiple of 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorTiling<'a> {
    /// Where the first element is in the device's global memory: a multiple of 16.
    pub address: u64,
    /// The elements' type.
    pub element: TensorElement,
    /// The dimensions, the one whose elements are neighbours first.
    pub dimensions: &'a [TensorDimension],
    /// How tiles lie in shared memory.
    pub swizzle: TileSwizzle,
}

/// Why no tensor map describes a [`TensorTiling`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TilingError {
    /// The number of dimensions.
    #[error("a tensor map has 2 to 5 dimensions, not {count}")]
    Dimensions {
        /// How many.
        count: usize,
    },
    /// The address.
    #[error("the tensor's address {address:#x} is not a multiple of 16")]
    Address {
        /// What it is.
        address: u64,
    },
    /// A dimension's size.
    #[error("dimension {dimension} of the tensor has {size} elements, not 1 to 2^32")]
    Size {
        /// Which, from 0.
        dimension: usize,
        /// Its elements.
        size: u64,
    },
    /// Elements of the first dimension are not neighbours.
    #[error("the first dimension has a stride of {stride} bytes, not the {bytes} of an element")]
    FirstStride {
        /// Its stride.
        stride: u64,
        /// Bytes of an element.
        bytes: u32,
    },
    /// A dimension's stride.
    #[error(
        "dimension {dimension} has a stride of {stride} bytes, not a multiple of 16 below 2^40"
    )]
    Stride {
        /// Which, from 0.
        dimension: usize,
        /// Its stride.
        stride: u64,
    },
    /// A dimension of tiles.
    #[error("dimension {dimension} of a tile has {tile} elements, not 1 to 256")]
    Tile {
        /// Which, from 0.
        dimension: usize,
        /// Its elements.
        tile: u32,
    },
    /// The length of a tile's rows.
    #[error("a tile's row has {bytes} bytes, not a multiple of 16")]
    RowBytes {
        /// Its bytes.
        bytes: u32,
    },
    /// The length of a swizzled tile's rows.
    #[error("a tile's row has {bytes} bytes, not the swizzle's {expected}")]
    SwizzledRow {
        /// Its bytes.
        bytes: u32,
        /// Those of the swizzle.
        expected: u32,
    },
}

impl TensorTiling<'_> {
    /// The most dimensions.
    pub const MOST_DIMENSIONS: usize = 5;

    /// Bytes of a tile, as a copy announces them to its barrier.
    pub fn tile_bytes(&self) -> u64 {
        let elements = self.dimensions.iter().map(|dimension| u64::from(dimension.tile));
        elements.product::<u64>() * u64::from(self.element.bytes())
    }

    /// Checks all that a tensor map asks for.
    ///
    /// # Errors
    /// The first thing that is not so.
    pub fn check(&self) -> Result<(), TilingError> {
        let &TensorTiling { address, element, dimensions, swizzle } = self;
        let (count, bytes) = (dimensions.len(), element.bytes());
        let [first, others @ ..] = dimensions else {
            return Err(TilingError::Dimensions { count });
        };
        if !(2..=Self::MOST_DIMENSIONS).contains(&count) {
            return Err(TilingError::Dimensions { count });
        }
        if !address.is_multiple_of(16) {
            return Err(TilingError::Address { address });
        }
        for (dimension, &TensorDimension { size, tile, .. }) in dimensions.iter().enumerate() {
            if !(1..=1 << 32).contains(&size) {
                return Err(TilingError::Size { dimension, size });
            }
            if !(1..=256).contains(&tile) {
                return Err(TilingError::Tile { dimension, tile });
            }
        }
        if first.stride != u64::from(bytes) {
            return Err(TilingError::FirstStride { stride: first.stride, bytes });
        }
        for (i, &TensorDimension { stride, .. }) in others.iter().enumerate() {
            if !stride.is_multiple_of(16) || stride >= 1 << 40 {
                return Err(TilingError::Stride { dimension: i + 1, stride });
            }
        }
        let bytes = first.tile * bytes;
        if !bytes.is_multiple_of(16) {
            return Err(TilingError::RowBytes { bytes });
        }
        match swizzle.row_bytes() {
            // The driver takes shorter rows, whose tiles then take more room than they have bytes.
            Some(expected) if bytes != expected => {
                Err(TilingError::SwizzledRow { bytes, expected })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: [TensorDimension; 2] = [
        TensorDimension { size: 100, stride: 2, tile: 64 },
        TensorDimension { size: 50, stride: 208, tile: 8 },
    ];

    fn tiling(dimensions: &[TensorDimension]) -> TensorTiling<'_> {
        let swizzle = TileSwizzle::Bytes128;
        TensorTiling { address: 32, element: TensorElement::Bf16, dimensions, swizzle }
    }

    /// What is wrong after a change of the dimensions.
    fn wrong(change: impl FnOnce(&mut [TensorDimension; 2])) -> TilingError {
        let mut dimensions = RIGHT;
        change(&mut dimensions);
        tiling(&dimensions).check().expect_err("it is wrong")
    }

    #[test]
    fn what_the_hardware_takes_is_right() {
        assert_eq!(tiling(&RIGHT).check(), Ok(()));
        assert_eq!(tiling(&RIGHT).tile_bytes(), 1024);
        let mut five = [RIGHT[1]; 5];
        five[0] = TensorDimension { size: 1 << 32, stride: 2, tile: 8 };
        five[4] = TensorDimension { size: 1, stride: (1 << 40) - 16, tile: 256 };
        let plain = TensorTiling { swizzle: TileSwizzle::None, ..tiling(&five) };
        assert_eq!(plain.check(), Ok(()));
    }

    #[test]
    fn dimensions_are_two_to_five() {
        for count in [0, 1, 6] {
            let dimensions = [RIGHT[1]; 6];
            let expected = Err(TilingError::Dimensions { count });
            assert_eq!(tiling(&dimensions[..count]).check(), expected);
        }
    }

    #[test]
    fn sizes_strides_and_tiles_have_bounds() {
        use TilingError as Error;
        let address = TensorTiling { address: 8, ..tiling(&RIGHT) }.check();
        assert_eq!(address, Err(Error::Address { address: 8 }));
        assert_eq!(wrong(|d| d[1].size = 0), Error::Size { dimension: 1, size: 0 });
        let size = (1 << 32) + 1;
        assert_eq!(wrong(|d| d[0].size = size), Error::Size { dimension: 0, size });
        assert_eq!(wrong(|d| d[0].stride = 4), Error::FirstStride { stride: 4, bytes: 2 });
        assert_eq!(wrong(|d| d[1].stride = 200), Error::Stride { dimension: 1, stride: 200 });
        let stride = 1 << 40;
        assert_eq!(wrong(|d| d[1].stride = stride), Error::Stride { dimension: 1, stride });
        assert_eq!(wrong(|d| d[1].tile = 0), Error::Tile { dimension: 1, tile: 0 });
        assert_eq!(wrong(|d| d[1].tile = 257), Error::Tile { dimension: 1, tile: 257 });
        assert_eq!(wrong(|d| d[0].tile = 12), Error::RowBytes { bytes: 24 });
        for tile in [72, 56] {
            let expected = Error::SwizzledRow { bytes: 2 * tile, expected: 128 };
            assert_eq!(wrong(|d| d[0].tile = tile), expected);
        }
    }
}
