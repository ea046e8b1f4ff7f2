//! What a call's tensors must look like, and how its masks are addressed.

use super::{
    call::Call,
    cut::lanes,
    options::{ScaledMaskedSoftmax, accumulator},
    tuning::TunedMask,
};
use crate::{Causal, Dtype, Error, Per, RawTensor, Result, element_masks::ElementMasks};
use kernels::softmax::problem::flags;

/// The tensors that hide parts of rows, in the source's shape: masks for each element, the others for each
/// row.
pub(super) struct Masks {
    pub elements: ElementMasks,
    pub lengths: Option<RawTensor>,
    pub bank_index: Option<RawTensor>,
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
    source.check_last_stride(of_source, "1")?;
    let beside = call.gradient.as_ref().map(|gradient| ("dp", gradient));
    for (name, raw) in beside.into_iter().chain([(of_output, output)]) {
        raw.check_dtype(name, dtype)?;
        raw.check_shape(name, &source.shape)?;
        raw.check_last_stride(name, "1")?;
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
        let elements = ElementMasks::of(&call.mask, shape, dtype, "additive mask")?;
        let lengths = call.mask.lengths.as_ref();
        let lengths = lengths.map(|(raw, per)| per_row("lengths", raw, *per, row_shape));
        let bank_index = call.mask.bank_index.as_ref();
        let bank_index = bank_index.map(|raw| per_row("bank index", raw, Per::Batch, row_shape));
        let (lengths, bank_index) = (lengths.transpose()?, bank_index.transpose()?);
        let (elements, bank_index) = match call.operation.reads_element_masks() {
            true => (elements, bank_index),
            // Only what is known without reading masks element by element.
            false => (ElementMasks::none(), None),
        };
        let top_left = options.range.diagonal == Causal::TopLeft;
        let set = |condition: bool, flag: u32| if condition { flag } else { 0 };
        let flags = set(top_left, flags::TOP_LEFT)
            | set(elements.keep, flags::KEEP)
            | set(elements.bytes_broadcast, flags::BYTES_BROADCAST)
            | set(elements.additive_f32, flags::ADDITIVE_F32)
            | set(elements.additive_broadcast, flags::ADDITIVE_BROADCAST);
        Ok(Masks { elements, lengths, bank_index, flags })
    }

    /// The class of these masks: what kernels, preferences and tuning files go by.
    pub fn class(&self, options: &ScaledMaskedSoftmax) -> TunedMask {
        if self.elements.additive.is_some() {
            TunedMask::Additive
        } else if self.elements.bytes.is_some() {
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
        let columns = call.source.shape.last().copied().unwrap_or(0) as u64;
        columns.is_multiple_of(vector)
            && call.source.alignment() >= 16
            && call.gradient.is_none_or(|gradient| gradient.alignment() >= 16)
            && call.output.alignment() >= 16
            && self.elements.are_aligned(vector)
    }
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
