//! Who and where a thread is.

use crate::{fault::fault, machine, tma};
use cuda_launch::Dim3;
use std::panic::Location;

/// `%tid`
pub fn thread_idx() -> Dim3 {
    machine::with(|m| m.threads[m.me()].idx)
}

/// `%ctaid`
pub fn block_idx() -> Dim3 {
    machine::with(|m| m.blocks[m.rank].idx)
}

/// `%ntid`
pub fn block_dim() -> Dim3 {
    machine::with(|m| m.config.block)
}

/// `%nctaid`
pub fn grid_dim() -> Dim3 {
    machine::with(|m| m.config.grid)
}

/// Number of the thread in its block.
pub fn linear() -> u32 {
    machine::with(|m| m.number(m.me()) as u32)
}

/// A turn of a loop that polls memory: lets the others run.
#[track_caller]
pub fn poll() {
    let at = Location::caller();
    machine::with(|m| {
        m.polls += 1;
        if m.polls > 4 * m.threads.len() as u32 && !tma::progress(m) && m.polls > m.options.patience
        {
            fault!(
                at,
                Livelock,
                "livelock: the cluster has polled {} times, and nothing else happened",
                m.polls
            );
        }
    });
    machine::step_aside();
}

/// `ex2.approx.f32`, for kernels, which have no std.
pub fn exp2(x: f32) -> f32 {
    x.exp2()
}

/// `tanh.approx.f32`, for kernels, which have no std.
pub fn tanh(x: f32) -> f32 {
    x.tanh()
}

/// `lg2.approx.f32`, for kernels, which have no std.
pub fn log2(x: f32) -> f32 {
    x.log2()
}
