//! Functions that cannot be entries.

use cuda_std::kernel;

#[kernel(launch_bounds(32, 1))]
fn safe(_to: *mut f32) {}

#[kernel(launch_bounds(32, 1))]
unsafe fn generic<T>(_to: *mut T) {}

#[kernel(launch_bounds(32, 1))]
unsafe fn const_generic<const N: usize>(_to: *mut [f32; N]) {}

#[kernel(launch_bounds(32, 1))]
unsafe fn returns(_from: *const f32) -> f32 {
    0.0
}

#[kernel(launch_bounds(32, 1))]
async unsafe fn asynchronous() {}

#[kernel(launch_bounds(32, 1))]
unsafe extern "C" fn foreign() {}

#[kernel(launch_bounds(32, 1))]
#[rustfmt::skip]
unsafe fn thirteen(
    _a: u8, _b: u8, _c: u8, _d: u8, _e: u8, _f: u8, _g: u8, _h: u8, _i: u8, _j: u8, _k: u8,
    _l: u8, _m: u8,
) {}

struct Model;

impl Model {
    #[kernel(launch_bounds(32, 1))]
    unsafe fn method(&self) {}
}

#[kernel(launch_bounds(32, 1))]
struct NotAFunction;

fn main() {}
