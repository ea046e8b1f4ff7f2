//! The raw layer: device pointers, strides and a stream, as other libraries have them.

use super::{
    options::Attention,
    plan::{self, Plan, PlanKey},
    sequences::RawSequences,
};
use crate::{Explanation, PlanCache, RawMask, RawTensor, Result, Stream, debug};
use std::sync::{Arc, LazyLock};

/// The tensors of attention's forward, as pointers.
///
/// Dimensions are batch, heads, rows, elements; without the first one where sequences are packed.
/// All strides are free but those of the elements, which are 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawAttention {
    /// Queries: f16, bf16 or f32.
    pub q: RawTensor,
    /// Keys, of the same type. Their heads divide the number of those of the queries.
    pub k: RawTensor,
    /// Values, of the same type; their elements may be of another number.
    pub v: RawTensor,
    /// The output: q's shape with v's elements, and q's type; its bytes, from the first to the
    /// last, hold no other tensor.
    pub o: RawTensor,
    /// The natural log-sum-exp of each row, before dropout: f32, q's shape without the elements.
    pub lse: Option<RawTensor>,
    /// The scale, of one f32, in place of the options'.
    pub scale: Option<RawTensor>,
    /// What hides scores, and what is added to them: masks in a shape that broadcasts to batch,
    /// query heads, queries, keys. Lengths are those of the keys, for each batch entry.
    pub mask: RawMask,
    /// How many queries of each batch entry count: i32. The others give 0.
    pub query_lengths: Option<RawTensor>,
    /// The queries, the output and the log-sum-exp are packed sequences.
    pub query_sequences: Option<RawSequences>,
    /// Keys and values are packed sequences.
    pub key_sequences: Option<RawSequences>,
    /// ALiBi's slopes: f32, in a shape that broadcasts to batch, query heads.
    pub slopes: Option<RawTensor>,
    /// Where the random numbers of dropout come from.
    pub dropout_seed: Option<RawDropoutSeed>,
}

/// What decides which probabilities are dropped: the same numbers, the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "calls are passed without an allocation")]
pub enum RawDropoutSeed {
    /// Numbers.
    Given {
        /// The key of the random numbers.
        seed: u64,
        /// Which of the numbers that belong to the key.
        offset: u32,
    },
    /// Numbers in device memory, so that a graph can be replayed with others: an i64 each, of the
    /// offset of which the lower half counts.
    OnDevice {
        /// The key of the random numbers.
        seed: RawTensor,
        /// Which of the numbers that belong to the key.
        offset: RawTensor,
    },
}

static PLANS: LazyLock<PlanCache<PlanKey, Plan>> = LazyLock::new(|| PlanCache::new(1024));

impl Attention {
    /// Enqueues the forward on `stream`. Allocates nothing, does not wait, and can be captured in
    /// a CUDA graph once its kernel is loaded ([`Device::prepare`](crate::Device::prepare)).
    ///
    /// # Errors
    /// Every violated precondition, before anything is launched; see [`Error`](crate::Error).
    ///
    /// # Safety
    /// The tensors must be memory of the stream's device, valid until the work is done, and not
    /// written by other work meanwhile; offsets of sequences must ascend within the tensors' rows.
    pub unsafe fn forward_raw(&self, stream: &Stream, tensors: &RawAttention) -> Result<()> {
        tensors.check_memory()?;
        let plan = self.plan(stream, tensors)?;
        debug::trace_plan(plan::OPERATION, &plan.explanation);
        // SAFETY: the tensors are valid, by the caller's promise.
        unsafe {
            for (name, raw) in [("q", &tensors.q), ("k", &tensors.k), ("v", &tensors.v)] {
                debug::check_nan(stream, plan::OPERATION, name, raw)?;
            }
            plan.launch.enqueue(stream, tensors)?;
            debug::check_nan(stream, plan::OPERATION, "o", &tensors.o)
        }
    }

    /// How many bytes of device memory the forward needs beside its tensors: none, of the kernels
    /// there are.
    ///
    /// # Errors
    /// What [`Attention::forward_raw`] would refuse of the tensors' forms.
    pub fn workspace_bytes_raw(&self, stream: &Stream, tensors: &RawAttention) -> Result<usize> {
        Ok(self.plan(stream, tensors)?.workspace_bytes)
    }

    /// Which kernel would run, how it is cut, and why not those that are preferred.
    ///
    /// # Errors
    /// What [`Attention::forward_raw`] would refuse of the tensors' forms.
    pub fn explain_raw(&self, stream: &Stream, tensors: &RawAttention) -> Result<Explanation> {
        Ok(self.plan(stream, tensors)?.explanation.clone())
    }

    fn plan(&self, stream: &Stream, tensors: &RawAttention) -> Result<Arc<Plan>> {
        let device = stream.device();
        let (capability, shared_bytes) =
            (device.compute_capability(), device.shared_bytes_per_block());
        let key = PlanKey {
            options: *self,
            capability,
            shared_bytes,
            multiprocessors: device.multiprocessors(),
            call: tensors.forms(),
        };
        PLANS.get_or_try_make(&key, || plan::make(&key))
    }
}
