//! A GPU under measurement.

use cust::{
    context::Context,
    device::Device as CudaDevice,
    sys::{
        CUevent, CUstream, cuEventCreate, cuEventDestroy_v2, cuEventElapsedTime, cuEventRecord,
        cuEventSynchronize, cuMemGetInfo_v2, cuMemcpyDtoDAsync_v2, cudaError_enum,
    },
};
use fused_attention::{Device, Stream};
use std::{ptr::null_mut, time::Duration};

/// A GPU under measurement.
pub struct Gpu {
    /// The library's handle.
    pub device: Device,
    /// The stream that everything runs on.
    pub stream: Stream,
    start: CUevent,
    end: CUevent,
    // Keeps the primary context current on this thread, for the events.
    _context: Context,
}

impl Gpu {
    /// The first GPU; None, with a message, if there is none.
    pub fn open() -> Option<Self> {
        let device = match Device::cuda(0) {
            Ok(device) => device,
            Err(error) => {
                eprintln!("nothing to measure: {error}");
                return None;
            }
        };
        let context = CudaDevice::get_device(0).and_then(Context::new).expect("a primary context");
        let stream = device.default_stream();
        let (mut start, mut end): (CUevent, CUevent) = (null_mut(), null_mut());
        // SAFETY: a context is current; the pointers are to handles to be set.
        unsafe {
            check(cuEventCreate(&mut start, 0));
            check(cuEventCreate(&mut end, 0));
        }
        Some(Gpu { device, stream, start, end, _context: context })
    }

    /// The time that the GPU spends on what `enqueue` puts on the stream.
    pub fn time(&self, mut enqueue: impl FnMut()) -> Duration {
        self.begin();
        enqueue();
        self.end()
    }

    /// Begins a time on the stream.
    pub(crate) fn begin(&self) {
        // SAFETY: the event and the stream are of the current context.
        unsafe { check(cuEventRecord(self.start, self.raw_stream())) };
    }

    /// Waits for what was enqueued since [`Gpu::begin`], and gives the time it took.
    pub(crate) fn end(&self) -> Duration {
        let mut milliseconds = 0f32;
        // SAFETY: the events and the stream are of the current context.
        unsafe {
            check(cuEventRecord(self.end, self.raw_stream()));
            check(cuEventSynchronize(self.end));
            check(cuEventElapsedTime(&mut milliseconds, self.start, self.end));
        }
        Duration::from_secs_f64(f64::from(milliseconds) / 1e3)
    }

    /// Enqueues a copy between two ranges of device memory.
    ///
    /// # Safety
    /// The ranges must be valid and must not overlap.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { copy(&self.stream, to, from, bytes) };
    }

    /// Bytes of the GPU's memory that nobody uses.
    pub fn free_bytes(&self) -> usize {
        let (mut free, mut total) = (0, 0);
        // SAFETY: a context is current; the pointers are to numbers to be set.
        unsafe { check(cuMemGetInfo_v2(&mut free, &mut total)) };
        free
    }

    fn raw_stream(&self) -> CUstream {
        self.stream.as_raw().cast()
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: made by `open`, in the context that is still current.
        unsafe {
            check(cuEventDestroy_v2(self.start));
            check(cuEventDestroy_v2(self.end));
        }
    }
}

/// Enqueues a copy between two ranges of device memory on a stream of the current context.
///
/// # Safety
/// The ranges must be valid and must not overlap.
pub(crate) unsafe fn copy(stream: &Stream, to: u64, from: u64, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { check(cuMemcpyDtoDAsync_v2(to, from, bytes, stream.as_raw().cast())) };
}

#[track_caller]
fn check(status: cudaError_enum) {
    assert_eq!(status, cudaError_enum::CUDA_SUCCESS);
}
