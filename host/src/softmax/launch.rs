//! One launch of a plan: the problem of its rows, and the pointers of a call.

use super::{
    call::Call,
    rows::{Operand, Slice},
};
use crate::{Device, Kernel, LaunchConfig, Launcher, RawTensor, Result, Stream};
use kernels::softmax::problem::{MAX_ROW_DIMENSIONS, SoftmaxBackward, SoftmaxForward};

/// A kernel of either direction.
#[derive(Clone, Copy)]
pub(super) enum Entry {
    Forward(&'static Kernel<(SoftmaxForward,)>),
    Backward(&'static Kernel<(SoftmaxBackward,)>),
}

impl Entry {
    /// The entry's name.
    pub fn name(self) -> &'static str {
        match self {
            Entry::Forward(kernel) => kernel.name(),
            Entry::Backward(kernel) => kernel.name(),
        }
    }

    /// The architecture it is compiled for.
    pub fn arch(self) -> &'static str {
        match self {
            Entry::Forward(kernel) => kernel.arch(),
            Entry::Backward(kernel) => kernel.arch(),
        }
    }

    /// How many clusters of `config` a device runs at once.
    pub fn resident_clusters(self, device: &Device, config: LaunchConfig) -> Result<u32> {
        match self {
            Entry::Forward(kernel) => device.resident_clusters(kernel, config),
            Entry::Backward(kernel) => device.resident_clusters(kernel, config),
        }
    }
}

/// A launch without pointers.
pub(super) struct Launch {
    pub config: LaunchConfig,
    /// Its pointers are null: they are set in each call's own copy.
    pub problem: SoftmaxForward,
    /// Of the probabilities' gradient, along the problem's dimensions.
    pub gradient_strides: [i64; MAX_ROW_DIMENSIONS],
    pub slice: Slice,
}

// SAFETY: the problem's pointers are null.
unsafe impl Send for Launch {}
// SAFETY: as above.
unsafe impl Sync for Launch {}

impl Launch {
    /// Enqueues the launch with the pointers of `call`.
    ///
    /// # Safety
    /// The call's tensors must be valid, of the forms that the launch was made for, and the entry
    /// that of its plan.
    pub unsafe fn enqueue(&self, stream: &Stream, entry: Entry, call: &Call) -> Result<()> {
        let rows = self.rows(call);
        // SAFETY: the tensors are valid, by the caller's promise.
        unsafe {
            match entry {
                Entry::Forward(kernel) => stream.launch(kernel, self.config, (rows,)),
                Entry::Backward(kernel) => {
                    let problem = SoftmaxBackward {
                        rows,
                        gradient: self.address(call.gradient, Operand::Gradient) as *const _,
                        gradient_strides: self.gradient_strides,
                    };
                    stream.launch(kernel, self.config, (problem,))
                }
            }
        }
    }

    /// Where the launch's rows of a tensor begin; 0 without the tensor.
    fn address(&self, raw: Option<RawTensor>, operand: Operand) -> u64 {
        raw.map_or(0, |raw| {
            let bytes = self.slice.offsets[operand as usize] * raw.dtype.size() as i64;
            raw.pointer.wrapping_add_signed(bytes)
        })
    }

    /// The problem with the pointers of `call`.
    fn rows(&self, call: &Call) -> SoftmaxForward {
        let at = |raw: Option<RawTensor>, operand: Operand| self.address(raw, operand);
        let mask = call.masks_read();
        SoftmaxForward {
            x: at(Some(call.source), Operand::Source) as *const _,
            y: at(Some(call.output), Operand::Output) as *mut _,
            lse: at(call.lse, Operand::Lse) as *mut _,
            scale_pointer: call.scale.map_or(0, |raw| raw.pointer) as *const _,
            bytes: at(mask.bytes.map(|(raw, _)| raw), Operand::Bytes) as *const _,
            additive: at(mask.additive, Operand::Additive) as *const _,
            lengths: at(mask.lengths.map(|(raw, _)| raw), Operand::Lengths) as *const _,
            bank_index: at(mask.bank_index, Operand::BankIndex) as *const _,
            ..self.problem
        }
    }
}
