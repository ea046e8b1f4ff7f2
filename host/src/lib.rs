//! Fused softmax and attention on NVIDIA GPUs, with kernels written in Rust.
//!
//! An operation is a value that holds its options; it takes tensors of a [`Device`], which is a GPU
//! or, with the feature `emulator`, the CPU:
//!
//! ```
//! # #[cfg(feature = "emulator")] {
//! use fused_attention::{Causal, Device, Mask, ScaledMaskedSoftmax};
//!
//! let device = Device::emulator(); // or Device::cuda(0)?
//! let scores = device.upload(&[0.0f32; 6], &[2, 3])?;
//! let softmax = ScaledMaskedSoftmax::new(0.125).causal(Causal::BottomRight);
//! let p = softmax.forward(&scores, Mask::none())?;
//! assert_eq!(p.to_vec()?, [0.5, 0.5, 0.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
//! # }
//! # Ok::<(), fused_attention::Error>(())
//! ```
//!
//! There are two layers. [`Tensor`] owns its memory and knows its device; calls on tensors check
//! both. [`RawTensor`] is a pointer with a shape and strides, for memory of other libraries, and
//! [`Stream::from_raw`] takes their streams. Calls that end in `_into` or `_raw` allocate nothing,
//! enqueue on a stream, never wait for it, and can be captured in a CUDA graph once
//! [`Device::prepare`] or a first call has loaded their kernels.
//!
//! Whatever violates a precondition is a variant of [`Error`] before anything is launched.
//!
//! # Tuning
//! `FUSED_ATTENTION_TUNING=FILE` prefers tiles that were measured on the GPU at hand; see [`Tuning`].
//!
//! # Debugging
//! `FUSED_ATTENTION_DEBUG=nan` looks for NaN in the main input and output of each call and names the
//! first one; `FUSED_ATTENTION_DEBUG=trace` prints plans, launches and their times; `nan,trace`
//! does both. With the feature `tracing` each launch is a span.

mod attention;
mod backend;
mod causal;
mod choice;
#[cfg(feature = "cuda")]
mod cuda;
mod debug;
mod device;
mod dims;
mod element;
mod element_masks;
#[cfg(feature = "emulator")]
mod emulated;
mod error;
mod explanation;
mod layout;
mod mask;
mod plan_cache;
#[cfg(feature = "cuda")]
mod ptx;
mod raw;
pub mod reference;
mod softmax;
mod stream;
mod tensor;
mod visible_range;

pub use attention::{
    Attention, AttentionInputs, AttentionOutput, PackedSequences, Precision, RawAttention,
    RawDropoutSeed, RawSequences, attention_tile_names,
};
pub use causal::Causal;
pub use cuda_launch::{
    Dim3, Kernel, KernelArgs, LaunchBounds, LaunchConfig, Launcher, TensorDimension, TensorElement,
    TensorMap, TensorTiling, TileSwizzle, TilingError,
};
pub use cuda_ptx::PtxLibrary;
pub use device::{Device, DeviceKind};
pub use dims::{Dims, MAX_RANK};
pub use element::{Dtype, Element, Scalar};
pub use error::{DriverError, Error, Result};
pub use explanation::Explanation;
pub use mask::{BankIndex, Mask, Per, Polarity, RawMask, RowLengths};
pub use plan_cache::PlanCache;
pub use raw::RawTensor;
pub use softmax::{
    Accumulate, GradientInputs, RawBackward, RawForward, RawSaved, ScaledMaskedSoftmax,
    SoftmaxInputs, TilePreference, TunedMask, TunedOperation, Tuning, TuningError,
    backward_tile_names, tile_names,
};
pub use stream::Stream;
pub use tensor::Tensor;

#[cfg(feature = "emulator")]
pub use cuda_emulator::Emulator;

// The Rust examples in the README are tests of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "emulator"))]
#[doc = include_str!("../../docs/emulator.md")]
struct EmulatorGuide;
