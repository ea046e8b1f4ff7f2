//! The options of attention: plain values, without tensors.

use crate::{Causal, Error, Result, visible_range::VisibleRange};
use kernels::attention::entries::{ATTENTION_FORWARD_VARIANTS, HOPPER_FORWARD_VARIANTS};
use std::ops::RangeInclusive;

/// Caps on scores of which inverses, and multiples by usual scales, are normal numbers.
const SOFTCAPS: RangeInclusive<f32> = 1.0 / LARGEST_CAP..=LARGEST_CAP;
const LARGEST_CAP: f32 = (1u128 << 100) as f32;

/// Attention: `o_i = sum_j softmax_j(s_ij) v_j`, with the scores
/// `s_ij = softcap(scale * q_i . k_j) + bias_ij - slope * |i + Sk - Sq - j|`. No score is ever
/// stored.
///
/// Queries, keys and values have the dimensions batch, heads, rows, elements, with any strides but
/// for the last, which is 1: other orders, and parts of one tensor, are views of these
/// ([`Tensor::transpose`](crate::Tensor::transpose), [`Tensor::narrow`](crate::Tensor::narrow)).
/// There may be fewer heads of keys and values than of queries, as many of which then share each.
///
/// - A query that sees nothing gives 0, with a log-sum-exp of -inf.
/// - Only visibility and -inf mask; any finite score counts, however small.
/// - NaN in a query makes its own row NaN, and no other; NaN in keys and values beyond a length
///   reaches nothing.
///
/// ```
/// use fused_attention::{Attention, AttentionInputs, Causal, Device};
/// use half::f16;
///
/// # fn main() -> fused_attention::Result<()> {
/// # #[cfg(feature = "emulator")] {
/// let device = Device::emulator(); // or Device::cuda(0)?
/// // 1 batch entry, 1 head, 2 rows of 8 elements.
/// let numbers: Vec<f16> = (0..16).map(|i| f16::from_f32(i as f32 / 8.0)).collect();
/// let x = device.upload(&numbers, &[1, 1, 2, 8])?;
/// let attention = Attention::new().causal(Causal::BottomRight);
/// let output = attention.forward(&AttentionInputs::new(&x, &x, &x))?;
/// // The first query sees the first value only.
/// assert_eq!(output.o.to_vec()?[..8], numbers[..8]);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attention {
    /// The bits of the numbers, so that options can be compared and hashed. No scale: the inverse
    /// square root of the head dimension.
    scale_bits: Option<u64>,
    softcap_bits: Option<u64>,
    dropout_bits: u64,
    pub(super) range: VisibleRange,
    pub(super) tile: Option<&'static str>,
}

impl Attention {
    /// Attention to all keys, with a scale of one over the square root of the head dimension.
    pub fn new() -> Self {
        Attention {
            scale_bits: None,
            softcap_bits: None,
            dropout_bits: 0,
            range: VisibleRange::ALL,
            tile: None,
        }
    }

    /// The number that products of queries and keys are multiplied by. It is rounded to f32.
    pub fn scale(self, scale: f64) -> Self {
        Attention { scale_bits: Some(scale.to_bits()), ..self }
    }

    /// Hides the keys to the right of the diagonal, beside what a window hides.
    pub fn causal(self, diagonal: Causal) -> Self {
        Attention { range: self.range.causal(diagonal), ..self }
    }

    /// Shows only keys from `left` before the diagonal to `right` after it; negative: all on that
    /// side. `window(l, 0)` is causal too.
    pub fn window(self, left: i64, right: i64) -> Self {
        Attention { range: self.range.window(left, right), ..self }
    }

    /// Where the diagonal of the window runs; without this through the bottom right corner.
    pub fn diagonal(self, diagonal: Causal) -> Self {
        Attention { range: self.range.with_diagonal(diagonal), ..self }
    }

    /// Bends scaled products so that they stay below `cap` in magnitude: x becomes
    /// `cap * tanh(x / cap)`, before anything is added or hidden. A call refuses a cap that is not from
    /// 2^-100 to 2^100.
    pub fn softcap(self, cap: f64) -> Self {
        Attention { softcap_bits: Some(cap.to_bits()), ..self }
    }

    /// Drops each probability with this probability, which is rounded to 256ths, up to 255 of them,
    /// and divides the others by the rest. Which ones is decided by the
    /// [seed](crate::AttentionInputs::dropout_seed) of each call. 0 drops none.
    pub fn dropout(self, probability: f64) -> Self {
        Attention { dropout_bits: probability.to_bits(), ..self }
    }

    /// Takes the tile of this name, from [`attention_tile_names`], for measurements and tests,
    /// instead of the preferred one. It is an error to run a problem with it that it cannot run.
    ///
    /// # Errors
    /// [`Error::NoSuchTile`].
    pub fn with_tile(self, name: &str) -> Result<Self> {
        let tile = attention_tile_names().find(|&known| known == name);
        let missing = || Error::NoSuchTile {
            tile: name.to_owned(),
            known: attention_tile_names().collect::<Vec<_>>().join(", "),
        };
        Ok(Attention { tile: Some(tile.ok_or_else(missing)?), ..self })
    }

    /// The scale for this head dimension.
    pub(super) fn scale_for(&self, head_dim: usize) -> f32 {
        let default = || 1.0 / (head_dim as f64).sqrt();
        self.scale_bits.map_or_else(default, f64::from_bits) as f32
    }

    /// The cap; 0 without one.
    pub(super) fn checked_softcap(&self) -> Result<f32> {
        let Some(bits) = self.softcap_bits else { return Ok(0.0) };
        let softcap = f64::from_bits(bits);
        let rounded = softcap as f32;
        if !SOFTCAPS.contains(&rounded) {
            return Err(Error::BadSoftcap { softcap });
        }
        Ok(rounded)
    }

    /// How many of 256 are dropped.
    pub(super) fn checked_dropped(&self) -> Result<u32> {
        let probability = f64::from_bits(self.dropout_bits);
        if !(0.0..1.0).contains(&probability) {
            return Err(Error::BadDropout { probability });
        }
        Ok((probability * 256.0).round().min(255.0) as u32)
    }
}

impl Default for Attention {
    fn default() -> Self {
        Attention::new()
    }
}

/// The names of all tiles of attention's forward, in order of preference.
pub fn attention_tile_names() -> impl Iterator<Item = &'static str> {
    let hopper = HOPPER_FORWARD_VARIANTS.iter().map(|variant| variant.tile.name);
    hopper.chain(ATTENTION_FORWARD_VARIANTS.iter().map(|variant| variant.tile.name))
}
