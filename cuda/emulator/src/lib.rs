//! A CPU emulator for CUDA kernels written in Rust.
//!
//! Every CUDA thread is a stackful coroutine; all the threads of a block take turns on one OS
//! thread, and blocks run in parallel. A thread runs undisturbed until it meets an instruction
//! that involves other threads (a barrier, a shuffle, a tensor-core instruction); there it leaves
//! its operands and sleeps until its peers have arrived. Nothing in a block is ever concurrent,
//! so the emulator itself needs no locks and every run with the same seed is the same run.
//!
//! The modules mirror the programming model: [`thread`], [`warp`], [`shared`], [`barrier`],
//! [`mbarrier`], [`copy`] (cp.async and TMA), [`mma`] and [`wgmma`].

mod block;
mod fault;
mod order;
mod rendezvous;
mod sched;
mod trap;

pub mod atomic;
pub mod barrier;
pub mod cluster;
pub mod copy;
pub mod fence;
pub mod global;
mod launch;
pub mod mbarrier;
pub mod mma;
pub mod print;
pub mod shared;
pub mod thread;
pub mod warp;
pub mod wgmma;

pub use block::Site;
pub use cuda_launch::{Kernel, KernelArgs, LaunchConfig, Launcher};
pub use fault::Fault;
pub use sched::{AsyncTiming, Emulator, Schedule};
pub use trap::Buffer;
