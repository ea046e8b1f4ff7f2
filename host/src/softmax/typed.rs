//! The calls on tensors.

use super::{mask::Mask, options::ScaledMaskedSoftmax, plan::Explanation, raw::RawForward};
use crate::{Element, RawTensor, Result, Stream, Tensor};
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
}
