//! The primary context, made current for each call and put back after it.

use super::status::{check, from_cust};
use crate::{Result, device::DeviceKind};
use cuda_driver::calls;
use cust::{context::Context, device::Device};
use std::{ffi::c_void, fmt, marker::PhantomData, ptr::null_mut};

/// The context of a device that all of a process shares.
#[derive(Debug)]
pub(crate) struct PrimaryContext {
    ordinal: u32,
    context: Context,
}

/// The context is current on this thread until this is dropped.
#[must_use]
pub(crate) struct Current {
    pushed: bool,
    /// A context is current on one thread.
    _thread: PhantomData<*mut ()>,
}

impl PrimaryContext {
    pub fn retain(ordinal: u32, device: Device) -> Result<Self> {
        let before = current()?;
        // Makes the context current, which nobody asked for.
        let context = Context::new(device).map_err(from_cust("cuDevicePrimaryCtxRetain"))?;
        // SAFETY: what was current before, or nothing.
        check("cuCtxSetCurrent", unsafe { calls::cuCtxSetCurrent(before) })?;
        Ok(PrimaryContext { ordinal, context })
    }

    pub fn as_raw(&self) -> *mut c_void {
        self.context.as_raw().cast()
    }

    /// Makes the context current on this thread. If it is already, as in a program that uses
    /// nothing but primary contexts, that costs one look.
    #[inline]
    pub fn enter(&self) -> Result<Current> {
        let pushed = current()? != self.as_raw();
        if pushed {
            // SAFETY: the context lives as long as the process.
            check("cuCtxPushCurrent", unsafe { calls::cuCtxPushCurrent_v2(self.as_raw()) })?;
        }
        Ok(Current { pushed, _thread: PhantomData })
    }
}

impl fmt::Display for PrimaryContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DeviceKind::Cuda { ordinal: self.ordinal }.fmt(f)
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = null_mut();
            // SAFETY: pops what `enter` pushed on this thread. That cannot fail in a way that
            // could be mended here.
            unsafe { calls::cuCtxPopCurrent_v2(&mut popped) };
        }
    }
}

/// The context that is current on this thread; null if none is.
fn current() -> Result<*mut c_void> {
    let mut current = null_mut();
    // SAFETY: writes one handle.
    check("cuCtxGetCurrent", unsafe { calls::cuCtxGetCurrent(&mut current) })?;
    Ok(current)
}
