//! Who and where a thread is.

use crate::{machine, polling};
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

/// A turn of a loop that polls memory: lets the others run. Loops that load one address again and
/// again through this crate get there by themselves, if less often.
#[track_caller]
pub fn poll() {
    polling::poll(Location::caller());
}
