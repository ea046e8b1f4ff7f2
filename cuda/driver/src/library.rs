//! The driver's library.

use libloading::Library;
use std::{
    ffi::{CStr, c_void},
    ptr::NonNull,
    sync::OnceLock,
};

/// Why a function of the driver is not to be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The driver's library is not there, or cannot be loaded.
    #[error("cannot load libcuda.so.1: {reason}")]
    NotLoaded {
        /// What the dynamic loader said.
        reason: String,
    },
    /// The driver is older than the function.
    #[error("the CUDA driver has no function {name}")]
    NoFunction {
        /// The function.
        name: String,
    },
}

/// Loads the driver, if that has not been tried before.
///
/// # Errors
/// There is none. It stays so for the life of the process.
pub fn load() -> Result<(), DriverError> {
    library().map(drop)
}

/// The address of a function of the driver, by the name its library has for it: for functions
/// that cust does not know.
///
/// # Errors
/// There is no driver, or it has no such function.
pub fn symbol(name: &CStr) -> Result<NonNull<c_void>, DriverError> {
    let library = library()?;
    // SAFETY: only the address is used; whoever calls it gives it a type.
    let found = unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) };
    let address = found.ok().and_then(|address| NonNull::new(*address));
    address.ok_or_else(|| DriverError::NoFunction { name: name.to_string_lossy().into_owned() })
}

fn library() -> Result<&'static Library, DriverError> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    // SAFETY: loading the driver runs its initialisers, as linking against it would.
    let load = || unsafe { Library::new("libcuda.so.1") }.map_err(|error| error.to_string());
    let library = LIBRARY.get_or_init(load).as_ref();
    library.map_err(|reason| DriverError::NotLoaded { reason: reason.clone() })
}
