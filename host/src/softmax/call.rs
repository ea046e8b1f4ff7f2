//! A call's tensors, forward or backward alike: what checks, plans and launches work on.

use super::raw::{RawBackward, RawForward, RawSaved};
use crate::{RawMask, RawTensor, Result, raw};

/// What is computed from what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    /// Probabilities, from scores.
    Forward,
    /// The scores' gradient, from probabilities and their gradient.
    BackwardFromProbabilities,
    /// The scores' gradient, from the scores and the probabilities' gradient.
    BackwardFromScores,
}

impl Operation {
    /// The operation's name in errors.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Forward => "softmax forward",
            _ => "softmax backward",
        }
    }

    /// Whether masks with a value for each element are read. What they hide, probabilities have
    /// already as zeros.
    pub fn reads_element_masks(self) -> bool {
        self != Operation::BackwardFromProbabilities
    }

    /// The name of the tensor that is read in any case.
    pub fn source(self) -> &'static str {
        if self == Operation::BackwardFromProbabilities { "p" } else { "x" }
    }

    /// The name of the tensor that is written in any case.
    pub fn output(self) -> &'static str {
        if self == Operation::Forward { "y" } else { "dx" }
    }
}

/// The tensors of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Call {
    pub operation: Operation,
    /// Scores or probabilities.
    pub source: RawTensor,
    /// The probabilities' gradient.
    pub gradient: Option<RawTensor>,
    /// Of the source's shape and type.
    pub output: RawTensor,
    pub lse: Option<RawTensor>,
    pub scale: Option<RawTensor>,
    pub mask: RawMask,
}

impl From<&RawForward> for Call {
    fn from(tensors: &RawForward) -> Self {
        let RawForward { x, y, lse, scale, mask } = *tensors;
        let operation = Operation::Forward;
        Call { operation, source: x, gradient: None, output: y, lse, scale, mask }
    }
}

impl From<&RawBackward> for Call {
    fn from(tensors: &RawBackward) -> Self {
        let RawBackward { saved, dp, dx, scale, mask } = *tensors;
        let (operation, source) = match saved {
            RawSaved::Probabilities(p) => (Operation::BackwardFromProbabilities, p),
            RawSaved::Scores(x) => (Operation::BackwardFromScores, x),
        };
        Call { operation, source, gradient: Some(dp), output: dx, lse: None, scale, mask }
    }
}

impl Call {
    /// Every tensor with its name in errors; outputs first.
    pub fn tensors(&self) -> impl Iterator<Item = (&'static str, &RawTensor)> {
        let Call { operation, source, gradient, output, lse, scale, mask } = self;
        [
            (operation.output(), Some(output)),
            ("lse", lse.as_ref()),
            (operation.source(), Some(source)),
            ("dp", gradient.as_ref()),
            ("scale", scale.as_ref()),
            ("mask", mask.bytes.as_ref().map(|(raw, _)| raw)),
            ("additive mask", mask.additive.as_ref()),
            ("lengths", mask.lengths.as_ref().map(|(raw, _)| raw)),
            ("bank index", mask.bank_index.as_ref()),
        ]
        .into_iter()
        .filter_map(|(name, raw)| Some((name, raw?)))
    }

    /// What a plan depends on: of pointers the low bits only.
    pub fn forms(&self) -> Self {
        let form = |raw: RawTensor| RawTensor { pointer: raw.pointer % 16, ..raw };
        let Call { operation, source, gradient, output, lse, scale, mask } = *self;
        Call {
            operation,
            source: form(source),
            gradient: gradient.map(form),
            output: form(output),
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

    /// The masks that a kernel reads.
    pub fn masks_read(&self) -> RawMask {
        match self.operation.reads_element_masks() {
            true => self.mask,
            false => RawMask { lengths: self.mask.lengths, ..RawMask::default() },
        }
    }

    /// Pointers and memory, which no plan covers.
    pub fn check_memory(&self) -> Result<()> {
        let outputs = 1 + usize::from(self.lse.is_some());
        raw::check_memory(self.tensors(), outputs, |name, input| self.is_in_place(name, input))
    }

    /// Whether this input of a backward is the output itself, which may be: each element is read by
    /// the thread that then writes it.
    fn is_in_place(&self, name: &str, input: &RawTensor) -> bool {
        self.operation != Operation::Forward
            && (name == self.operation.source() || name == "dp")
            && *input == self.output
    }
}
