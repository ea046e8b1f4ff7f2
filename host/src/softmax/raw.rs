//! The raw layer: device pointers, strides and a stream, as other libraries have them.

use super::{
    mask::RawMask,
    options::ScaledMaskedSoftmax,
    plan::{self, Explanation, Plan, PlanKey},
    rows::Operand,
};
use crate::{Launcher, PlanCache, RawTensor, Result, Stream, debug, error::Error};
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

impl RawForward {
    /// Every tensor with its name in errors; outputs first.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (&'static str, RawTensor)> {
        let RawForward { x, y, lse, scale, mask } = *self;
        [
            ("y", Some(y)),
            ("lse", lse),
            ("x", Some(x)),
            ("scale", scale),
            ("mask", mask.bytes.map(|(raw, _)| raw)),
            ("additive mask", mask.additive),
            ("lengths", mask.lengths.map(|(raw, _)| raw)),
            ("bank index", mask.bank_index),
        ]
        .into_iter()
        .filter_map(|(name, raw)| Some((name, raw?)))
    }

    /// What a plan depends on: of pointers the low bits only.
    fn forms(&self) -> Self {
        let form = |raw: RawTensor| RawTensor { pointer: raw.pointer % 16, ..raw };
        let RawForward { x, y, lse, scale, mask } = *self;
        RawForward {
            x: form(x),
            y: form(y),
            lse: lse.map(form),
            scale: scale.map(form),
            mask: RawMask {
                bytes: mask.bytes.map(|(raw, polarity)| (form(raw), polarity)),
                additive: mask.additive.map(form),
                lengths: mask.lengths.map(|(raw, per)| (form(raw), per)),
                bank_index: mask.bank_index.map(form),
            },
        }
    }

    /// Pointers and memory, which no plan covers.
    fn check_memory(&self) -> Result<()> {
        let outputs = 1 + usize::from(self.lse.is_some());
        for (i, (name, raw)) in self.tensors().enumerate() {
            raw.check(name)?;
            for (output, written) in self.tensors().take(outputs.min(i)) {
                if written.overlaps(&raw)? {
                    return Err(Error::OverlappingOutput { output, other: name });
                }
            }
        }
        Ok(())
    }
}

static PLANS: LazyLock<PlanCache<PlanKey, Plan>> = LazyLock::new(|| PlanCache::new(1024));

impl ScaledMaskedSoftmax {
    /// Enqueues the forward on `stream`. Allocates nothing, does not wait, and can be captured in
    /// a CUDA graph once its kernel is loaded ([`Device::prepare`](crate::Device::prepare)).
    ///
    /// # Errors
    /// Every violated precondition, before anything is launched; see [`Error`].
    ///
    /// # Safety
    /// The tensors must be memory of the stream's device, valid until the work is done, and not
    /// written by other work meanwhile.
    pub unsafe fn forward_raw(&self, stream: &Stream, tensors: &RawForward) -> Result<()> {
        tensors.check_memory()?;
        let plan = self.plan(stream, tensors)?;
        debug::trace_plan("softmax forward", &plan.explanation);
        // SAFETY: the tensors are valid, by the caller's promise.
        unsafe {
            debug::check_nan(stream, "softmax forward", "x", &tensors.x)?;
            for (config, problem, slice) in &plan.launches {
                let mut problem = *problem;
                let at = |raw: Option<RawTensor>, operand: Operand| {
                    raw.map_or(0, |raw| {
                        let bytes = slice.offsets[operand as usize] * raw.dtype.size() as i64;
                        raw.pointer.wrapping_add_signed(bytes)
                    })
                };
                let mask = &tensors.mask;
                problem.x = at(Some(tensors.x), Operand::X) as *const _;
                problem.y = at(Some(tensors.y), Operand::Y) as *mut _;
                problem.bytes = at(mask.bytes.map(|(raw, _)| raw), Operand::Bytes) as *const _;
                problem.additive = at(mask.additive, Operand::Additive) as *const _;
                problem.lengths =
                    at(mask.lengths.map(|(raw, _)| raw), Operand::Lengths) as *const _;
                problem.bank_index = at(mask.bank_index, Operand::BankIndex) as *const _;
                problem.scale_pointer = tensors.scale.map_or(0, |raw| raw.pointer) as *const _;
                problem.lse = tensors
                    .lse
                    .map_or(0, |raw| raw.pointer + slice.first_row * raw.dtype.size() as u64)
                    as *mut _;
                stream.launch(plan.kernel, *config, (problem,))?;
            }
            debug::check_nan(stream, "softmax forward", "y", &tensors.y)
        }
    }

    /// Which kernel would run, how it is cut, and why not those that are preferred.
    ///
    /// # Errors
    /// What [`ScaledMaskedSoftmax::forward_raw`] would refuse of the tensors' forms.
    pub fn explain_raw(&self, stream: &Stream, tensors: &RawForward) -> Result<Explanation> {
        Ok(self.plan(stream, tensors)?.explanation.clone())
    }

    fn plan(&self, stream: &Stream, tensors: &RawForward) -> Result<Arc<Plan>> {
        let capability = stream.device().compute_capability();
        let key = PlanKey { options: *self, capability, tensors: tensors.forms() };
        PLANS.get_or_try_make(&key, || plan::make(&key))
    }
}
