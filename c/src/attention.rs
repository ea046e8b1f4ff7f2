//! Attention.

use crate::{
    abi::{fa_attention_forward_tensors, fa_attention_options, fa_device},
    guard::guard,
    plan::plan,
    read::reference,
    read_attention as read,
    status::fa_status,
};
use fused_attention::Stream;
use std::ffi::{c_char, c_void};

/// Enqueues attention's forward on `stream`: a CUstream or cudaStream_t of the device's primary
/// context, null for the default stream. Allocates no device memory, does not wait, and can be
/// captured in a CUDA graph once the call has been planned.
///
/// # Safety
/// Pointers are null or valid; the tensors are memory of the device, valid until the work is done
/// and not written by other work meanwhile; offsets of sequences ascend within the tensors' rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_attention_forward(
    device: *const fa_device,
    options: *const fa_attention_options,
    tensors: *const fa_attention_forward_tensors,
    stream: *mut c_void,
) -> fa_status {
    // SAFETY: promised.
    guard(|| unsafe {
        let fa_device(device) = reference("device", device)?;
        let (attention, tensors) = (read::options(options)?, read::forward(tensors)?);
        let stream = Stream::from_raw(device, stream)?;
        Ok(attention.forward_raw(&stream, &tensors)?)
    })
}

/// As `fa_softmax_forward_plan`, for attention's forward.
///
/// # Safety
/// As for `fa_softmax_forward_plan`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_attention_forward_plan(
    device: *const fa_device,
    options: *const fa_attention_options,
    tensors: *const fa_attention_forward_tensors,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> fa_status {
    // SAFETY: promised.
    guard(|| unsafe {
        let fa_device(device) = reference("device", device)?;
        let (attention, tensors) = (read::options(options)?, read::forward(tensors)?);
        let explanation = attention.explain_raw(&device.default_stream(), &tensors)?;
        plan(device, &explanation, text, capacity, length)
    })
}

/// Writes to `bytes` how much device memory attention's forward needs beside its tensors: none, of
/// the kernels there are.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_attention_forward_workspace(
    device: *const fa_device,
    options: *const fa_attention_options,
    tensors: *const fa_attention_forward_tensors,
    bytes: *mut usize,
) -> fa_status {
    // SAFETY: promised.
    guard(|| unsafe {
        let fa_device(device) = reference("device", device)?;
        let (attention, tensors) = (read::options(options)?, read::forward(tensors)?);
        crate::read::not_null("bytes", bytes)?;
        bytes.write(attention.workspace_bytes_raw(&device.default_stream(), &tensors)?);
        Ok(())
    })
}
