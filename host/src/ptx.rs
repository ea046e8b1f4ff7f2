//! The prebuilt kernels in this library: `host/ptx/`, packed by `build.rs`.

use cuda_ptx::PtxLibrary;

/// Every entry of the crate `kernels`, by architecture and name.
pub(crate) static KERNELS: PtxLibrary =
    PtxLibrary::new(include_bytes!(concat!(env!("OUT_DIR"), "/ptx.archive")));
