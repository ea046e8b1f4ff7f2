//! The options of a softmax: plain values, without tensors.

use crate::{Causal, Dtype, Error, Result, visible_range::VisibleRange};
use kernels::softmax::entries::{BACKWARD_VARIANTS, FORWARD_VARIANTS};

/// Scaled masked softmax over the last dimension: `y = softmax(scale * x + mask)`.
///
/// The last dimension holds the keys, the one before it the queries; all others are free.
///
/// - A row that sees nothing is 0, and its log-sum-exp -inf.
/// - Only visibility and -inf mask; any finite score counts, however small.
/// - NaN in what a row sees makes all of that row NaN, and no other; so does +inf.
///
/// ```
/// use fused_attention::{Causal, Device, Mask, ScaledMaskedSoftmax};
///
/// # fn main() -> fused_attention::Result<()> {
/// # #[cfg(feature = "emulator")] {
/// let device = Device::emulator(); // or Device::cuda(0)?
/// let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// let softmax = ScaledMaskedSoftmax::new(0.5).causal(Causal::BottomRight);
/// let y = softmax.forward(&x, Mask::none())?.to_vec()?;
/// assert_eq!(y[..2], [1.0, 0.0]);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScaledMaskedSoftmax {
    /// The bits of the scale, so that options can be compared and hashed.
    scale_bits: u64,
    pub(super) range: VisibleRange,
    pub(super) tile: Option<&'static str>,
}

impl ScaledMaskedSoftmax {
    /// A softmax of `scale * x`. For f16, bf16 and f32 the scale is rounded to f32.
    ///
    /// Without an additive mask, finite scales beyond 1e38 in magnitude (f64: 8e307) count as about
    /// that.
    pub fn new(scale: f64) -> Self {
        ScaledMaskedSoftmax { scale_bits: scale.to_bits(), range: VisibleRange::ALL, tile: None }
    }

    /// The number that inputs are multiplied by.
    pub fn scale(&self) -> f64 {
        f64::from_bits(self.scale_bits)
    }

    /// Hides the keys to the right of the diagonal, beside what a window hides.
    pub fn causal(self, diagonal: Causal) -> Self {
        ScaledMaskedSoftmax { range: self.range.causal(diagonal), ..self }
    }

    /// Shows only keys from `left` before the diagonal to `right` after it; negative: all on that
    /// side. `window(l, 0)` is causal too.
    pub fn window(self, left: i64, right: i64) -> Self {
        ScaledMaskedSoftmax { range: self.range.window(left, right), ..self }
    }

    /// Where the diagonal of the window runs; without this through the bottom right corner.
    pub fn diagonal(self, diagonal: Causal) -> Self {
        ScaledMaskedSoftmax { range: self.range.with_diagonal(diagonal), ..self }
    }

    /// Takes the tile of this name, from [`tile_names`] or for the backward from
    /// [`backward_tile_names`], for measurements and tests, instead of the preferred one. It is an
    /// error to run a problem with it that it cannot run.
    ///
    /// # Errors
    /// [`Error::NoSuchTile`].
    pub fn with_tile(self, name: &str) -> Result<Self> {
        let mut names: Vec<_> = tile_names().collect();
        let backward = backward_tile_names().filter(|name| !names.contains(name));
        names.extend(backward.collect::<Vec<_>>());
        let tile = names.iter().copied().find(|&known| known == name);
        let missing = || Error::NoSuchTile { tile: name.to_owned(), known: names.join(", ") };
        Ok(ScaledMaskedSoftmax { tile: Some(tile.ok_or_else(missing)?), ..self })
    }
}

/// The names of all tiles of the forward, in order of preference.
pub fn tile_names() -> impl Iterator<Item = &'static str> {
    FORWARD_VARIANTS.iter().map(|variant| variant.tile.name)
}

/// The names of all tiles of the backward, in order of preference.
pub fn backward_tile_names() -> impl Iterator<Item = &'static str> {
    BACKWARD_VARIANTS.iter().map(|variant| variant.tile.name)
}

/// What a softmax of this type accumulates in, and its scale in device memory and its log-sum-exp
/// are: f32, or f64 for f64.
pub(super) fn accumulator(dtype: Dtype) -> Dtype {
    if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
}
