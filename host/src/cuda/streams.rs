//! Streams, and captures of graphs from them.

use super::{context::PrimaryContext, status::check};
use crate::{Result, backend::StreamHandle};
use cuda_driver::calls;
use std::ptr::null_mut;

pub(crate) fn create(context: &PrimaryContext, blocking: bool) -> Result<StreamHandle> {
    let _current = context.enter()?;
    let _relaxed = RelaxedCapture::begin();
    let flags = if blocking { 0 } else { calls::STREAM_NON_BLOCKING };
    let mut stream = null_mut();
    // SAFETY: writes one handle.
    check("cuStreamCreate", unsafe { calls::cuStreamCreate(&mut stream, flags) })?;
    Ok(StreamHandle(stream))
}

/// # Safety
/// The stream must be from [`create`], and not used again.
pub(crate) unsafe fn destroy(context: &PrimaryContext, stream: StreamHandle) {
    if let Ok(_current) = context.enter() {
        let _relaxed = RelaxedCapture::begin();
        // SAFETY: promised. What is enqueued still runs; where this fails, the context is broken.
        unsafe { calls::cuStreamDestroy_v2(stream.0) };
    }
}

/// Whether the stream is of this context.
///
/// # Safety
/// The stream must exist.
pub(crate) unsafe fn is_of(context: &PrimaryContext, stream: StreamHandle) -> Result<bool> {
    if stream == StreamHandle::DEFAULT {
        return Ok(true);
    }
    let _current = context.enter()?;
    let mut owner = null_mut();
    // SAFETY: the stream exists; writes one handle.
    check("cuStreamGetCtx", unsafe { calls::cuStreamGetCtx(stream.0, &mut owner) })?;
    Ok(owner == context.as_raw())
}

pub(crate) fn synchronize(context: &PrimaryContext, stream: StreamHandle) -> Result<()> {
    let _current = context.enter()?;
    let _relaxed = RelaxedCapture::begin();
    // SAFETY: a stream of this context.
    check("cuStreamSynchronize", unsafe { calls::cuStreamSynchronize(stream.0) })
}

pub(crate) fn is_capturing(context: &PrimaryContext, stream: StreamHandle) -> Result<bool> {
    // The driver refuses to look at the default stream while another one is being captured.
    if stream == StreamHandle::DEFAULT {
        return Ok(false);
    }
    let _current = context.enter()?;
    let mut status = 0;
    // SAFETY: a stream of this context; writes one number.
    check("cuStreamIsCapturing", unsafe { calls::cuStreamIsCapturing(stream.0, &mut status) })?;
    Ok(status != 0)
}

/// Lets this thread allocate, copy, load and wait while a graph is captured, here or in another
/// thread. CUDA forbids what might depend on the capture; nothing here does.
#[must_use]
pub(crate) struct RelaxedCapture {
    before: i32,
}

impl RelaxedCapture {
    pub fn begin() -> Self {
        RelaxedCapture { before: exchange(calls::CAPTURE_MODE_RELAXED) }
    }
}

impl Drop for RelaxedCapture {
    fn drop(&mut self) {
        exchange(self.before);
    }
}

fn exchange(mut mode: i32) -> i32 {
    // SAFETY: exchanges one number. With a valid mode this does not fail.
    unsafe { calls::cuThreadExchangeStreamCaptureMode(&mut mode) };
    mode
}
