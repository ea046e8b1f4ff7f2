//! What a kernel launch is, whether a GPU or the CPU emulator carries it out.
//!
//! `#[kernel]` leaves a [`Kernel`] on the host: the entry's name in its PTX module, the same
//! function compiled for the host, and the launch bounds, typed by the kernel's arguments. A
//! [`Launcher`] takes it with a [`LaunchConfig`] and the arguments as a tuple; a wrong argument
//! does not compile:
//!
//! ```compile_fail
//! # use cuda_launch::*;
//! # fn wrong<L: Launcher>(launcher: &L, kernel: &Kernel<(*const f32, u32)>) {
//! // The second argument is a u32.
//! unsafe { launcher.launch(kernel, LaunchConfig::new(1, 32), (core::ptr::null::<f32>(), 1.0)) };
//! # }
//! ```

#![no_std]

mod arguments;
mod config;
mod kernel;
mod tensor_map;

pub use arguments::KernelArgs;
pub use config::{Dim3, LaunchConfig};
pub use kernel::{Entry, Kernel, LaunchBounds};
pub use tensor_map::{
    TensorDimension, TensorElement, TensorMap, TensorTiling, TileSwizzle, TilingError,
};

/// Something that runs kernels: a CUDA stream, or the emulator.
pub trait Launcher {
    /// Why a launch was refused or failed.
    type Error;

    /// Runs `kernel` over the grid of `config`. A GPU runs it asynchronously: what goes wrong
    /// inside the kernel shows at a later synchronisation.
    ///
    /// # Errors
    /// The launch was refused, or (on the emulator) the kernel did something wrong.
    ///
    /// # Safety
    /// `args` must be what the kernel's own safety section asks for. Memory they point to must
    /// live where the launcher runs (device memory for a GPU) until the kernel has ended.
    unsafe fn launch<Args: KernelArgs>(
        &self,
        kernel: &Kernel<Args>,
        config: LaunchConfig,
        args: Args,
    ) -> Result<(), Self::Error>;
}
