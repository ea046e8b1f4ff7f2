//! The driver's results as errors.

use crate::{DriverError, Error, Result};
use cuda_driver::{
    calls::{self, Status},
    tensor_map::TensorMapError,
};
use cust::error::CudaError;
use std::{ffi::CStr, ptr::null};

/// Fails if a driver call did.
pub(crate) fn check(call: &'static str, status: Status) -> Result<()> {
    match status {
        calls::SUCCESS => Ok(()),
        status => Err(Error::Driver { call, code: driver_error(status) }),
    }
}

/// An error that cust reports, of this driver call.
pub(crate) fn from_cust(call: &'static str) -> impl Fn(CudaError) -> Error {
    move |error| Error::Driver { call, code: driver_error(error as Status) }
}

/// An error in making a tensor map.
pub(crate) fn from_tensor_map(error: TensorMapError) -> Error {
    let status = match error {
        TensorMapError::Tiling(error) => return Error::Tiling(error),
        TensorMapError::Driver(_) => calls::NOT_FOUND,
        TensorMapError::Refused { status } => status,
    };
    Error::Driver { call: "cuTensorMapEncodeTiled", code: driver_error(status) }
}

/// A result with the name the driver has for it.
#[cold]
pub(crate) fn driver_error(code: Status) -> DriverError {
    let mut name = null();
    // SAFETY: sets the pointer to a string that lives as long as the driver, or leaves it.
    let status = unsafe { calls::cuGetErrorName(code, &mut name) };
    let name = if status == calls::SUCCESS && !name.is_null() {
        // SAFETY: as above.
        unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("CUDA error")
    } else {
        "CUDA error"
    };
    DriverError { code, name }
}
