//! The raw layer: device pointers, strides and a stream, as other libraries have them.

use super::{
    call::Call,
    options::ScaledMaskedSoftmax,
    plan::{self, Plan, PlanKey},
};
use crate::{Explanation, PlanCache, RawMask, RawTensor, Result, Stream, debug};
use std::sync::{Arc, LazyLock};

/// The tensors of a forward call, as pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawForward {
    /// The input, at least one-dimensional; the last dimension's stride is 1.
    pub x: RawTensor,
    /// The output: x's shape and type; its bytes, from the first to the last, hold no other
    /// tensor.
    pub y: RawTensor,
    /// The log-sum-exp of each row, natural: x's shape without the last dimension, contiguous,
    /// f32, or f64 for f64.
    pub lse: Option<RawTensor>,
    /// The scale, of one element, in place of the options': f32, or f64 for f64.
    pub scale: Option<RawTensor>,
    /// What hides parts of rows.
    pub mask: RawMask,
}

/// What a forward left for its backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RawSaved {
    /// The probabilities: the forward's output.
    Probabilities(RawTensor),
    /// The scores: the forward's input, from which the probabilities are computed again.
    Scores(RawTensor),
}

/// The tensors of a backward call, as pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawBackward {
    /// What the forward left, at least one-dimensional; the last dimension's stride is 1.
    pub saved: RawSaved,
    /// The gradient of the probabilities: the shape and type of what is saved.
    pub dp: RawTensor,
    /// The output, the gradient of the scores: the shape and type of what is saved. It may be `dp`
    /// or what is saved, with the same pointer and strides; else its bytes, from the first to the
    /// last, hold no other tensor.
    pub dx: RawTensor,
    /// The forward's scale, of one element, in place of the options': f32, or f64 for f64.
    pub scale: Option<RawTensor>,
    /// The forward's mask. From probabilities, masks with a value for each element are not read.
    pub mask: RawMask,
}

static PLANS: LazyLock<PlanCache<PlanKey, Plan>> = LazyLock::new(|| PlanCache::new(1024));

impl ScaledMaskedSoftmax {
    /// Enqueues the forward on `stream`. Allocates nothing, does not wait, and can be captured in
    /// a CUDA graph once its kernel is loaded ([`Device::prepare`](crate::Device::prepare)).
    ///
    /// # Errors
    /// Every violated precondition, before anything is launched; see [`Error`](crate::Error).
    ///
    /// # Safety
    /// The tensors must be memory of the stream's device, valid until the work is done, and not
    /// written by other work meanwhile.
    pub unsafe fn forward_raw(&self, stream: &Stream, tensors: &RawForward) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.enqueue(stream, &tensors.into()) }
    }

    /// Enqueues the backward on `stream`: the gradient of x from that of `forward_raw`'s y. As for
    /// [`ScaledMaskedSoftmax::forward_raw`], nothing is allocated or waited for.
    ///
    /// # Errors
    /// As for [`ScaledMaskedSoftmax::forward_raw`].
    ///
    /// # Safety
    /// As for [`ScaledMaskedSoftmax::forward_raw`].
    pub unsafe fn backward_raw(&self, stream: &Stream, tensors: &RawBackward) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.enqueue(stream, &tensors.into()) }
    }

    /// Which kernel would run, how it is cut, and why not those that are preferred.
    ///
    /// # Errors
    /// What [`ScaledMaskedSoftmax::forward_raw`] would refuse of the tensors' forms.
    pub fn explain_raw(&self, stream: &Stream, tensors: &RawForward) -> Result<Explanation> {
        Ok(self.plan(stream, &tensors.into())?.explanation.clone())
    }

    /// As [`ScaledMaskedSoftmax::explain_raw`], for the backward.
    ///
    /// # Errors
    /// What [`ScaledMaskedSoftmax::backward_raw`] would refuse of the tensors' forms.
    pub fn explain_backward_raw(
        &self,
        stream: &Stream,
        tensors: &RawBackward,
    ) -> Result<Explanation> {
        Ok(self.plan(stream, &tensors.into())?.explanation.clone())
    }

    /// # Safety
    /// As for [`ScaledMaskedSoftmax::forward_raw`].
    unsafe fn enqueue(&self, stream: &Stream, call: &Call) -> Result<()> {
        call.check_memory()?;
        let plan = self.plan(stream, call)?;
        let name = call.operation.name();
        debug::trace_plan(name, &plan.explanation);
        // SAFETY: the tensors are valid, by the caller's promise.
        unsafe {
            debug::check_nan(stream, name, call.operation.source(), &call.source)?;
            if let Some(gradient) = &call.gradient {
                debug::check_nan(stream, name, "dp", gradient)?;
            }
            for launch in &plan.launches {
                launch.enqueue(stream, plan.entry, call)?;
            }
            debug::check_nan(stream, name, call.operation.output(), &call.output)
        }
    }

    fn plan(&self, stream: &Stream, call: &Call) -> Result<Arc<Plan>> {
        let device = stream.device();
        let key = PlanKey {
            options: *self,
            device: device.kind(),
            capability: device.compute_capability(),
            call: call.forms(),
        };
        PLANS.get_or_try_make(&key, || plan::make(&key, device))
    }
}
