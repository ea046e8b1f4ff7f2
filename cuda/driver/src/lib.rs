//! The CUDA driver, loaded when it is first called.
//!
//! cust is written as if the driver were linked. This crate defines the functions that cust's
//! bindings declare, each a jump to the function of the same name in `libcuda.so.1`. So a program
//! links without CUDA, and runs with or without a driver. The first call of any function loads the
//! library; where there is none, every function returns `CUDA_ERROR_STUB_LIBRARY` (34), and where
//! the driver is too old to have a function, that one returns `CUDA_ERROR_NOT_FOUND` (500).
//!
//! The definitions are hidden: a shared library that contains this crate exports none of them,
//! and whatever else its process has loaded keeps calling the driver itself.
//!
//! ```
//! match cuda_driver::symbol(c"cuDriverGetVersion") {
//!     Ok(address) => println!("the driver has it, at {address:?}"),
//!     Err(error) => println!("{error}"),
//! }
//! ```

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!(
    "GPUs are supported on Linux, on x86-64 and aarch64: elsewhere build fused-attention with \
     `default-features = false`"
);

pub mod calls;
mod functions;
mod library;
pub mod tensor_map;
mod trampolines;

pub use library::{DriverError, load, symbol};
