//! Launching.

use super::{kernels::LoadedKernel, status::driver_error, versions};
use crate::{Error, Result, backend::StreamHandle};
use cuda_driver::calls::{self, LaunchAttribute};
use cuda_launch::LaunchConfig;
use std::{ffi::c_void, ptr::null_mut};

/// Enqueues a kernel. The context must be current. Nothing here waits or allocates.
///
/// # Safety
/// As [`Backend::launch`](crate::backend::Backend::launch).
#[inline]
pub(crate) unsafe fn launch(
    stream: StreamHandle,
    loaded: &LoadedKernel,
    name: &'static str,
    config: LaunchConfig,
    args: &[*const c_void],
) -> Result<()> {
    let LaunchConfig { grid, block, cluster, shared_bytes } = config;
    let function = loaded.function(shared_bytes, cluster)?;
    // The driver only reads through them.
    let arguments = args.as_ptr().cast_mut().cast::<*mut c_void>();
    let status = if cluster == 1 {
        // SAFETY: as many arguments, of the types, as the function takes: promised.
        unsafe {
            calls::cuLaunchKernel(
                function,
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                shared_bytes,
                stream.0,
                arguments,
                null_mut(),
            )
        }
    } else {
        let launch = calls::launch_kernel_ex().map_err(|_| {
            let needed = "a driver for CUDA 11.8 (version 520 or later), for clusters";
            versions::driver_too_old(name, needed.to_owned())
        })?;
        let attributes = [LaunchAttribute::cluster(cluster)];
        let config = calls::LaunchConfig {
            grid: [grid.x, grid.y, grid.z],
            block: [block.x, block.y, block.z],
            shared_bytes,
            stream: stream.0,
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len() as u32,
        };
        // SAFETY: as above.
        unsafe { launch(&config, function, arguments, null_mut()) }
    };
    if status == calls::SUCCESS {
        return Ok(());
    }
    Err(Error::LaunchFailed { kernel: name, config, code: driver_error(status) })
}
