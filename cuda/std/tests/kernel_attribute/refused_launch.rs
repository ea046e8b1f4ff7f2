//! Launches with the wrong arguments.

#![allow(unexpected_cfgs)]

use cuda_launch::{LaunchConfig, Launcher};
use cuda_std::kernel;

#[kernel(launch_bounds(32, 1))]
unsafe fn scale(_values: *mut f32, _factor: f32, _count: u32) {}

fn launches<L: Launcher>(launcher: &L, values: *mut f32) {
    let config = LaunchConfig::new(1, 32);
    unsafe {
        let _ = launcher.launch(&scale, config, (values, 2.0f64, 32u32));
        let _ = launcher.launch(&scale, config, (values, 2.0f32));
        let _ = launcher.launch(&scale, config, (values.cast_const(), 2.0f32, 32u32));
    }
    unsafe { scale(values, 2.0, 32) };
}

fn main() {}
