//! What GPU kernels are written with.
//!
//! On the device (`nvptx64`) each function is one instruction or a few. Anywhere else it is that
//! instruction's emulation, so that the same kernel runs, and is checked, on a CPU.
//!
//! | module | holds | from |
//! |---|---|---|
//! | [`thread`] | indices, the block's barrier | sm_70 |
//! | [`warp`] | shuffles, votes, reductions (sm_80) | sm_70 |
//! | [`block`] | named barriers of some of a block's warps | sm_70 |
//! | [`shared`], [`global`] | loads and stores of scalars and vectors | sm_70 |
//! | [`atomic`], [`fence`] | what blocks share | sm_70 |
//! | [`math`], [`convert`], [`bits`] | exp2, log2, tanh (sm_75), exp; f16 and bf16; bytes | sm_70 |
//! | [`cp_async`], [`mbarrier`] | asynchronous copies into shared memory, and barriers in it | sm_80 |
//! | [`cache`] | what the L2 cache is told | sm_80 |
//! | [`matrix`], [`mma`] | matrices in a warp's registers, and their products by tensor cores | sm_80 |
//! | [`bulk_copy`] | copies of whole ranges into shared memory by one thread | sm_90 |
//! | [`tma`] | copies of tiles of tensors by one thread | sm_90 |
//! | [`warpgroup`] | how many registers four warps have | sm_90a |
//! | [`wgmma`] | products by warpgroups | sm_90a |
//! | [`cluster`] | blocks that see each other's shared memory | sm_90 |
//! | [`random`] | random numbers by counter | sm_70 |
//! | [`println!`] | output from a kernel, for debugging | sm_70 |
//!
//! # Safety
//! A kernel promises what PTX asks. In the `# Safety` sections here:
//! - **convergent**: all the threads named must execute the same call, none may be elsewhere or
//!   have ended. Under a condition, the condition must be the same for all of them.
//! - **aligned**: an address is a multiple of the size of the whole value, all parts of a vector
//!   together.
//!
//! The emulator reports a broken promise with block, thread and source line.

#![no_std]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_unadjusted, asm_experimental_arch, link_llvm_intrinsics, stdarch_nvptx)
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]
// Without the emulator the host's side of a primitive uses none of its operands.
#![cfg_attr(all(not(target_arch = "nvptx64"), not(feature = "emulator")), allow(unused_variables))]

#[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
extern crate std;

/// One expression for the device, one for the emulator.
macro_rules! dual {
    (ptx: $ptx:expr, emulator: $emulator:expr $(,)?) => {{
        // SAFETY: an unsafe primitive passes on the promises of its caller; a safe one touches no
        // memory.
        #[cfg(target_arch = "nvptx64")]
        #[allow(unused_unsafe)]
        unsafe {
            $ptx
        }
        // SAFETY: as above.
        #[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
        #[allow(unused_unsafe)]
        unsafe {
            $emulator
        }
        #[cfg(all(not(target_arch = "nvptx64"), not(feature = "emulator")))]
        {
            $crate::no_emulator()
        }
    }};
}

/// `asm!` that yields one register: `asm!(reg32 -> u32: "mov.u32 {}, ..;", operands)`.
#[cfg(target_arch = "nvptx64")]
macro_rules! asm {
    ($class:ident -> $T:ty: $code:expr, $($rest:tt)*) => {{
        let out: $T;
        core::arch::asm!($code, out($class) out, $($rest)*);
        out
    }};
}

#[cfg(target_arch = "nvptx64")]
mod intrinsics;
mod value;

pub mod atomic;
pub mod bits;
pub mod block;
pub mod bulk_copy;
pub mod cache;
pub mod cluster;
pub mod convert;
pub mod cp_async;
pub mod fence;
pub mod global;
pub mod hint;
pub mod math;
pub mod matrix;
pub mod mbarrier;
pub mod mma;
pub mod print;
pub mod random;
pub mod shared;
pub mod thread;
pub mod tma;
pub mod warp;
pub mod warpgroup;
pub mod wgmma;

pub use cuda_macros::kernel;
pub use value::Value;

/// What `#[kernel]` needs on the host.
#[cfg(not(target_arch = "nvptx64"))]
pub mod host {
    pub use cuda_launch::{Kernel, LaunchBounds};
}

/// Items that only the host has: tables of kernel handles, say. On the device they are nothing.
#[cfg(not(target_arch = "nvptx64"))]
#[macro_export]
macro_rules! host_only {
    ($($item:item)*) => { $($item)* };
}

/// Items that only the host has: tables of kernel handles, say. On the device they are nothing.
#[cfg(target_arch = "nvptx64")]
#[macro_export]
macro_rules! host_only {
    ($($item:item)*) => {};
}

#[cfg(all(not(target_arch = "nvptx64"), not(feature = "emulator")))]
#[cold]
pub(crate) fn no_emulator() -> ! {
    panic!("kernels run on the CPU only with the feature `emulator` of cuda_std")
}
