//! Runs GPU kernels written in Rust on the CPU, and finds what they do wrong.
//!
//! [`Emulator`] launches a [`Kernel`] as a CUDA stream does, in the same process and synchronously.
//! It returns a [`Fault`] if the kernel breaks a rule of the programming model, with the block, the
//! thread, the line in the kernel's source and, if the schedule was shuffled, its seed.
//!
//! # How it works
//!
//! **Threads.** Every CUDA thread is a stackful coroutine. All the threads of a cluster (of a
//! block, if there are no clusters) take turns on one OS thread, and clusters run in parallel on
//! rayon's pool. A thread runs undisturbed until it meets an instruction that involves others: a
//! barrier, a shuffle, a wait. Nothing in a cluster is ever concurrent, so the emulator itself
//! needs no locks, and the same launch with the same seed is the same run. The state of a cluster
//! is plain data (`machine.rs`), which device functions find by a thread-local pointer.
//!
//! **Collectives** ([`warp`], [`mma`], [`wgmma`]) are rendezvous: a thread leaves a pointer to its
//! operands and sleeps; the last to arrive carries out the instruction for all. Two threads of a
//! warp at different instructions with the same mask have diverged. For `.aligned` instructions,
//! barriers among them, even the place in the source must be the same, which `#[track_caller]`
//! tells. When no thread can run and some haven't ended, that is a deadlock, and the fault lists
//! who waits where.
//!
//! **Shared memory** ([`shared`], [`cluster`]) is checked at every access: bounds, alignment,
//! initialisation, whether the block still exists, and on request data races. Those are found by
//! vector clocks (`order.rs`): an access that no synchronisation orders after an earlier one to
//! the same bytes is a race, even if this run happened to get it right. Accesses of asynchronous
//! copies and of the async proxy count as those of agents of their own, so a forgotten wait or
//! proxy fence is a race as well. Across blocks of a cluster it also is an error if nothing orders
//! an access after the start or before the end of the block whose memory it is.
//!
//! **Global memory** ([`global`], [`atomic`]) is the host's, by raw pointers. It must be part of a
//! [`Buffer`]: accesses through this crate are checked against the list of them. What a kernel
//! reads and writes through plain pointers isn't seen, but each buffer lies between inaccessible
//! pages, and the signal becomes a fault (Linux on x86-64; elsewhere it ends the process). There is
//! no race check here, and threads of parallel blocks that race do so for real.
//!
//! **Asynchronous operations** ([`copy`], [`wgmma`]) are kept as values, and carried out when they
//! are issued, at their wait, or at random in between: [`AsyncTiming`].
//!
//! **Leaving out a synchronisation.** A [`SiteRecorder`] lists the places where a launch
//! synchronised, and [`Emulator::omitting`] runs it without one of them: so a test can prove that
//! each is needed and that its absence would be noticed.
//!
//! # Use in tests
//!
//! Run each kernel once plainly, and then with [`Emulator::adversarial`] for a few seeds.
//!
//! # Limits
//!
//! - Speed, registers, bank conflicts and occupancy are not modelled; functions are exact, so that
//!   results differ from a GPU's by rounding. Products of matrices are as inexact as on the least
//!   exact GPU (`tensor_sums.rs`).
//! - Each cluster runs to its end on its OS thread, so clusters that wait for each other get on only
//!   while they happen to run at the same time; else the wait is reported as a livelock, after
//!   [`Emulator::patience`]. Loops that poll should call [`thread::poll`].
//! - A collective is judged by its place in the source: two iterations of a loop look alike.
//! - The race check keeps the last four accesses to each 8-byte word, and can miss one beyond.
//! - In debug builds Rust's own check of a null or misaligned pointer aborts the process, where the
//!   kernel dereferences it itself.

mod asynchronous;
mod buffer;
mod clock;
mod deadlock;
mod emulator;
mod fault;
mod launch;
mod machine;
mod matrix_operand;
mod order;
mod panics;
mod polling;
mod ready;
mod registry;
mod rendezvous;
mod scheduler;
mod shared_memory;
mod sites;
mod source;
mod stacks;
mod tensor_map;
mod tensor_sums;
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
