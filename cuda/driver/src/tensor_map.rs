//! Tensor maps by the driver.

use crate::{
    DriverError,
    calls::{SUCCESS, Status},
    symbol,
};
use cuda_launch::{TensorElement, TensorMap, TensorTiling, TileSwizzle, TilingError};
use std::{
    ffi::{c_int, c_uint, c_void},
    sync::OnceLock,
};

/// Why a tensor map could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorMapError {
    /// No map describes the tensor and its tiles.
    #[error(transparent)]
    Tiling(#[from] TilingError),
    /// There is no driver, or it is older than CUDA 12.0.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The driver refuses it.
    #[error("cuTensorMapEncodeTiled returned {status}")]
    Refused {
        /// What it returned.
        status: Status,
    },
}

/// The type of `cuTensorMapEncodeTiled`: map, element type, dimensions, address, sizes, strides from
/// the second dimension on, tile, strides within a tile, interleaving, swizzle, promotion to L2,
/// what is beyond the ends.
type TensorMapEncodeTiled = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_uint,
    *mut c_void,
    *const u64,
    *const u64,
    *const u32,
    *const u32,
    c_int,
    c_int,
    c_int,
    c_int,
) -> Status;

fn encode_tiled() -> Result<TensorMapEncodeTiled, DriverError> {
    static FUNCTION: OnceLock<Result<TensorMapEncodeTiled, DriverError>> = OnceLock::new();
    let look_up = || {
        let address = symbol(c"cuTensorMapEncodeTiled")?;
        // SAFETY: the driver's function of this name has this signature.
        Ok(unsafe { std::mem::transmute::<*mut c_void, TensorMapEncodeTiled>(address.as_ptr()) })
    };
    FUNCTION.get_or_init(look_up).clone()
}

/// `CUtensorMapDataType`.
fn data_type(element: TensorElement) -> c_int {
    match element {
        TensorElement::U8 => 0,
        TensorElement::U16 => 1,
        TensorElement::U32 => 2,
        TensorElement::I32 => 3,
        TensorElement::U64 => 4,
        TensorElement::I64 => 5,
        TensorElement::F16 => 6,
        TensorElement::F32 => 7,
        TensorElement::F64 => 8,
        TensorElement::Bf16 => 9,
    }
}

/// `CU_TENSOR_MAP_L2_PROMOTION_L2_256B`: copies bring whole 256 bytes to the L2 cache.
const L2_PROMOTION: c_int = 3;

/// The map that describes a tensor and its tiles to GPUs. Nothing is read or written at the tensor's
/// address.
///
/// # Errors
/// See [`TensorMapError`].
pub fn encode(tiling: &TensorTiling<'_>) -> Result<TensorMap, TensorMapError> {
    const MOST: usize = TensorTiling::MOST_DIMENSIONS;
    tiling.check()?;
    let encode_tiled = encode_tiled()?;
    let (mut sizes, mut strides, mut tile) = ([1; MOST], [0; MOST], [1; MOST]);
    for (i, dimension) in tiling.dimensions.iter().enumerate() {
        (sizes[i], strides[i], tile[i]) = (dimension.size, dimension.stride, dimension.tile);
    }
    let swizzle = match tiling.swizzle {
        TileSwizzle::None => 0,
        TileSwizzle::Bytes32 => 1,
        TileSwizzle::Bytes64 => 2,
        TileSwizzle::Bytes128 => 3,
    };
    let mut map = TensorMap::from_words([0; 16]);
    // SAFETY: the map has the size and alignment of a CUtensorMap, and the arrays have as many
    // elements as there are dimensions. The address is only written down.
    let status = unsafe {
        encode_tiled(
            map.as_mut_ptr(),
            data_type(tiling.element),
            tiling.dimensions.len() as c_uint,
            tiling.address as *mut c_void,
            sizes.as_ptr(),
            strides[1..].as_ptr(),
            tile.as_ptr(),
            [1; MOST].as_ptr(),
            0,
            swizzle,
            L2_PROMOTION,
            0,
        )
    };
    match status {
        SUCCESS => Ok(map),
        status => Err(TensorMapError::Refused { status }),
    }
}
