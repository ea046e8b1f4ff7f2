//! The calls on tensors.

use super::{inputs::AttentionInputs, options::Attention};
use crate::{Element, Explanation, Result, Stream, Tensor};

/// What attention computes.
#[derive(Debug, Clone)]
pub struct AttentionOutput<T> {
    /// The output: q's shape, with v's elements.
    pub o: Tensor<T>,
    /// The natural log-sum-exp of the scores that each query sees: q's shape without the elements.
    pub lse: Tensor<f32>,
}

impl Attention {
    /// Attention in new tensors, on the default stream. The output's dimensions lie in memory in q's
    /// order: heads before rows, or rows before heads.
    ///
    /// # Errors
    /// Every violated precondition, before anything is launched; see [`Error`](crate::Error).
    pub fn forward<T: Element>(
        &self,
        inputs: &AttentionInputs<'_, T>,
    ) -> Result<AttentionOutput<T>> {
        let device = inputs.device();
        let o = output(inputs)?;
        let rows = inputs.q.rank().saturating_sub(1);
        let lse = device.empty(&inputs.q.shape()[..rows])?;
        self.forward_into(&device.default_stream(), inputs, &o, Some(&lse))?;
        Ok(AttentionOutput { o, lse })
    }

    /// Attention into tensors of the caller's, enqueued on `stream`: allocates nothing, does not
    /// wait, and can be captured in a CUDA graph, which keeps no tensor alive: all must live as long
    /// as the graph is replayed. `o` has q's shape with v's elements, `lse` the same without the
    /// elements; between the first byte of each and its last lies no other tensor.
    ///
    /// # Errors
    /// As for [`Attention::forward`].
    pub fn forward_into<T: Element>(
        &self,
        stream: &Stream,
        inputs: &AttentionInputs<'_, T>,
        o: &Tensor<T>,
        lse: Option<&Tensor<f32>>,
    ) -> Result<()> {
        stream.device().check_same("q", inputs.device())?;
        let tensors = inputs.raw(o, lse)?;
        // SAFETY: tensors are valid memory of their devices, which is the stream's. Freeing memory
        // waits for the work that was enqueued with it. Offsets of sequences have been checked, or
        // are promised.
        unsafe { self.forward_raw(stream, &tensors) }
    }

    /// How many bytes of device memory the forward needs beside its tensors: none, of the kernels
    /// there are.
    ///
    /// # Errors
    /// As for [`Attention::forward`].
    pub fn workspace_bytes<T: Element>(
        &self,
        inputs: &AttentionInputs<'_, T>,
        o: &Tensor<T>,
    ) -> Result<usize> {
        let tensors = inputs.raw(o, None::<&Tensor<f32>>)?;
        self.workspace_bytes_raw(&inputs.device().default_stream(), &tensors)
    }

    /// Which kernel would run, how it is cut, and why not those that are preferred.
    ///
    /// # Errors
    /// As for [`Attention::forward`].
    pub fn explain<T: Element>(
        &self,
        inputs: &AttentionInputs<'_, T>,
        o: &Tensor<T>,
    ) -> Result<Explanation> {
        let tensors = inputs.raw(o, None::<&Tensor<f32>>)?;
        self.explain_raw(&inputs.device().default_stream(), &tensors)
    }
}

/// A tensor for the output, with heads and rows in q's order in memory.
fn output<T: Element>(inputs: &AttentionInputs<'_, T>) -> Result<Tensor<T>> {
    let (mut shape, strides) = (inputs.output_shape(), inputs.q.strides());
    let rank = shape.len();
    let rows_first = rank >= 3 && strides[rank - 3] < strides[rank - 2];
    if !rows_first {
        return inputs.device().empty(&shape);
    }
    shape.swap(rank - 3, rank - 2);
    inputs.device().empty(&shape)?.transpose(rank - 3, rank - 2)
}
