//! Scaled masked softmax.

use crate::{
    abi::{fa_device, fa_softmax_backward_tensors, fa_softmax_forward_tensors, fa_softmax_options},
    guard::guard,
    plan::plan,
    read::{self, reference},
    status::fa_status,
};
use fused_attention::Stream;
use std::ffi::{c_char, c_void};

/// Enqueues the forward on `stream`: a CUstream or cudaStream_t of the device's primary context,
/// null for the default stream. Allocates no device memory, does not wait, and can be captured in
/// a CUDA graph once the call has been planned.
///
/// # Safety
/// Pointers are null or valid; the tensors are memory of the device, valid until the work is done
/// and not written by other work meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_softmax_forward(
    device: *const fa_device,
    options: *const fa_softmax_options,
    tensors: *const fa_softmax_forward_tensors,
    stream: *mut c_void,
) -> fa_status {
    // SAFETY: promised.
    guard(|| unsafe {
        let fa_device(device) = reference("device", device)?;
        let (softmax, tensors) = (read::options(options)?, read::forward(tensors)?);
        let stream = Stream::from_raw(device, stream)?;
        Ok(softmax.forward_raw(&stream, &tensors)?)
    })
}

/// Checks a forward call, chooses its kernel, and loads it, ahead of the call: before a graph is
/// captured, or to keep the driver's compiler out of a measurement. Of the tensors only types,
/// shapes, strides and the low bits of the pointers count.
///
/// Writes which kernel that is, and why: at most `capacity` bytes with a NUL to `text` unless that
/// is null, and the whole length without it to `length` unless that is.
///
/// # Safety
/// Pointers are null or valid; `text` has room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_softmax_forward_plan(
    device: *const fa_device,
    options: *const fa_softmax_options,
    tensors: *const fa_softmax_forward_tensors,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> fa_status {
    // SAFETY: promised.
    guard(|| unsafe {
        let fa_device(device) = reference("device", device)?;
        let (softmax, tensors) = (read::options(options)?, read::forward(tensors)?);
        let explanation = softmax.explain_raw(&device.default_stream(), &tensors)?;
        plan(device, &explanation, text, capacity, length)
    })
}

/// Enqueues the backward on `stream`: the gradient of x from that of the probabilities. All else is
/// as for `fa_softmax_forward`.
///
/// # Safety
/// As for `fa_softmax_forward`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_softmax_backward(
    device: *const fa_device,
    options: *const fa_softmax_options,
    tensors: *const fa_softmax_backward_tensors,
    stream: *mut c_void,
) -> fa_status {
    // SAFETY: promised.
    guard(|| unsafe {
        let fa_device(device) = reference("device", device)?;
        let (softmax, tensors) = (read::options(options)?, read::backward(tensors)?);
        let stream = Stream::from_raw(device, stream)?;
        Ok(softmax.backward_raw(&stream, &tensors)?)
    })
}

/// As `fa_softmax_forward_plan`, for the backward.
///
/// # Safety
/// As for `fa_softmax_forward_plan`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_softmax_backward_plan(
    device: *const fa_device,
    options: *const fa_softmax_options,
    tensors: *const fa_softmax_backward_tensors,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> fa_status {
    // SAFETY: promised.
    guard(|| unsafe {
        let fa_device(device) = reference("device", device)?;
        let (softmax, tensors) = (read::options(options)?, read::backward(tensors)?);
        let explanation = softmax.explain_backward_raw(&device.default_stream(), &tensors)?;
        plan(device, &explanation, text, capacity, length)
    })
}
