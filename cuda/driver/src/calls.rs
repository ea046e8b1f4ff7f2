//! Calls of the driver that cust does not wrap, or whose result it cannot take.
//!
//! cust's bindings return a Rust enum, and a driver newer than them may return a number that is
//! none of its values. Here results are numbers. Names and signatures are the driver's; handles
//! are pointers, device addresses 64-bit numbers.

use crate::{DriverError, symbol};
use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    sync::OnceLock,
};

/// A `CUresult`: 0 is success.
pub type Status = i32;

/// `CUDA_SUCCESS`.
pub const SUCCESS: Status = 0;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: Status = 2;

/// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`: the driver is older than the PTX.
pub const UNSUPPORTED_PTX_VERSION: Status = 222;

/// `CUDA_ERROR_NOT_FOUND`: the driver has no such function.
pub const NOT_FOUND: Status = 500;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;

/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`.
pub const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: c_int = 14;

/// `CU_JIT_ERROR_LOG_BUFFER`.
pub const JIT_ERROR_LOG_BUFFER: c_int = 5;

/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
pub const JIT_ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;

/// `CU_STREAM_NON_BLOCKING`.
pub const STREAM_NON_BLOCKING: c_uint = 1;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub const CAPTURE_MODE_RELAXED: c_int = 2;

#[allow(missing_docs)]
unsafe extern "C" {
    pub fn cuInit(flags: c_uint) -> Status;
    pub fn cuDriverGetVersion(version: *mut c_int) -> Status;
    pub fn cuGetErrorName(error: Status, name: *mut *const c_char) -> Status;

    pub fn cuCtxGetCurrent(context: *mut *mut c_void) -> Status;
    pub fn cuCtxSetCurrent(context: *mut c_void) -> Status;
    pub fn cuCtxPushCurrent_v2(context: *mut c_void) -> Status;
    pub fn cuCtxPopCurrent_v2(context: *mut *mut c_void) -> Status;

    pub fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) -> Status;
    pub fn cuMemFree_v2(pointer: u64) -> Status;
    pub fn cuMemcpyHtoDAsync_v2(
        to: u64,
        from: *const c_void,
        bytes: usize,
        stream: *mut c_void,
    ) -> Status;
    pub fn cuMemcpyDtoHAsync_v2(
        to: *mut c_void,
        from: u64,
        bytes: usize,
        stream: *mut c_void,
    ) -> Status;
    pub fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: *mut c_void) -> Status;

    pub fn cuStreamCreate(stream: *mut *mut c_void, flags: c_uint) -> Status;
    pub fn cuStreamDestroy_v2(stream: *mut c_void) -> Status;
    pub fn cuStreamSynchronize(stream: *mut c_void) -> Status;
    pub fn cuStreamGetCtx(stream: *mut c_void, context: *mut *mut c_void) -> Status;
    pub fn cuStreamIsCapturing(stream: *mut c_void, status: *mut c_int) -> Status;
    pub fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) -> Status;

    pub fn cuModuleLoadDataEx(
        module: *mut *mut c_void,
        image: *const c_void,
        options: c_uint,
        names: *mut c_int,
        values: *mut *mut c_void,
    ) -> Status;
    pub fn cuModuleGetFunction(
        function: *mut *mut c_void,
        module: *mut c_void,
        name: *const c_char,
    ) -> Status;
    pub fn cuFuncSetAttribute(function: *mut c_void, attribute: c_int, value: c_int) -> Status;
    pub fn cuLaunchKernel(
        function: *mut c_void,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: *mut c_void,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Status;
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Debug)]
pub struct LaunchConfig {
    /// Blocks, along x, y and z.
    pub grid: [c_uint; 3],
    /// Threads of a block, along x, y and z.
    pub block: [c_uint; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: c_uint,
    /// The stream.
    pub stream: *mut c_void,
    /// What else is asked for.
    pub attributes: *const LaunchAttribute,
    /// How many attributes there are.
    pub attribute_count: c_uint,
}

/// `CUlaunchAttribute`: a number that says what it is, and a union of 64 bytes.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub struct LaunchAttribute {
    id: c_uint,
    padding: u32,
    value: [u32; 16],
}

impl LaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`: clusters of `blocks` neighbours along x.
    pub const fn cluster(blocks: u32) -> Self {
        let mut value = [0; 16];
        (value[0], value[1], value[2]) = (blocks, 1, 1);
        LaunchAttribute { id: 4, padding: 0, value }
    }
}

const _: () = assert!(size_of::<LaunchConfig>() == 56 && size_of::<LaunchAttribute>() == 72);

/// The type of `cuLaunchKernelEx`: configuration, function, arguments, extra.
pub type LaunchKernelEx = unsafe extern "C" fn(
    *const LaunchConfig,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> Status;

/// The type of `cuOccupancyMaxActiveClusters`: the number, function, configuration.
pub type OccupancyMaxActiveClusters =
    unsafe extern "C" fn(*mut c_int, *mut c_void, *const LaunchConfig) -> Status;

/// `cuLaunchKernelEx`, which drivers have since CUDA 11.8.
///
/// # Errors
/// There is no driver, or it is older.
pub fn launch_kernel_ex() -> Result<LaunchKernelEx, DriverError> {
    static FUNCTION: OnceLock<Result<LaunchKernelEx, DriverError>> = OnceLock::new();
    let look_up = || {
        let address = symbol(c"cuLaunchKernelEx")?;
        // SAFETY: the driver's function of this name has this signature.
        Ok(unsafe { std::mem::transmute::<*mut c_void, LaunchKernelEx>(address.as_ptr()) })
    };
    FUNCTION.get_or_init(look_up).clone()
}

/// `cuOccupancyMaxActiveClusters`, which drivers have since CUDA 11.8.
///
/// # Errors
/// There is no driver, or it is older.
pub fn occupancy_max_active_clusters() -> Result<OccupancyMaxActiveClusters, DriverError> {
    let address = symbol(c"cuOccupancyMaxActiveClusters")?;
    // SAFETY: the driver's function of this name has this signature.
    Ok(unsafe { std::mem::transmute::<*mut c_void, OccupancyMaxActiveClusters>(address.as_ptr()) })
}
