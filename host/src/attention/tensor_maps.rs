//! The tensor maps that kernels for Hopper take.

use super::raw::RawAttention;
use crate::{
    Device, Dtype, RawTensor, Result, TensorDimension, TensorElement, TensorMap, TensorTiling,
    TileSwizzle,
};
use kernels::{
    attention::hopper::cut::{PANEL, WARP_ROWS},
    tiles::AttentionTile,
};

/// Elements, rows, heads, batch entries.
type Dimensions = [TensorDimension; 4];

/// The tiles of q, k, v and o, without the tensors' addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tilings {
    element: TensorElement,
    dimensions: [Dimensions; 4],
}

impl Tilings {
    /// Of q, k, v and o in a kernel with this tile. Of their pointers the low bits count.
    ///
    /// # Errors
    /// Why no tensor map describes one of them.
    pub fn of(
        tensors: &[RawTensor; 4],
        dtype: Dtype,
        tile: &AttentionTile,
    ) -> Result<Self, String> {
        let element = match dtype {
            Dtype::F16 => TensorElement::F16,
            Dtype::Bf16 => TensorElement::Bf16,
            _ => return Err(format!("has no tensor maps of {dtype}")),
        };
        let rows = [tile.rows, tile.keys, tile.keys, WARP_ROWS];
        let mut dimensions = [[TensorDimension { size: 1, stride: 16, tile: 1 }; 4]; 4];
        for (i, name) in ["q", "k", "v", "o"].into_iter().enumerate() {
            let failed = |reason: String| format!("has no tensor map of {name}: {reason}");
            dimensions[i] = dimensions_of(&tensors[i], element, rows[i]).map_err(failed)?;
            let tiling = tiling(tensors[i].pointer, element, &dimensions[i]);
            tiling.check().map_err(|error| failed(error.to_string()))?;
        }
        Ok(Tilings { element, dimensions })
    }

    /// The maps for the tensors of a call.
    pub fn maps(&self, device: &Device, call: &RawAttention) -> Result<[TensorMap; 4]> {
        let addresses = [call.q, call.k, call.v, call.o].map(|tensor| tensor.pointer);
        let map =
            |i: usize| device.tensor_map(&tiling(addresses[i], self.element, &self.dimensions[i]));
        Ok([map(0)?, map(1)?, map(2)?, map(3)?])
    }
}

/// A tensor's dimensions, in tiles of a panel of so many rows.
fn dimensions_of(
    tensor: &RawTensor,
    element: TensorElement,
    rows: u32,
) -> Result<Dimensions, String> {
    let ([batch, heads, count, elements], [by_batch, by_head, by_row]) =
        match (&*tensor.shape, &*tensor.strides) {
            (&[b, h, n, d], &[by_b, by_h, by_n, _]) => ([b, h, n, d], [by_b, by_h, by_n]),
            // Packed sequences are one batch entry.
            (&[h, n, d], &[by_h, by_n, _]) => ([1, h, n, d], [0, by_h, by_n]),
            _ => return Err(format!("it has {} dimensions", tensor.rank())),
        };
    let bytes = u64::from(element.bytes());
    let dimension = |size: usize, stride: i64, tile: u32| {
        let size = size as u64;
        // Along a dimension of size 1 nothing moves.
        let stride = if size == 1 { 16 } else { stride };
        match u64::try_from(stride) {
            Ok(stride) if stride > 0 => {
                Ok(TensorDimension { size, stride: stride.saturating_mul(bytes), tile })
            }
            _ => Err(format!("a stride is {stride}")),
        }
    };
    Ok([
        TensorDimension { size: elements as u64, stride: bytes, tile: PANEL },
        dimension(count, by_row, rows)?,
        dimension(heads, by_head, 1)?,
        dimension(batch, by_batch, 1)?,
    ])
}

fn tiling(address: u64, element: TensorElement, dimensions: &Dimensions) -> TensorTiling<'_> {
    TensorTiling { address, element, dimensions, swizzle: TileSwizzle::Bytes128 }
}
