//! A problem's masks and scale on a device.

use super::{Bank, Lengths, SoftmaxCase, data::Data};
use crate::placement::{Placed, Placement};
use fused_attention::{
    Accumulate, BankIndex, Device, Element, Mask, Per, Polarity, Result, RowLengths, Scalar, Tensor,
};

impl<T: Accumulate> Data<T> {
    /// Calls `launch` with the mask, and the scale if that is to be in device memory.
    pub fn with_mask<R>(
        &self,
        case: &SoftmaxCase,
        device: &Device,
        launch: impl FnOnce(Mask<'_>, Option<&Tensor<T::Accumulator>>) -> Result<R>,
    ) -> Result<R> {
        let scale = device.upload(&[T::Accumulator::from_f64(case.scale)], &[1])?;
        let bank = case.bank.as_ref().map(|bank| bank.size);
        let mut bytes = None;
        if let (Some(mask), Some(values)) = (&case.bytes, &self.bytes) {
            let tensor = place(device, mask.placement, values, &case.banked(&mask.shape), 0xa5)?;
            bytes = Some((
                if mask.expanded { expand(tensor, bank, &case.shape)? } else { tensor },
                mask.polarity,
            ));
        }
        let (mut additive, mut wide_additive) = (None, None);
        if let (Some(mask), Some(values)) = (&case.additive, &self.additive) {
            if mask.is_f32(T::DTYPE) {
                let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
                let tensor =
                    place(device, mask.placement, &values, &case.banked(&mask.shape), f32::NAN)?;
                wide_additive =
                    Some(if mask.expanded { expand(tensor, bank, &case.shape)? } else { tensor });
            } else {
                let values: Vec<T> = values.iter().map(|&v| T::from_f64(v)).collect();
                let nan = T::from_f64(f64::NAN);
                let tensor =
                    place(device, mask.placement, &values, &case.banked(&mask.shape), nan)?;
                additive =
                    Some(if mask.expanded { expand(tensor, bank, &case.shape)? } else { tensor });
            }
        }
        let lengths = match (&case.lengths, &self.lengths) {
            (Some(lengths), Some((values, shape))) => Some(match lengths {
                Lengths { on_device: true, per, .. } => {
                    RowLengths::on_device(device.upload(values, shape)?, *per)
                }
                Lengths { per: Per::Batch, .. } => RowLengths::per_batch(device, values)?,
                Lengths { per: Per::Row, .. } => RowLengths::per_row(device, values, shape)?,
            }),
            _ => None,
        };
        let index = match (&case.bank, &self.bank_index) {
            (Some(Bank { on_device: true, .. }), Some(index)) => {
                Some(BankIndex::on_device(device.upload(index, &[index.len()])?))
            }
            (Some(_), Some(index)) => Some(BankIndex::per_batch(device, index)?),
            _ => None,
        };
        let mut mask = match &bytes {
            Some((bytes, Polarity::Keep)) => Mask::keep(bytes),
            Some((bytes, Polarity::Exclude)) => Mask::exclude(bytes),
            None => Mask::none(),
        };
        if let Some(additive) = &additive {
            mask = mask.and_additive(additive);
        }
        if let Some(additive) = &wide_additive {
            mask = mask.and_additive(additive);
        }
        if let Some(lengths) = &lengths {
            mask = mask.lengths(lengths);
        }
        if let Some(index) = &index {
            mask = mask.from_bank(index);
        }
        launch(mask, Some(&scale).filter(|_| case.scale_on_device))
    }
}

/// A mask with these elements, the rest of whose memory holds `gap`.
pub(crate) fn place<M: Scalar>(
    device: &Device,
    placement: Placement,
    values: &[M],
    shape: &[usize],
    gap: M,
) -> Result<Tensor<M>> {
    Ok(Placed::new(device, placement, values, shape, gap)?.tensor)
}

/// The mask repeated to this shape, beside the dimension of its bank of so many masks.
pub(crate) fn expand<M: Scalar>(
    mask: Tensor<M>,
    bank: Option<usize>,
    shape: &[usize],
) -> Result<Tensor<M>> {
    let Some(size) = bank else { return mask.expand(shape) };
    // Dimensions in front of the mask's own are the library's to add where there is a bank.
    let missing = shape.len() + 1 - mask.rank();
    mask.expand(&[&[size], &shape[missing..]].concat())
}
