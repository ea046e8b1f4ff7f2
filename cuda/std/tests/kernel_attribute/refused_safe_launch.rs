//! A launch without `unsafe`.

#![allow(unexpected_cfgs)]

use cuda_launch::{LaunchConfig, Launcher};
use cuda_std::kernel;

#[kernel(launch_bounds(32, 1))]
unsafe fn fill(_values: *mut f32) {}

fn launches<L: Launcher>(launcher: &L, values: *mut f32) {
    let _ = launcher.launch(&fill, LaunchConfig::new(1, 32), (values,));
}

fn main() {}
