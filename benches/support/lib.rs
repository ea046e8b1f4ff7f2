//! What the benchmarks share: timing by CUDA events, a yardstick, and records.
//!
//! A GPU's speed drifts with its clocks and heat, so absolute figures mean little: every
//! measurement stands beside a device-to-device copy of the same bytes, taken in turn with it.

pub mod record;

use cust::{
    context::Context,
    device::Device as CudaDevice,
    sys::{
        CUdeviceptr, CUevent, CUstream, cuEventCreate, cuEventDestroy_v2, cuEventElapsedTime,
        cuEventRecord, cuEventSynchronize, cuMemcpyDtoDAsync_v2, cudaError_enum,
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
        let stream: CUstream = self.stream.as_raw().cast();
        let mut milliseconds = 0f32;
        // SAFETY: the events and the stream are of the current context.
        unsafe {
            check(cuEventRecord(self.start, stream));
            enqueue();
            check(cuEventRecord(self.end, stream));
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
        let (to, from): (CUdeviceptr, CUdeviceptr) = (to, from);
        // SAFETY: the caller's promise.
        unsafe { check(cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream.as_raw().cast())) };
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

#[track_caller]
fn check(status: cudaError_enum) {
    assert_eq!(status, cudaError_enum::CUDA_SUCCESS);
}

/// The median; of an even number of values the upper one in the middle.
///
/// # Panics
/// There are no values, or one is NaN.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    sorted[sorted.len() / 2]
}

/// Normal numbers with mean 0 and deviation 1: 2^20 different ones, repeated.
pub fn normal<T: fused_attention::Element>(count: usize) -> Vec<T> {
    let mut state = 1u64;
    let mut uniform = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 * 2f64.powi(-53)
    };
    // Box and Muller. The odd length keeps rows from repeating.
    let distinct: Vec<T> = (0..(1 << 20) + 7)
        .map(|_| {
            let radius = (-2.0 * (1.0 - uniform()).ln()).sqrt();
            T::from_f64(radius * (std::f64::consts::TAU * uniform()).cos())
        })
        .collect();
    distinct.iter().copied().cycle().take(count).collect()
}
