//! A kernel for each primitive of `cuda_std`: small enough that the primitive is all that can go
//! wrong. The tests in `tests/conformance` run them and say what they must compute.
//!
//! Kernels run in one block unless they say otherwise, and each thread reads and writes the
//! elements at its own index: pointers are to as many elements as there are threads.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, stdarch_nvptx, asm_experimental_arch))]
// Each architecture compiles only its own kernels.
#![cfg_attr(target_arch = "nvptx64", allow(dead_code, unused_imports))]
// The safety sections would all repeat the paragraph above.
#![allow(clippy::missing_safety_doc)]

pub mod arguments;
pub mod atomic;
pub mod block;
pub mod cluster;
pub mod convert;
pub mod copy;
pub mod math;
pub mod matrix;
pub mod memory;
pub mod random;
pub mod tma;
pub mod warp;
pub mod wgmma;

#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the thread.
    unsafe { core::arch::nvptx::trap() }
}
