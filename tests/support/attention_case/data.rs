//! The numbers of an attention problem, and what is right for them.

use super::{AttentionCase, Operand};
use crate::{
    random::Random,
    softmax_case::{Values, draw, mask_indices},
};
use fused_attention::{
    Element, Polarity,
    reference::attention::{AttentionProblem, Rows},
};

/// A problem's numbers, in row-major order of the tensors.
#[derive(Clone)]
pub(super) struct Data<T> {
    pub q: Vec<T>,
    pub k: Vec<T>,
    pub v: Vec<T>,
    pub bytes: Option<Vec<u8>>,
    /// Rounded to the bias's type.
    pub bias: Option<Vec<f64>>,
    pub slopes: Option<Vec<f32>>,
    pub bank_index: Option<Vec<i32>>,
}

impl<T: Element> Data<T> {
    pub fn draw(case: &AttentionCase) -> Self {
        let mut random = Random::new(case.seed);
        let mut numbers = |shape: Vec<usize>, values| -> Vec<T> {
            (0..shape.iter().product()).map(|_| T::from_f64(draw(&mut random, values))).collect()
        };
        let mut q = numbers(case.query_shape(case.head_dim), case.values);
        let mut k = numbers(case.key_shape(case.head_dim), case.values);
        let mut v = numbers(case.key_shape(case.value_dim), Values::Normal);
        for edit in &case.edits {
            let tensor = match edit.operand {
                Operand::Q => &mut q,
                Operand::K => &mut k,
                Operand::V => &mut v,
            };
            tensor[edit.element] = T::from_f64(edit.value);
        }
        let bytes = case.bytes.as_ref();
        let bytes = bytes.map(|mask| mask.draw(&mut random, &case.banked(&mask.shape)));
        let bias = case.bias.as_ref();
        let bias = bias.map(|mask| mask.draw::<T>(&mut random, &case.banked(&mask.shape)));
        let slopes = case.slopes.as_ref().map(|shape| {
            (0..shape.iter().product()).map(|_| random.uniform() as f32 * 0.3).collect()
        });
        let bank_index = case.bank.as_ref().map(|bank| {
            let drawn = || (0..case.sequences()).map(|_| random.below(bank.size) as i32).collect();
            bank.index.clone().unwrap_or_else(drawn)
        });
        Data { q, k, v, bytes, bias, slopes, bank_index }
    }

    /// The same without the signs of v: of which the output is the sums of |p v|.
    pub fn with_positive_v(&self) -> Self {
        let v = self.v.iter().map(|v| T::from_f64(v.to_f64().abs())).collect();
        Data { v, ..self.clone() }
    }

    /// Calls `f` with the problem in the reference's terms: sequences are batch entries, of as many
    /// rows as the longest, and lengths.
    pub fn with_problem<R>(
        &self,
        case: &AttentionCase,
        f: impl FnOnce(AttentionProblem<'_>) -> R,
    ) -> R {
        let [batch, heads, queries, keys] = case.scores();
        let (dim, value_dim, kv_heads) = (case.head_dim, case.value_dim, case.kv_heads);
        let q = padded(&self.q, (batch, heads, queries, dim), case.query_offsets.as_deref());
        let k = padded(&self.k, (batch, kv_heads, keys, dim), case.key_offsets.as_deref());
        let v = padded(&self.v, (batch, kv_heads, keys, value_dim), case.key_offsets.as_deref());
        let bank = case.bank.as_ref().zip(self.bank_index.as_deref());
        let at =
            |b: usize, h: usize, i: usize, j: usize| ((b * heads + h) * queries + i) * keys + j;
        let added: Option<Vec<f64>> =
            case.bias.as_ref().zip(self.bias.as_ref()).map(|(mask, x)| {
                mask_indices(&mask.shape, &case.scores(), bank).into_iter().map(|i| x[i]).collect()
            });
        let hidden: Option<Vec<bool>> =
            case.bytes.as_ref().zip(self.bytes.as_ref()).map(|(mask, bytes)| {
                let hides = |i: usize| (bytes[i] != 0) == (mask.polarity == Polarity::Exclude);
                mask_indices(&mask.shape, &case.scores(), bank).into_iter().map(hides).collect()
            });
        let head_slopes: Option<Vec<f64>> =
            case.slopes.as_ref().zip(self.slopes.as_ref()).map(|(shape, slopes)| {
                let indices = mask_indices(shape, &[batch, heads], None);
                indices.into_iter().map(|i| slopes[i].into()).collect()
            });
        let bias = |b, h, i, j| added.as_ref().map_or(0.0, |added| added[at(b, h, i, j)]);
        let excluded = |b, h, i, j| hidden.as_ref().is_some_and(|hidden| hidden[at(b, h, i, j)]);
        let slope = |b, h| head_slopes.as_ref().map_or(0.0, |slopes| slopes[b * heads + h]);
        let length = |slot: usize, lengths: &Option<Vec<i32>>, b: usize| {
            lengths.as_ref().map_or(slot, |lengths| lengths[b].clamp(0, slot as i32) as usize)
        };
        let query_length = |b| length(case.query_slot(b).len(), &case.query_lengths, b);
        let key_length = |b| length(case.key_slot(b).len(), &case.key_lengths, b);
        f(AttentionProblem {
            batch,
            heads,
            kv_heads,
            scale: case.scale().into(),
            softcap: case.softcap.map(|cap| f64::from(cap as f32)),
            bias: if added.is_some() { Some(&bias) } else { None },
            slopes: if head_slopes.is_some() { Some(&slope) } else { None },
            excluded: if hidden.is_some() { Some(&excluded) } else { None },
            causal: case.causal,
            window: case.window.unwrap_or((-1, -1)),
            diagonal: case.diagonal,
            query_lengths: Some(&query_length),
            key_lengths: Some(&key_length),
            dropout: case.dropout(),
            ..AttentionProblem::new(
                Rows::contiguous(&q, heads, queries, dim),
                Rows::contiguous(&k, kv_heads, keys, dim),
                Rows::contiguous(&v, kv_heads, keys, value_dim),
                queries,
                keys,
            )
        })
    }
}

/// The numbers of packed sequences as those of batch entries of the same number of rows.
fn padded<T: Element>(
    numbers: &[T],
    (batch, heads, rows, dim): (usize, usize, usize, usize),
    offsets: Option<&[i32]>,
) -> Vec<f64> {
    let Some(offsets) = offsets else { return numbers.iter().map(|x| x.to_f64()).collect() };
    let total = numbers.len() / (heads * dim).max(1);
    let mut padded = vec![0.0; batch * heads * rows * dim];
    for (b, pair) in offsets.windows(2).enumerate() {
        let (begin, end) = (pair[0] as usize, pair[1] as usize);
        for head in 0..heads {
            let from = &numbers[(head * total + begin) * dim..(head * total + end) * dim];
            let to = &mut padded[(b * heads + head) * rows * dim..][..from.len()];
            to.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f64());
        }
    }
    padded
}
