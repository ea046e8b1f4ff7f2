//! What a call's tensors must look like, and how its masks are addressed.

use super::{
    call::Call,
    cut::lanes,
    options::{ScaledMaskedSoftmax, accumulator},
    tuning::TunedMask,
};
use crate::{Causal, Dtype, Error, Per, Polarity, RawTensor, Result};
use kernels::softmax::problem::flags;

/// Masks of a bank that an index reaches: it is an i32, and a negative one is outside.
const MAX_BANK: u32 = 1 << 31;

/// The tensors that hide parts of rows, in the source's shape: masks for each element, the others for each
/// row.
#[derive(Default)]
pub(super) struct Masks {
    pub bytes: Option<RawTensor>,
    pub additive: Option<RawTensor>,
    pub lengths: Option<RawTensor>,
    pub bank_index: Option<RawTensor>,
    /// From one mask of a bank to the next, in elements; 0 without a bank.
    pub bytes_bank: i64,
    pub additive_bank: i64,
    pub bank_size: u32,
    /// Bits of [`flags`].
    pub flags: u32,
}

/// Checks types, shapes and strides of the tensors that are no masks.
pub(super) fn check(call: &Call) -> Result<()> {
    let Call { operation, source, output, .. } = call;
    let (of_source, of_output) = (operation.source(), operation.output());
    let dtype = source.dtype;
    call.tensors().try_for_each(|(name, raw)| raw.check_rank(name))?;
    let Some((_, row_shape)) = source.shape.split_last() else {
        return Err(Error::RankMismatch { tensor: of_source, expected: 1, found: 0 });
    };
    check_last_stride(of_source, source, "1")?;
    let beside = call.gradient.as_ref().map(|gradient| ("dp", gradient));
    for (name, raw) in beside.into_iter().chain([(of_output, output)]) {
        raw.check_dtype(name, dtype)?;
        raw.check_shape(name, &source.shape)?;
        check_last_stride(name, raw, "1")?;
    }
    output.check_writable(of_output)?;
    if let Some(lse) = &call.lse {
        lse.check_dtype("lse", accumulator(dtype))?;
        lse.check_shape("lse", row_shape)?;
        if !lse.is_contiguous() {
            return Err(Error::UnsupportedStride {
                tensor: "lse",
                dim: lse.rank().saturating_sub(1),
                found: lse.strides.last().copied().unwrap_or(1),
                expected: "row-major order without gaps",
            });
        }
    }
    if let Some(scale) = &call.scale {
        scale.check_dtype("scale", accumulator(dtype))?;
        if scale.element_count()? != 1 {
            let found = scale.shape.to_vec();
            return Err(Error::ShapeMismatch { tensor: "scale", expected: vec![1], found });
        }
    }
    Ok(())
}

impl Masks {
    /// Checks types, shapes and strides of everything that hides parts of rows, and brings it to
    /// the source's shape.
    pub fn of(options: &ScaledMaskedSoftmax, call: &Call) -> Result<Self> {
        let (shape, dtype) = (&call.source.shape, call.source.dtype);
        let row_shape = &shape[..shape.len() - 1];
        let banked = call.mask.bank_index.is_some();
        let mut masks = Masks { bank_size: MAX_BANK, ..Masks::default() };
        masks.set(options.range.diagonal == Causal::TopLeft, flags::TOP_LEFT);
        if let Some((raw, polarity)) = &call.mask.bytes {
            raw.check_dtype("mask", Dtype::U8)?;
            let (mask, bank) = unbanked("mask", raw, banked, &mut masks.bank_size)?;
            let mask = mask.broadcast_to("mask", shape)?;
            masks.set(*polarity == Polarity::Keep, flags::KEEP);
            masks.set(is_broadcast("mask", &mask)?, flags::BYTES_BROADCAST);
            (masks.bytes, masks.bytes_bank) = (Some(mask), bank);
        }
        if let Some(raw) = &call.mask.additive {
            if raw.dtype != Dtype::F32 || dtype == Dtype::F64 {
                raw.check_dtype("additive mask", dtype)?;
            }
            let (mask, bank) = unbanked("additive mask", raw, banked, &mut masks.bank_size)?;
            let mask = mask.broadcast_to("additive mask", shape)?;
            masks.set(mask.dtype == Dtype::F32, flags::ADDITIVE_F32);
            masks.set(is_broadcast("additive mask", &mask)?, flags::ADDITIVE_BROADCAST);
            (masks.additive, masks.additive_bank) = (Some(mask), bank);
        }
        if banked && masks.bytes.is_none() && masks.additive.is_none() {
            return Err(Error::MissingMaskBank);
        }
        if let Some((raw, per)) = &call.mask.lengths {
            masks.lengths = Some(per_row("lengths", raw, *per, row_shape)?);
        }
        if let Some(raw) = &call.mask.bank_index {
            masks.bank_index = Some(per_row("bank index", raw, Per::Batch, row_shape)?);
        }
        let reads_all = call.operation.reads_element_masks();
        Ok(if reads_all { masks } else { masks.without_elements() })
    }

    /// Only what is known without reading masks element by element.
    fn without_elements(self) -> Self {
        let Masks { lengths, bank_size, flags, .. } = self;
        let flags = flags & flags::TOP_LEFT;
        Masks { lengths, bank_size, flags, ..Masks::default() }
    }

    fn set(&mut self, condition: bool, flag: u32) {
        self.flags |= if condition { flag } else { 0 };
    }

    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The class of these masks: what kernels, preferences and tuning files go by.
    pub fn class(&self, options: &ScaledMaskedSoftmax) -> TunedMask {
        if self.additive.is_some() {
            TunedMask::Additive
        } else if self.bytes.is_some() {
            TunedMask::Bytes
        } else if options.range.has_diagonal() || self.lengths.is_some() {
            TunedMask::Range
        } else {
            TunedMask::None
        }
    }

    /// Whether each vector of the call's tensors and of these masks is one aligned access.
    pub fn are_aligned(&self, call: &Call) -> bool {
        let vector = lanes(call.source.dtype);
        let bytes_aligned = |mask: &RawTensor| {
            self.has(flags::BYTES_BROADCAST)
                || mask.alignment() >= vector && (self.bytes_bank as u64).is_multiple_of(vector)
        };
        let additive_aligned = |mask: &RawTensor| {
            let bank_bytes = self.additive_bank as u64 * mask.dtype.size() as u64;
            self.has(flags::ADDITIVE_BROADCAST)
                || mask.alignment() >= 16 && bank_bytes.is_multiple_of(16)
        };
        let columns = call.source.shape.last().copied().unwrap_or(0) as u64;
        columns.is_multiple_of(vector)
            && call.source.alignment() >= 16
            && call.gradient.is_none_or(|gradient| gradient.alignment() >= 16)
            && call.output.alignment() >= 16
            && self.bytes.as_ref().is_none_or(bytes_aligned)
            && self.additive.as_ref().is_none_or(additive_aligned)
    }
}

fn check_last_stride(tensor: &'static str, raw: &RawTensor, expected: &'static str) -> Result<()> {
    match raw.last_stride() {
        1 => Ok(()),
        found => Err(Error::UnsupportedStride { tensor, dim: raw.rank() - 1, found, expected }),
    }
}

/// Whether a mask that has the source's shape has one element for a whole row.
fn is_broadcast(tensor: &'static str, raw: &RawTensor) -> Result<bool> {
    if raw.last_stride() == 0 {
        return Ok(true);
    }
    check_last_stride(tensor, raw, "1 or 0")?;
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

/// A tensor with a number for each batch entry or row, expanded to one for each row.
fn per_row(
    tensor: &'static str,
    raw: &RawTensor,
    per: Per,
    row_shape: &[usize],
) -> Result<RawTensor> {
    raw.check_dtype(tensor, Dtype::I32)?;
    if per == Per::Row {
        return raw.broadcast_to(tensor, row_shape);
    }
    let batch = row_shape.first().copied().unwrap_or(1);
    raw.check_shape(tensor, &[batch])?;
    if row_shape.is_empty() {
        return RawTensor::new(raw.pointer, raw.dtype, &[], &[]);
    }
    let mut strides = vec![0; row_shape.len()];
    strides[0] = raw.strides[0];
    RawTensor::new(raw.pointer, raw.dtype, row_shape, &strides)
}
