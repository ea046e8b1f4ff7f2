//! Bad launch bounds.

use cuda_std::kernel;

#[kernel]
unsafe fn none() {}

#[kernel(threads = 32)]
unsafe fn another_word() {}

#[kernel(launch_bounds(32))]
unsafe fn one_number() {}

#[kernel(launch_bounds(0, 1))]
unsafe fn no_threads() {}

#[kernel(launch_bounds(1025, 1))]
unsafe fn too_many_threads() {}

#[kernel(launch_bounds(32, 0))]
unsafe fn no_blocks() {}

#[kernel(launch_bounds(THREADS, 1))]
unsafe fn not_a_literal() {}

#[kernel(launch_bounds(32, 1), arch = "sm_91")]
unsafe fn unknown_arch() {}

#[kernel(launch_bounds(32, 1), "sm_90")]
unsafe fn nameless_arch() {}

fn main() {}
