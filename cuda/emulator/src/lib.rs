//! A CPU emulator for CUDA kernels written in Rust.

mod asynchronous;
mod buffer;
mod clock;
mod deadlock;
mod emulator;
mod fault;
mod launch;
mod machine;
mod order;
mod panics;
mod ready;
mod registry;
mod rendezvous;
mod scheduler;
mod shared_memory;
mod sites;
mod source;
mod stacks;
mod tma;
mod trap;

pub mod atomic;
pub mod barrier;
pub mod cluster;
pub mod copy;
pub mod fence;
pub mod global;
pub mod mbarrier;
pub mod mma;
pub mod print;
pub mod shared;
pub mod thread;
pub mod warp;
pub mod wgmma;

pub use buffer::{Buffer, OutOfMemory, Placement};
pub use cuda_launch::{Dim3, Kernel, KernelArgs, LaunchConfig, Launcher};
pub use emulator::{AsyncTiming, Emulator, Schedule};
pub use fault::{Fault, FaultKind, SourceLocation};
pub use launch::{LaunchError, MAX_SHARED_BYTES};
pub use sites::{SiteRecorder, SyncSite};
