//! Fused softmax and attention on NVIDIA GPUs, with kernels written in Rust.

mod backend;
mod causal;
#[cfg(feature = "cuda")]
mod cuda;
mod debug;
mod device;
mod dims;
mod element;
#[cfg(feature = "emulator")]
mod emulated;
mod error;
mod layout;
mod plan_cache;
#[cfg(feature = "cuda")]
mod ptx;
mod raw;
pub mod reference;
mod softmax;
mod stream;
mod tensor;

pub use causal::Causal;
pub use cuda_launch::{Dim3, Kernel, KernelArgs, LaunchBounds, LaunchConfig, Launcher};
pub use cuda_ptx::PtxLibrary;
pub use device::{Device, DeviceKind};
pub use dims::{Dims, MAX_RANK};
pub use element::{Dtype, Element, Scalar};
pub use error::{DriverError, Error, Result};
pub use plan_cache::PlanCache;
pub use raw::RawTensor;
pub use softmax::{
    Accumulate, BankIndex, Explanation, Mask, Per, Polarity, RawForward, RawMask, RowLengths,
    ScaledMaskedSoftmax, SoftmaxInputs, tile_names,
};
pub use stream::Stream;
pub use tensor::Tensor;

#[cfg(feature = "emulator")]
pub use cuda_emulator::Emulator;
