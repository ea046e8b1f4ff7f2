//! Devices.

use crate::{
    abi::fa_device,
    guard::guard,
    read::{not_null, reference},
    status::{Failure, fa_status},
    text,
};
use fused_attention::Device;
use std::{
    ffi::c_char,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Opens the GPU of this number, of the CUDA driver's numbering, by its primary context, which
/// CUDA's runtime uses too.
///
/// # Safety
/// `device` is null (an error) or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_device_create_cuda(
    ordinal: u32,
    device: *mut *mut fa_device,
) -> fa_status {
    // SAFETY: promised.
    guard(|| unsafe { create(device, || Ok(Device::cuda(ordinal)?)) })
}

/// Opens the emulator, which runs kernels on the CPU before a call returns; tensors are in memory
/// of `fa_emulator_allocate`. Only in a library that is built with it.
///
/// # Safety
/// `device` is null (an error) or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_device_create_emulator(device: *mut *mut fa_device) -> fa_status {
    // SAFETY: promised.
    guard(|| unsafe { create(device, emulator) })
}

#[cfg(feature = "emulator")]
fn emulator() -> Result<Device, Failure> {
    Ok(Device::emulator())
}

#[cfg(not(feature = "emulator"))]
fn emulator() -> Result<Device, Failure> {
    Err(fused_attention::Error::FeatureDisabled { feature: "emulator" }.into())
}

/// # Safety
/// `device` is null or may be written.
unsafe fn create(
    device: *mut *mut fa_device,
    open: impl FnOnce() -> Result<Device, Failure>,
) -> Result<(), Failure> {
    not_null("device", device)?;
    let handle = Box::into_raw(Box::new(fa_device(open()?)));
    // SAFETY: promised.
    unsafe { device.write(handle) };
    Ok(())
}

/// Gives a handle back; null is nothing to do. Work that is enqueued goes on, and loaded kernels
/// stay for the next handle.
///
/// # Safety
/// `device` is null or a handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_device_destroy(device: *mut fa_device) {
    if !device.is_null() {
        // SAFETY: promised: made by `create`.
        let handle = unsafe { Box::from_raw(device) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
    }
}

/// Writes which device this is, such as "cuda:0 (NVIDIA H200)": at most `capacity` bytes with a
/// NUL to `text` unless that is null, and the whole length without it to `length` unless that is.
///
/// # Safety
/// `device` is null (an error) or a handle; `text` has room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_device_describe(
    device: *const fa_device,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> fa_status {
    guard(|| {
        // SAFETY: promised.
        let fa_device(device) = unsafe { reference("device", device) }?;
        // SAFETY: promised.
        unsafe { text::write(&device.to_string(), text, capacity, length) };
        Ok(())
    })
}
