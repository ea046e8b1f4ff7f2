//! What attention reads: tensors, and what hides and changes scores.

use super::{
    raw::{RawAttention, RawDropoutSeed},
    sequences::PackedSequences,
};
use crate::{Device, Element, Mask, RawTensor, Result, RowLengths, Scalar, Tensor};

/// What attention reads.
///
/// Masks and biases broadcast to the dimensions batch, query heads, queries, keys; with packed
/// sequences the last two are as many as the longest has.
#[derive(Debug, Clone, Copy)]
pub struct AttentionInputs<'a, T: Element> {
    pub(super) q: &'a Tensor<T>,
    k: &'a Tensor<T>,
    pub(super) v: &'a Tensor<T>,
    mask: Mask<'a>,
    query_lengths: Option<&'a RowLengths>,
    query_sequences: Option<&'a PackedSequences>,
    key_sequences: Option<&'a PackedSequences>,
    slopes: Option<&'a Tensor<f32>>,
    scale: Option<&'a Tensor<f32>>,
    dropout_seed: Option<DropoutSeed<'a>>,
}

#[derive(Debug, Clone, Copy)]
enum DropoutSeed<'a> {
    Given { seed: u64, offset: u32 },
    OnDevice { seed: &'a Tensor<i64>, offset: &'a Tensor<i64> },
}

impl<'a, T: Element> AttentionInputs<'a, T> {
    /// Queries, keys and values: f16, bf16 or f32, of the dimensions batch, heads, rows, elements.
    pub fn new(q: &'a Tensor<T>, k: &'a Tensor<T>, v: &'a Tensor<T>) -> Self {
        AttentionInputs {
            q,
            k,
            v,
            mask: Mask::none(),
            query_lengths: None,
            query_sequences: None,
            key_sequences: None,
            slopes: None,
            scale: None,
            dropout_seed: None,
        }
    }

    /// All that hides scores. An additive mask is a bias; lengths are those of the keys of each
    /// batch entry, before padding.
    pub fn mask(self, mask: Mask<'a>) -> Self {
        AttentionInputs { mask, ..self }
    }

    /// A number for each score that is added to it, of q's type or f32; -inf hides.
    pub fn bias<B: Element>(self, bias: &'a Tensor<B>) -> Self {
        AttentionInputs { mask: self.mask.and_additive(bias), ..self }
    }

    /// How many keys of each batch entry count, by [`RowLengths::per_batch`]. Causal masks, windows
    /// and ALiBi count from these lengths.
    pub fn lengths(self, lengths: &'a RowLengths) -> Self {
        AttentionInputs { mask: self.mask.lengths(lengths), ..self }
    }

    /// How many queries of each batch entry count, as for [`AttentionInputs::lengths`]; the others
    /// give 0, with a log-sum-exp of -inf.
    pub fn query_lengths(self, lengths: &'a RowLengths) -> Self {
        AttentionInputs { query_lengths: Some(lengths), ..self }
    }

    /// The queries are packed sequences, which take the place of batch entries: q has the
    /// dimensions heads, rows, elements, and so has the output. Rows outside of all sequences are not
    /// written.
    pub fn query_sequences(self, sequences: &'a PackedSequences) -> Self {
        AttentionInputs { query_sequences: Some(sequences), ..self }
    }

    /// Keys and values are packed sequences: k and v have the dimensions heads, rows, elements.
    pub fn key_sequences(self, sequences: &'a PackedSequences) -> Self {
        AttentionInputs { key_sequences: Some(sequences), ..self }
    }

    /// ALiBi: each score loses its head's slope times the distance of the key from the diagonal that
    /// ends in the bottom right corner. The slopes' shape broadcasts to batch, query heads.
    pub fn alibi(self, slopes: &'a Tensor<f32>) -> Self {
        AttentionInputs { slopes: Some(slopes), ..self }
    }

    /// A scale in device memory, of one element, which takes the place of the options'.
    pub fn scale(self, scale: &'a Tensor<f32>) -> Self {
        AttentionInputs { scale: Some(scale), ..self }
    }

    /// What decides which probabilities are dropped: the seed of the random numbers, and which of
    /// those that belong to it. Both the same, the same are dropped.
    pub fn dropout_seed(self, seed: u64, offset: u32) -> Self {
        AttentionInputs { dropout_seed: Some(DropoutSeed::Given { seed, offset }), ..self }
    }

    /// As [`AttentionInputs::dropout_seed`], of one element each in device memory, so that a graph can be
    /// replayed with others. Of the offset the lower half counts.
    pub fn dropout_seed_on_device(self, seed: &'a Tensor<i64>, offset: &'a Tensor<i64>) -> Self {
        AttentionInputs { dropout_seed: Some(DropoutSeed::OnDevice { seed, offset }), ..self }
    }

    /// The device that holds the queries.
    pub(super) fn device(&self) -> &'a Device {
        self.q.device()
    }

    /// The output's shape.
    pub(super) fn output_shape(&self) -> Vec<usize> {
        let mut shape = self.q.shape().to_vec();
        if let (Some(to), Some(&elements)) = (shape.last_mut(), self.v.shape().last()) {
            *to = elements;
        }
        shape
    }

    /// As pointers, once everything that the host knows of has been checked: devices, and the values
    /// of lengths, offsets and indices.
    pub(super) fn raw<O: Scalar, L: Scalar>(
        &self,
        o: &Tensor<O>,
        lse: Option<&Tensor<L>>,
    ) -> Result<RawAttention> {
        let device = self.device();
        device.check_same("k", self.k.device())?;
        device.check_same("v", self.v.device())?;
        device.check_same("o", o.device())?;
        if let Some(lse) = lse {
            device.check_same("lse", lse.device())?;
        }
        for (name, tensor) in [("slopes", self.slopes), ("scale", self.scale)] {
            if let Some(tensor) = tensor {
                device.check_same(name, tensor.device())?;
            }
        }
        let rows = |tensor: &Tensor<T>| tensor.shape().iter().rev().nth(1).copied().unwrap_or(0);
        let (queries, keys) = (rows(self.q), rows(self.k));
        let query_sequences = self.query_sequences.map(|s| s.to_raw(device, "q", queries));
        let key_sequences = self.key_sequences.map(|s| s.to_raw(device, "k", keys));
        let (query_sequences, key_sequences) =
            (query_sequences.transpose()?, key_sequences.transpose()?);
        let queries = query_sequences.map_or(queries, |sequences| sequences.longest);
        let keys = key_sequences.map_or(keys, |sequences| sequences.longest);
        let query_lengths = self.query_lengths.map(|lengths| {
            let (raw, per) = lengths.to_raw(device, "query lengths", queries)?;
            super::forms::check_per_batch("query lengths", per)?;
            Ok(raw)
        });
        let dropout_seed = self.dropout_seed.map(|seed| match seed {
            DropoutSeed::Given { seed, offset } => Ok(RawDropoutSeed::Given { seed, offset }),
            DropoutSeed::OnDevice { seed, offset } => {
                device.check_same("dropout seed", seed.device())?;
                device.check_same("dropout offset", offset.device())?;
                Ok(RawDropoutSeed::OnDevice { seed: seed.into(), offset: offset.into() })
            }
        });
        Ok(RawAttention {
            q: self.q.into(),
            k: self.k.into(),
            v: self.v.into(),
            o: o.into(),
            lse: lse.map(RawTensor::from),
            scale: self.scale.map(RawTensor::from),
            mask: self.mask.to_raw(device, keys)?,
            query_lengths: query_lengths.transpose()?,
            query_sequences,
            key_sequences,
            slopes: self.slopes.map(RawTensor::from),
            dropout_seed: dropout_seed.transpose()?,
        })
    }
}
