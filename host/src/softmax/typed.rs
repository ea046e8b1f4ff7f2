//! The calls on tensors.

use super::{
    options::ScaledMaskedSoftmax,
    raw::{RawBackward, RawForward, RawSaved},
};
use crate::{Element, Explanation, Mask, RawTensor, Result, Stream, Tensor};
use half::{bf16, f16};

/// An element type that a softmax computes on.
pub trait Accumulate: Element {
    /// The type that it is accumulated in, and its log-sum-exp and its scale in device memory are.
    type Accumulator: Element;
}

impl Accumulate for f16 {
    type Accumulator = f32;
}
impl Accumulate for bf16 {
    type Accumulator = f32;
}
impl Accumulate for f32 {
    type Accumulator = f32;
}
impl Accumulate for f64 {
    type Accumulator = f64;
}

/// What a softmax reads.
#[derive(Debug, Clone, Copy)]
pub struct SoftmaxInputs<'a, T: Accumulate> {
    x: &'a Tensor<T>,
    mask: Mask<'a>,
    scale: Option<&'a Tensor<T::Accumulator>>,
}

impl<'a, T: Accumulate> SoftmaxInputs<'a, T> {
    /// The scores before scaling. The last dimension's stride is 1, the others' are free.
    pub fn new(x: &'a Tensor<T>) -> Self {
        SoftmaxInputs { x, mask: Mask::none(), scale: None }
    }

    /// What hides parts of rows.
    pub fn mask(self, mask: Mask<'a>) -> Self {
        SoftmaxInputs { mask, ..self }
    }

    /// A scale in device memory, of one element, which takes the place of the options'.
    pub fn scale(self, scale: &'a Tensor<T::Accumulator>) -> Self {
        SoftmaxInputs { scale: Some(scale), ..self }
    }

    fn to_raw(self, y: &Tensor<T>, lse: Option<&Tensor<T::Accumulator>>) -> Result<RawForward> {
        let device = self.x.device();
        device.check_same("y", y.device())?;
        if let Some(lse) = lse {
            device.check_same("lse", lse.device())?;
        }
        if let Some(scale) = self.scale {
            device.check_same("scale", scale.device())?;
        }
        let columns = self.x.shape().last().copied().unwrap_or(0);
        Ok(RawForward {
            x: self.x.into(),
            y: y.into(),
            lse: lse.map(RawTensor::from),
            scale: self.scale.map(RawTensor::from),
            mask: self.mask.to_raw(device, columns)?,
        })
    }
}

/// What the backward of a softmax reads: what the forward left, and the gradient of its output.
#[derive(Debug, Clone, Copy)]
pub struct GradientInputs<'a, T: Accumulate> {
    saved: Saved<'a, T>,
    dp: &'a Tensor<T>,
    mask: Mask<'a>,
    scale: Option<&'a Tensor<T::Accumulator>>,
}

#[derive(Debug, Clone, Copy)]
enum Saved<'a, T> {
    Probabilities(&'a Tensor<T>),
    Scores(&'a Tensor<T>),
}

impl<'a, T: Accumulate> GradientInputs<'a, T> {
    /// The probabilities that the forward gave, and their gradient. This is the faster way: masks
    /// with a value for each element need not be read.
    pub fn from_probabilities(p: &'a Tensor<T>, dp: &'a Tensor<T>) -> Self {
        Self::new(Saved::Probabilities(p), dp)
    }

    /// The scores that the forward took, from which the probabilities are computed again, and the
    /// probabilities' gradient: nothing but the input need be kept, and the probabilities are not
    /// rounded to their type in between.
    pub fn from_scores(x: &'a Tensor<T>, dp: &'a Tensor<T>) -> Self {
        Self::new(Saved::Scores(x), dp)
    }

    fn new(saved: Saved<'a, T>, dp: &'a Tensor<T>) -> Self {
        GradientInputs { saved, dp, mask: Mask::none(), scale: None }
    }

    /// The forward's mask. Where the probabilities are given, causal masks, windows and lengths
    /// only spare what they hide from being read.
    pub fn mask(self, mask: Mask<'a>) -> Self {
        GradientInputs { mask, ..self }
    }

    /// The forward's scale in device memory, of one element, which takes the place of the options'.
    pub fn scale(self, scale: &'a Tensor<T::Accumulator>) -> Self {
        GradientInputs { scale: Some(scale), ..self }
    }

    fn saved(&self) -> (&'static str, &'a Tensor<T>) {
        match self.saved {
            Saved::Probabilities(p) => ("p", p),
            Saved::Scores(x) => ("x", x),
        }
    }

    fn to_raw(self, dx: &Tensor<T>) -> Result<RawBackward> {
        let (_, saved) = self.saved();
        let device = saved.device();
        device.check_same("dp", self.dp.device())?;
        device.check_same("dx", dx.device())?;
        if let Some(scale) = self.scale {
            device.check_same("scale", scale.device())?;
        }
        let columns = saved.shape().last().copied().unwrap_or(0);
        Ok(RawBackward {
            saved: match self.saved {
                Saved::Probabilities(p) => RawSaved::Probabilities(p.into()),
                Saved::Scores(x) => RawSaved::Scores(x.into()),
            },
            dp: self.dp.into(),
            dx: dx.into(),
            scale: self.scale.map(RawTensor::from),
            mask: self.mask.to_raw(device, columns)?,
        })
    }
}

impl ScaledMaskedSoftmax {
    /// The softmax of x, in a new contiguous tensor, on the default stream.
    ///
    /// # Errors
    /// Every violated precondition, before anything is launched; see [`Error`](crate::Error).
    pub fn forward<T: Accumulate>(&self, x: &Tensor<T>, mask: Mask<'_>) -> Result<Tensor<T>> {
        let y = x.device().empty(x.shape())?;
        let inputs = SoftmaxInputs::new(x).mask(mask);
        self.forward_into(&x.device().default_stream(), inputs, &y, None)?;
        Ok(y)
    }

    /// The softmax, and the natural log-sum-exp of the scores that each row sees: x's shape
    /// without the last dimension.
    ///
    /// # Errors
    /// As for [`ScaledMaskedSoftmax::forward`].
    pub fn forward_with_lse<T: Accumulate>(
        &self,
        inputs: SoftmaxInputs<'_, T>,
    ) -> Result<(Tensor<T>, Tensor<T::Accumulator>)> {
        let (device, shape) = (inputs.x.device(), inputs.x.shape());
        let y = device.empty(shape)?;
        let lse = device.empty(&shape[..shape.len().saturating_sub(1)])?;
        self.forward_into(&device.default_stream(), inputs, &y, Some(&lse))?;
        Ok((y, lse))
    }

    /// The softmax into tensors of the caller's, enqueued on `stream`: allocates nothing, does not
    /// wait, and can be captured in a CUDA graph, which keeps no tensor alive: all must live as long
    /// as the graph is replayed. `y` has x's shape, and its bytes, from the first to the last, hold
    /// no other tensor; `lse` is contiguous.
    ///
    /// # Errors
    /// As for [`ScaledMaskedSoftmax::forward`].
    pub fn forward_into<T: Accumulate>(
        &self,
        stream: &Stream,
        inputs: SoftmaxInputs<'_, T>,
        y: &Tensor<T>,
        lse: Option<&Tensor<T::Accumulator>>,
    ) -> Result<()> {
        stream.device().check_same("x", inputs.x.device())?;
        let tensors = inputs.to_raw(y, lse)?;
        // SAFETY: tensors are valid memory of their devices, which is the stream's. Freeing memory
        // waits for the work that was enqueued with it.
        unsafe { self.forward_raw(stream, &tensors) }
    }

    /// Which kernel would run, how it is cut, and why not those that are preferred.
    ///
    /// # Errors
    /// As for [`ScaledMaskedSoftmax::forward`].
    pub fn explain<T: Accumulate>(
        &self,
        inputs: SoftmaxInputs<'_, T>,
        y: &Tensor<T>,
    ) -> Result<Explanation> {
        let tensors = inputs.to_raw(y, None)?;
        self.explain_raw(&inputs.x.device().default_stream(), &tensors)
    }

    /// The gradient of the forward's x from that of its output, in a new contiguous tensor, on the
    /// default stream: `dx = scale * p * (dp - sum_j p_j dp_j)`, row by row, with the options of
    /// the forward.
    ///
    /// - What the mask hides has the gradient 0, and so has a row that sees nothing. There dp does
    ///   not count, whatever it holds; nor does it where the probabilities given are 0.
    /// - NaN in what a row sees makes all of the row NaN within its length, causal range and window.
    ///
    /// ```
    /// use fused_attention::{Device, GradientInputs, Mask, ScaledMaskedSoftmax};
    ///
    /// # fn main() -> fused_attention::Result<()> {
    /// # #[cfg(feature = "emulator")] {
    /// let device = Device::emulator(); // or Device::cuda(0)?
    /// let x = device.upload(&[5.0f32, 5.0], &[1, 2])?;
    /// let softmax = ScaledMaskedSoftmax::new(2.0);
    /// let p = softmax.forward(&x, Mask::none())?;
    /// let dp = device.upload(&[1.0f32, 0.0], &[1, 2])?;
    /// let dx = softmax.backward(GradientInputs::from_probabilities(&p, &dp))?;
    /// assert_eq!(dx.to_vec()?, [0.5, -0.5]);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Every violated precondition, before anything is launched; see [`Error`](crate::Error).
    pub fn backward<T: Accumulate>(&self, inputs: GradientInputs<'_, T>) -> Result<Tensor<T>> {
        let (_, saved) = inputs.saved();
        let dx = saved.device().empty(saved.shape())?;
        self.backward_into(&saved.device().default_stream(), inputs, &dx)?;
        Ok(dx)
    }

    /// The gradient into a tensor of the caller's, enqueued on `stream`: as for
    /// [`ScaledMaskedSoftmax::forward_into`], nothing is allocated or waited for. `dx` may be `dp`,
    /// or what the forward left, itself.
    ///
    /// # Errors
    /// As for [`ScaledMaskedSoftmax::backward`].
    pub fn backward_into<T: Accumulate>(
        &self,
        stream: &Stream,
        inputs: GradientInputs<'_, T>,
        dx: &Tensor<T>,
    ) -> Result<()> {
        let (name, saved) = inputs.saved();
        stream.device().check_same(name, saved.device())?;
        let tensors = inputs.to_raw(dx)?;
        // SAFETY: as in `forward_into`.
        unsafe { self.backward_raw(stream, &tensors) }
    }

    /// As [`ScaledMaskedSoftmax::explain`], for the backward.
    ///
    /// # Errors
    /// As for [`ScaledMaskedSoftmax::backward`].
    pub fn explain_backward<T: Accumulate>(
        &self,
        inputs: GradientInputs<'_, T>,
        dx: &Tensor<T>,
    ) -> Result<Explanation> {
        let tensors = inputs.to_raw(dx)?;
        self.explain_backward_raw(&dx.device().default_stream(), &tensors)
    }
}
