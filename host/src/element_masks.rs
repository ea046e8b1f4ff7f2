//! How masks with a value for each element are addressed.

use crate::{Dtype, Error, Polarity, RawMask, RawTensor, Result};

/// Masks of a bank that an index reaches: it is an i32, and a negative one is outside.
const MAX_BANK: u32 = 1 << 31;

/// The masks of a call with a value for each element, in the elements' shape.
#[derive(Debug, Default)]
pub(crate) struct ElementMasks {
    pub bytes: Option<RawTensor>,
    pub additive: Option<RawTensor>,
    /// From one mask of a bank to the next, in elements; 0 without a bank.
    pub bytes_bank: i64,
    pub additive_bank: i64,
    pub bank_size: u32,
    /// A nonzero byte shows, instead of hiding.
    pub keep: bool,
    /// One byte stands for a whole row.
    pub bytes_broadcast: bool,
    pub additive_f32: bool,
    /// One number stands for a whole row.
    pub additive_broadcast: bool,
}

impl ElementMasks {
    /// None.
    pub fn none() -> Self {
        ElementMasks { bank_size: MAX_BANK, ..ElementMasks::default() }
    }

    /// Checks types, shapes and strides of the masks for elements of this shape and type, and brings
    /// them to the shape. `additive` is the additive mask's name in errors.
    pub fn of(
        mask: &RawMask,
        shape: &[usize],
        dtype: Dtype,
        additive: &'static str,
    ) -> Result<Self> {
        let banked = mask.bank_index.is_some();
        let mut masks = ElementMasks::none();
        if let Some((raw, polarity)) = &mask.bytes {
            raw.check_dtype("mask", Dtype::U8)?;
            let (mask, bank) = unbanked("mask", raw, banked, &mut masks.bank_size)?;
            let mask = mask.broadcast_to("mask", shape)?;
            masks.keep = *polarity == Polarity::Keep;
            masks.bytes_broadcast = is_broadcast("mask", &mask)?;
            (masks.bytes, masks.bytes_bank) = (Some(mask), bank);
        }
        if let Some(raw) = &mask.additive {
            if raw.dtype != Dtype::F32 || dtype == Dtype::F64 {
                raw.check_dtype(additive, dtype)?;
            }
            let (mask, bank) = unbanked(additive, raw, banked, &mut masks.bank_size)?;
            let mask = mask.broadcast_to(additive, shape)?;
            masks.additive_f32 = mask.dtype == Dtype::F32;
            masks.additive_broadcast = is_broadcast(additive, &mask)?;
            (masks.additive, masks.additive_bank) = (Some(mask), bank);
        }
        if banked && masks.bytes.is_none() && masks.additive.is_none() {
            return Err(Error::MissingMaskBank);
        }
        Ok(masks)
    }

    /// Whether each vector of masks of vectors of `lanes` elements is one aligned access.
    pub fn are_aligned(&self, lanes: u64) -> bool {
        (self.bytes_broadcast || self.bytes_aligned(lanes))
            && (self.additive_broadcast || self.additive_aligned())
    }

    /// Whether the rows of a mask of bytes begin at multiples of so many bytes.
    pub fn bytes_aligned(&self, to: u64) -> bool {
        let bank_aligned = (self.bytes_bank as u64).is_multiple_of(to);
        self.bytes.as_ref().is_none_or(|mask| mask.alignment() >= to && bank_aligned)
    }

    /// Whether the rows of an additive mask begin on 16-byte boundaries.
    pub fn additive_aligned(&self) -> bool {
        self.additive.as_ref().is_none_or(|mask| {
            let bank_bytes = self.additive_bank as u64 * mask.dtype.size() as u64;
            mask.alignment() >= 16 && bank_bytes.is_multiple_of(16)
        })
    }
}

/// Whether a mask in the elements' shape has one element for a whole row.
fn is_broadcast(tensor: &'static str, raw: &RawTensor) -> Result<bool> {
    if raw.last_stride() == 0 {
        return Ok(true);
    }
    raw.check_last_stride(tensor, "1 or 0")?;
    Ok(false)
}

/// A mask without the bank's dimension, and the bank's stride.
fn unbanked(
    tensor: &'static str,
    raw: &RawTensor,
    banked: bool,
    bank_size: &mut u32,
) -> Result<(RawTensor, i64)> {
    if !banked {
        return Ok((*raw, 0));
    }
    let Some((&size, shape)) = raw.shape.split_first() else {
        return Err(Error::RankMismatch { tensor, expected: 1, found: 0 });
    };
    *bank_size = (*bank_size).min(u32::try_from(size).unwrap_or(MAX_BANK));
    let mask = RawTensor::new(raw.pointer, raw.dtype, shape, &raw.strides[1..])?;
    Ok((mask, raw.strides[0]))
}
