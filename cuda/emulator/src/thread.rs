//! Who and where a thread is.

use crate::{block, copy, fault::fault};
use cuda_launch::Dim3;
use std::panic::Location;

pub fn thread_idx() -> Dim3 {
    block::with(|b| b.threads[b.me()].idx)
}

pub fn block_idx() -> Dim3 {
    block::with(|b| b.block_idx)
}

pub fn block_dim() -> Dim3 {
    block::with(|b| b.block_dim)
}

pub fn grid_dim() -> Dim3 {
    block::with(|b| b.grid_dim)
}

/// Number of the thread in its block.
pub fn linear() -> u32 {
    block::with(|b| b.me() as u32)
}

/// A turn of a loop that polls memory: lets the others run.
#[track_caller]
pub fn poll() {
    let at = Location::caller();
    block::with(|b| {
        b.polls += 1;
        if b.polls > 4 * b.threads.len() as u32
            && !copy::progress(b)
            && b.polls > b.options.patience
        {
            fault!(
                at,
                "livelock: the block has polled {} times, and nothing else happened",
                b.polls
            );
        }
    });
    block::step_aside();
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
