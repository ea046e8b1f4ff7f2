//! A library in the driver's place that answers with what it was given.

#![crate_type = "cdylib"]

use std::ffi::c_void;

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: u32) -> u32 {
    flags + 1
}

#[unsafe(no_mangle)]
pub extern "C" fn cuParamSetf(function: *mut c_void, offset: i32, value: f32) -> u32 {
    (function as usize as f32 * value) as u32 + offset as u32
}

/// The digits of a number, in order.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
    stream: *mut c_void,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> u32 {
    assert!(extra.is_null());
    let (function, stream, arguments) =
        (function as usize as u32, stream as usize as u32, arguments as usize as u32);
    let digits = [
        function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments,
    ];
    digits.iter().fold(0, |number, digit| number * 10 + digit)
}
