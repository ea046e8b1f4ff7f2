//! The definition of attention in f64, on a device: what results are compared with where a CPU is too
//! slow.

use super::{
    forms::{Forms, OutputTypes},
    inputs::AttentionInputs,
    launch::{Entry, Launch},
    options::Attention,
    plan::{template, with_cut},
    tile_choice::cut_apart,
};
use crate::{Dtype, Element, LaunchConfig, Result, Stream, Tensor};
use kernels::attention::{
    entries::NAIVE,
    naive::{NAIVE_ROWS, NAIVE_THREADS},
};

/// How exactly the definition is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    /// In f64.
    Exact,
    /// With scores and probabilities rounded to the elements' type, as where each step is a kernel of
    /// its own.
    Rounded,
}

impl Attention {
    /// Attention by its definition, in f64, enqueued on `stream`: slow, and what
    /// [`Attention::forward_into`] is compared with. Both outputs are as there, but of f64.
    ///
    /// # Errors
    /// As for [`Attention::forward`].
    pub fn definition_into<T: Element>(
        &self,
        stream: &Stream,
        inputs: &AttentionInputs<'_, T>,
        precision: Precision,
        o: &Tensor<f64>,
        lse: Option<&Tensor<f64>>,
    ) -> Result<()> {
        stream.device().check_same("q", inputs.device())?;
        let call = inputs.raw(o, lse)?;
        call.check_memory()?;
        let forms = Forms::of(&call, OutputTypes { o: Dtype::F64, lse: Dtype::F64 })?;
        let template = template(self, &call, &forms)?;
        let cut = cut_apart(&forms.sizes, NAIVE_ROWS as usize);
        let (problem, blocks) = with_cut(template, &forms, cut)?;
        let kernels = match call.q.dtype {
            Dtype::F16 => NAIVE[0],
            Dtype::Bf16 => NAIVE[1],
            _ => NAIVE[2],
        };
        let config = LaunchConfig::new(blocks as u32, NAIVE_THREADS);
        let entry = Entry::Portable(kernels[precision as usize]);
        let launch = Launch { entry, config, problem };
        // SAFETY: as in `forward_into`.
        unsafe { launch.enqueue(stream, &call) }
    }
}
