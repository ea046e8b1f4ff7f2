//! Memory of a GPU.

use super::{
    context::PrimaryContext,
    status::check,
    streams::{self, RelaxedCapture},
};
use crate::{
    Error, Result,
    backend::{Allocation, StreamHandle},
};
use cuda_driver::calls;
use std::{ptr::null_mut, sync::Arc};

/// Memory from `cuMemAlloc`, which aligns to 256 bytes.
#[derive(Debug)]
struct DeviceMemory {
    pointer: u64,
    context: Arc<PrimaryContext>,
}

impl Allocation for DeviceMemory {
    fn pointer(&self) -> u64 {
        self.pointer
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // Where this fails the context is broken, and its memory gone with it.
        let Ok(_current) = self.context.enter() else { return };
        let _relaxed = RelaxedCapture::begin();
        // SAFETY: allocated below. The driver waits for kernels that use the memory.
        unsafe { calls::cuMemFree_v2(self.pointer) };
    }
}

/// Uninitialised memory; the driver has none of size 0.
pub(crate) fn allocate(context: &Arc<PrimaryContext>, bytes: usize) -> Result<Box<dyn Allocation>> {
    let _current = context.enter()?;
    let _relaxed = RelaxedCapture::begin();
    let mut pointer = 0;
    // SAFETY: writes one address.
    match unsafe { calls::cuMemAlloc_v2(&mut pointer, bytes.max(1)) } {
        calls::OUT_OF_MEMORY => Err(Error::OutOfMemory { device: context.to_string(), bytes }),
        status => {
            check("cuMemAlloc", status)?;
            Ok(Box::new(DeviceMemory { pointer, context: context.clone() }))
        }
    }
}

/// # Safety
/// As [`Backend::copy_from_host`](crate::backend::Backend::copy_from_host).
pub(crate) unsafe fn copy_from_host(
    context: &PrimaryContext,
    to: u64,
    from: *const u8,
    bytes: usize,
) -> Result<()> {
    in_default_stream(context, "cuMemcpyHtoDAsync", || {
        // SAFETY: promised by the caller.
        unsafe { calls::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, null_mut()) }
    })
}

/// # Safety
/// As [`Backend::copy_to_host`](crate::backend::Backend::copy_to_host).
pub(crate) unsafe fn copy_to_host(
    context: &PrimaryContext,
    to: *mut u8,
    from: u64,
    bytes: usize,
) -> Result<()> {
    in_default_stream(context, "cuMemcpyDtoHAsync", || {
        // SAFETY: promised by the caller.
        unsafe { calls::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, null_mut()) }
    })
}

/// # Safety
/// As [`Backend::fill`](crate::backend::Backend::fill).
pub(crate) unsafe fn fill(
    context: &PrimaryContext,
    to: u64,
    value: u8,
    bytes: usize,
) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    in_default_stream(context, "cuMemsetD8Async", || {
        // SAFETY: promised by the caller.
        unsafe { calls::cuMemsetD8Async(to, value, bytes, null_mut()) }
    })
}

/// Enqueues in the default stream and waits for it: the driver's synchronous copies return before
/// the device has the bytes, which streams that do not synchronise with the default one would see.
fn in_default_stream(
    context: &PrimaryContext,
    call: &'static str,
    enqueue: impl FnOnce() -> calls::Status,
) -> Result<()> {
    let _current = context.enter()?;
    let _relaxed = RelaxedCapture::begin();
    check(call, enqueue())?;
    streams::synchronize(context, StreamHandle::DEFAULT)
}
