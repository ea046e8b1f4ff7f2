//! What GPU kernels are written with.
//!
//! On the device (`nvptx64`) each function is one instruction or a few. Anywhere else it is that
//! instruction's emulation, so that the same kernel runs, and is checked, on a CPU.

#![no_std]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(asm_experimental_arch, stdarch_nvptx, link_llvm_intrinsics, abi_unadjusted)
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]
// Without the emulator the host's side of a primitive uses none of its operands.
#![cfg_attr(all(not(target_arch = "nvptx64"), not(feature = "emulator")), allow(unused_variables))]

/// One expression for the device, one for the emulator.
macro_rules! dual {
    (ptx: $ptx:expr, emulator: $emulator:expr $(,)?) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            $ptx
        }
        #[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
        {
            $emulator
        }
        #[cfg(all(not(target_arch = "nvptx64"), not(feature = "emulator")))]
        {
            $crate::no_emulator()
        }
    }};
}

pub mod thread;

pub use cuda_macros::kernel;

/// What `#[kernel]` needs on the host.
#[cfg(not(target_arch = "nvptx64"))]
pub mod host {
    pub use cuda_launch::{Kernel, LaunchBounds};
}

#[cfg(all(not(target_arch = "nvptx64"), not(feature = "emulator")))]
#[cold]
pub(crate) fn no_emulator() -> ! {
    panic!("kernels run on the CPU only with the feature `emulator` of cuda_std")
}
