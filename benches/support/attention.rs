//! Attention problems under measurement.

use crate::{Result, data::Repeating};
use clap::ValueEnum;
use fused_attention::{
    Attention, AttentionInputs, Causal, Device, Element, Explanation, Mask, Stream, Tensor,
    reference::{
        attention::{AttentionProblem as Reference, Dropout, Rows},
        tolerance::{Unfused, check_lse, check_output},
    },
};
use std::fmt;

/// Keys left of the diagonal that a window shows.
const WINDOW_LEFT: i64 = 1023;
/// What scaled products stay below.
const SOFTCAP: f64 = 30.0;
/// The share of probabilities that are dropped, and the seed and offset.
const DROPOUT: (f64, u64, u32) = (0.1, 17, 3);
/// The share of scores that a mask of bytes hides.
const HIDDEN: f64 = 0.2;

/// What a problem has beside queries, keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Feature {
    /// Nothing.
    None,
    /// A causal mask.
    Causal,
    /// A causal window of 1024 keys.
    Window,
    /// A byte for each query and key, which all heads share.
    Bytes,
    /// A bias for each score of each head, of the elements' type.
    Bias,
    /// The same of f32.
    BiasF32,
    /// ALiBi.
    Alibi,
    /// A softcap.
    Softcap,
    /// Dropout.
    Dropout,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no value is skipped");
        f.pad(value.get_name())
    }
}

/// A problem: sequences of one length, as many as make up `tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Batch entries.
    pub batch: usize,
    /// Heads.
    pub heads: usize,
    /// Queries, and keys.
    pub length: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

impl AttentionShape {
    /// So many tokens in all, whose heads have so many elements in all.
    pub fn of(tokens: usize, width: usize, length: usize, head_dim: usize) -> Self {
        let batch = (tokens / length).max(1);
        AttentionShape { batch, heads: (width / head_dim).max(1), length, head_dim }
    }

    /// Floating-point operations that count, as others count them: half of them under a causal mask.
    pub fn operations(&self, feature: Feature) -> f64 {
        let pairs = match feature {
            Feature::Causal => self.length * self.length / 2,
            Feature::Window => self.length * self.length.min(WINDOW_LEFT as usize + 1),
            _ => self.length * self.length,
        };
        4.0 * (self.batch * self.heads) as f64 * pairs as f64 * self.head_dim as f64
    }

    fn dimensions(&self) -> [usize; 4] {
        [self.batch, self.heads, self.length, self.head_dim]
    }

    fn elements(&self) -> usize {
        self.dimensions().iter().product()
    }
}

/// A problem with its tensors on a device.
pub struct AttentionCase<T> {
    /// Its sizes.
    pub shape: AttentionShape,
    /// What else it has.
    pub feature: Feature,
    numbers: [Repeating<T>; 4],
    singles: Repeating<f32>,
    hidden: Repeating<u8>,
    tensors: [Tensor<T>; 3],
    bytes: Option<Tensor<u8>>,
    bias: Option<Tensor<T>>,
    single_bias: Option<Tensor<f32>>,
    slopes: Option<Tensor<f32>>,
    o: Tensor<T>,
    lse: Tensor<f32>,
}

impl<T: Element> AttentionCase<T> {
    /// Tensors of normal numbers.
    ///
    /// # Errors
    /// No memory.
    pub fn new(device: &Device, shape: AttentionShape, feature: Feature) -> Result<Self> {
        let AttentionShape { heads, length, .. } = shape;
        let numbers = [1, 2, 3, 4].map(Repeating::<T>::normal);
        let hidden = Repeating::ones(5, HIDDEN);
        let filled = |numbers: &Repeating<T>, shape: &[usize]| -> Result<Tensor<T>> {
            let tensor = device.empty(shape)?;
            numbers.fill(&tensor)?;
            Ok(tensor)
        };
        let tensor = |i: usize| filled(&numbers[i], &shape.dimensions());
        let tensors = [tensor(0)?, tensor(1)?, tensor(2)?];
        let mut bytes = None;
        if feature == Feature::Bytes {
            let tensor = device.empty(&[length, length])?;
            hidden.fill(&tensor)?;
            bytes = Some(tensor);
        }
        let mut bias = None;
        if feature == Feature::Bias {
            bias = Some(filled(&numbers[3], &[heads, length, length])?);
        }
        let singles = Repeating::<f32>::normal(4);
        let mut single_bias = None;
        if feature == Feature::BiasF32 {
            let tensor = device.empty(&[heads, length, length])?;
            singles.fill(&tensor)?;
            single_bias = Some(tensor);
        }
        let mut slopes = None;
        if feature == Feature::Alibi {
            let of_heads: Vec<f32> = (0..heads).map(|head| slope(head, heads) as f32).collect();
            slopes = Some(device.upload(&of_heads, &[heads])?);
        }
        let dimensions = shape.dimensions();
        let (o, lse) = (device.empty(&dimensions)?, device.empty(&dimensions[..3])?);
        Ok(AttentionCase {
            shape,
            feature,
            numbers,
            singles,
            hidden,
            tensors,
            bytes,
            bias,
            single_bias,
            slopes,
            o,
            lse,
        })
    }

    /// Bytes of all tensors.
    pub fn tensor_bytes(&self) -> usize {
        let optional = self.bytes.as_ref().map_or(0, Tensor::len)
            + self.bias.as_ref().map_or(0, Tensor::len) * size_of::<T>()
            + self.single_bias.as_ref().map_or(0, Tensor::len) * size_of::<f32>();
        4 * self.shape.elements() * size_of::<T>() + optional + 4 * self.lse.len()
    }

    /// The options that the problem asks for.
    pub fn options(&self) -> Attention {
        let attention = Attention::new();
        match self.feature {
            Feature::Causal => attention.causal(Causal::BottomRight),
            Feature::Window => attention.window(WINDOW_LEFT, 0),
            Feature::Softcap => attention.softcap(SOFTCAP),
            Feature::Dropout => attention.dropout(DROPOUT.0),
            _ => attention,
        }
    }

    fn inputs(&self) -> AttentionInputs<'_, T> {
        let [q, k, v] = &self.tensors;
        let mut inputs = AttentionInputs::new(q, k, v).dropout_seed(DROPOUT.1, DROPOUT.2);
        if let Some(bytes) = &self.bytes {
            inputs = inputs.mask(Mask::exclude(bytes));
        }
        if let Some(bias) = &self.bias {
            inputs = inputs.bias(bias);
        }
        if let Some(bias) = &self.single_bias {
            inputs = inputs.bias(bias);
        }
        if let Some(slopes) = &self.slopes {
            inputs = inputs.alibi(slopes);
        }
        inputs
    }

    /// Enqueues the forward.
    ///
    /// # Errors
    /// The library refuses the problem.
    pub fn run(&self, attention: &Attention, stream: &Stream) -> Result<()> {
        Ok(attention.forward_into(stream, &self.inputs(), &self.o, Some(&self.lse))?)
    }

    /// Enqueues the forward of the same tensors with nothing beside them.
    ///
    /// # Errors
    /// The library refuses the problem.
    pub fn run_plain(&self, stream: &Stream) -> Result<()> {
        let [q, k, v] = &self.tensors;
        let inputs = AttentionInputs::new(q, k, v);
        Ok(Attention::new().forward_into(stream, &inputs, &self.o, Some(&self.lse))?)
    }

    /// What would run, and why.
    ///
    /// # Errors
    /// The library refuses the problem.
    pub fn explain(&self, attention: &Attention) -> Result<Explanation> {
        Ok(attention.explain(&self.inputs(), &self.o)?)
    }

    /// Runs the problem on a poisoned output and compares sampled queries with the reference: their
    /// largest relative error in norm.
    ///
    /// # Errors
    /// The library refuses the problem, or its result is wrong.
    pub fn check(&self, attention: &Attention, stream: &Stream) -> Result<f64> {
        Repeating::constant(T::from_f64(f64::NAN)).fill(&self.o)?;
        Repeating::constant(f32::NAN).fill(&self.lse)?;
        self.run(attention, stream)?;
        stream.synchronize()?;
        let AttentionShape { batch, heads, length, .. } = self.shape;
        let mut worst = 0f64;
        for (b, head, i) in [
            (0, 0, 0),
            (batch - 1, heads - 1, length - 1),
            (batch / 2, heads / 3, length / 2),
            (batch - 1, 0, (length / 3).saturating_sub(1)),
        ] {
            worst = worst.max(self.check_row(b, head, i)?);
        }
        Ok(worst)
    }

    fn check_row(&self, batch: usize, head: usize, i: usize) -> Result<f64> {
        let AttentionShape { heads, length, head_dim, .. } = self.shape;
        let first = (batch * heads + head) * length;
        let rows = |tensor: usize, first: usize, count: usize| -> Vec<f64> {
            let range = first * head_dim..(first + count) * head_dim;
            range.map(|n| self.numbers[tensor].at(n).to_f64()).collect()
        };
        let (q, k, v) = (rows(0, first + i, 1), rows(1, first, length), rows(2, first, length));
        let of_head = |numbers, row| Rows { numbers, batch: 0, head: 0, row, dim: head_dim };
        let at = |head: usize, i: usize, j: usize| (head * length + i) * length + j;
        let bias = |_, head, i, j| match self.feature {
            Feature::BiasF32 => self.singles.at(at(head, i, j)).into(),
            _ => self.numbers[3].at(at(head, i, j)).to_f64(),
        };
        let excluded = |_, _, i, j| self.hidden.at(i * length + j) != 0;
        let slopes = |_, head| f64::from(slope(head, heads) as f32);
        let dropped = (DROPOUT.0 * 256.0).round() as u8;
        let dropout = Dropout { dropped, seed: DROPOUT.1, offset: DROPOUT.2 };
        let is = |feature| self.feature == feature;
        let problem = Reference {
            heads,
            kv_heads: heads,
            scale: f64::from((1.0 / (head_dim as f64).sqrt()) as f32),
            softcap: is(Feature::Softcap).then_some(SOFTCAP),
            bias: if is(Feature::Bias) || is(Feature::BiasF32) { Some(&bias) } else { None },
            slopes: if is(Feature::Alibi) { Some(&slopes) } else { None },
            excluded: if is(Feature::Bytes) { Some(&excluded) } else { None },
            causal: is(Feature::Causal).then_some(Causal::BottomRight),
            window: if is(Feature::Window) { (WINDOW_LEFT, 0) } else { (-1, -1) },
            dropout: is(Feature::Dropout).then_some(dropout),
            ..Reference::new(
                of_head(&q, 0),
                of_head(&k, head_dim),
                of_head(&v, head_dim),
                length,
                length,
            )
        };
        let expected = problem.row(batch, head, i);
        let unfused: Unfused<T> = problem.row_unfused(batch, head, i);
        let row = |rank: usize| [batch, head, i][rank];
        let mut o = self.o.clone();
        let mut lse = self.lse.clone();
        for dim in 0..3 {
            (o, lse) = (o.narrow(dim, row(dim), 1)?, lse.narrow(dim, row(dim), 1)?);
        }
        let (found, found_lse) = (o.to_vec()?, lse.to_vec()?);
        check_output(&found, &expected.o, &unfused, head_dim)?;
        check_lse(&found_lse, &[expected.lse])?;
        let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>();
        let mut differences = found.iter().zip(&expected.o).map(|(o, e)| o.to_f64() - e);
        let size = norm(&mut expected.o.iter().copied());
        Ok((norm(&mut differences) / size).sqrt())
    }
}

/// A head's slope, as ALiBi's authors have it for powers of two.
fn slope(head: usize, heads: usize) -> f64 {
    2f64.powf(-8.0 * (head + 1) as f64 / heads as f64)
}
