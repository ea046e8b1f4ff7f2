//! Every GPU kernel of the library, for the GPU and for the CPU emulator.
//!
//! | folder | holds |
//! |---|---|
//! | [`tiles`] | the one table of tile sizes and launch bounds, with the reason for each row |
//! | [`numbers`] | element types, what they are computed in, and 16-byte vectors of them |
//! | [`marks`] | bits that say something of each byte of a word |
//! | [`registers`] | loops over register arrays whose indices are constants |
//! | [`reduction`] | a row's maximum and sums: across a warp, a block, a cluster |
//! | [`softmax`] | scaled masked softmax |
//! | [`attention`] | flash attention |
//!
//! A kernel is a generic body, marked `#[inline(always)]`, and thin entries that fix its types and
//! tile. Everything here runs unchanged on the emulator: no code asks which target it is for.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, stdarch_nvptx, asm_experimental_arch))]
// The body of a kernel is unsafe as a whole: its contract is the launch's.
#![allow(unsafe_op_in_unsafe_fn)]

#[macro_use]
pub mod registers;

pub mod attention;
pub mod marks;
pub mod numbers;
pub mod reduction;
pub mod softmax;
pub mod tiles;

#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the thread.
    unsafe { core::arch::nvptx::trap() }
}
