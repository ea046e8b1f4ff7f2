//! A problem's inputs on a device.

use super::{AttentionCase, data::Data};
use crate::{
    placement::Placed,
    softmax_case::{expand, place},
};
use fused_attention::{
    AttentionInputs, BankIndex, Device, Element, Mask, PackedSequences, Per, Polarity, Result,
    RowLengths,
};

impl<T: Element> Data<T> {
    /// Calls `launch` with the inputs.
    pub fn with_inputs<R>(
        &self,
        case: &AttentionCase,
        device: &Device,
        launch: impl FnOnce(&AttentionInputs<'_, T>) -> Result<R>,
    ) -> Result<R> {
        let nan = T::from_f64(f64::NAN);
        let q = Placed::new(device, case.q, &self.q, &case.query_shape(case.head_dim), nan)?;
        let k = Placed::new(device, case.k, &self.k, &case.key_shape(case.head_dim), nan)?;
        let v = Placed::new(device, case.v, &self.v, &case.key_shape(case.value_dim), nan)?;
        let bank = case.bank.as_ref().map(|bank| bank.size);
        let mut bytes = None;
        if let (Some(mask), Some(values)) = (&case.bytes, &self.bytes) {
            let shape = case.banked(&mask.shape);
            let tensor = place(device, mask.placement, values, &shape, 0xa5)?;
            let repeated = mask.expanded;
            bytes = Some(if repeated { expand(tensor, bank, &case.scores())? } else { tensor });
        }
        let (mut bias, mut wide_bias) = (None, None);
        if let (Some(mask), Some(values)) = (&case.bias, &self.bias) {
            let shape = case.banked(&mask.shape);
            if mask.is_f32(T::DTYPE) {
                let values: Vec<f32> = values.iter().map(|&x| x as f32).collect();
                let tensor = place(device, mask.placement, &values, &shape, f32::NAN)?;
                let repeated = mask.expanded;
                wide_bias =
                    Some(if repeated { expand(tensor, bank, &case.scores())? } else { tensor });
            } else {
                let values: Vec<T> = values.iter().map(|&x| T::from_f64(x)).collect();
                let tensor = place(device, mask.placement, &values, &shape, nan)?;
                let repeated = mask.expanded;
                bias = Some(if repeated { expand(tensor, bank, &case.scores())? } else { tensor });
            }
        }
        let lengths = |values: &Option<Vec<i32>>| {
            let values = values.as_ref()?;
            Some(match case.counts_on_device {
                true => device
                    .upload(values, &[values.len()])
                    .map(|values| RowLengths::on_device(values, Per::Batch)),
                false => RowLengths::per_batch(device, values),
            })
        };
        let sequences = |offsets: &Option<Vec<i32>>, longest: usize| {
            let offsets = offsets.as_ref()?;
            Some(match case.counts_on_device {
                true => device.upload(offsets, &[offsets.len()]).map(|offsets| {
                    // SAFETY: they ascend within the tensors' rows, and none is longer.
                    unsafe { PackedSequences::on_device(offsets, longest) }
                }),
                false => PackedSequences::new(device, offsets),
            })
        };
        let query_lengths = lengths(&case.query_lengths).transpose()?;
        let key_lengths = lengths(&case.key_lengths).transpose()?;
        let query_sequences = sequences(&case.query_offsets, case.most_queries()).transpose()?;
        let key_sequences = sequences(&case.key_offsets, case.most_keys()).transpose()?;
        let index = self.bank_index.as_ref().map(|index| match case.counts_on_device {
            true => device.upload(index, &[index.len()]).map(BankIndex::on_device),
            false => BankIndex::per_batch(device, index),
        });
        let index = index.transpose()?;
        let slopes = case.slopes.as_ref().zip(self.slopes.as_ref());
        let slopes = slopes.map(|(shape, slopes)| device.upload(slopes, shape)).transpose()?;
        let scale = device.upload(&[case.scale()], &[1])?;
        let (_, seed, offset) = case.dropout.unwrap_or_default();
        let device_seed = device.upload(&[seed as i64], &[1])?;
        // Of the offset the upper half does not count.
        let device_offset = device.upload(&[i64::from(offset) | 5 << 40], &[1, 1])?;

        let mut mask = match (&bytes, &case.bytes) {
            (Some(bytes), Some(mask)) if mask.polarity == Polarity::Keep => Mask::keep(bytes),
            (Some(bytes), _) => Mask::exclude(bytes),
            _ => Mask::none(),
        };
        if let Some(index) = &index {
            mask = mask.from_bank(index);
        }
        let mut inputs = AttentionInputs::new(&q.tensor, &k.tensor, &v.tensor).mask(mask);
        if let Some(bias) = &bias {
            inputs = inputs.bias(bias);
        }
        if let Some(bias) = &wide_bias {
            inputs = inputs.bias(bias);
        }
        if let Some(lengths) = &query_lengths {
            inputs = inputs.query_lengths(lengths);
        }
        if let Some(lengths) = &key_lengths {
            inputs = inputs.lengths(lengths);
        }
        if let Some(sequences) = &query_sequences {
            inputs = inputs.query_sequences(sequences);
        }
        if let Some(sequences) = &key_sequences {
            inputs = inputs.key_sequences(sequences);
        }
        if let Some(slopes) = &slopes {
            inputs = inputs.alibi(slopes);
        }
        if case.scale_on_device {
            inputs = inputs.scale(&scale);
        }
        inputs = match case.seed_on_device {
            true => inputs.dropout_seed_on_device(&device_seed, &device_offset),
            false => inputs.dropout_seed(seed, offset),
        };
        launch(&inputs)
    }
}
