//! Launching.

use super::{
    kernels::LoadedKernel,
    status::{check, driver_error},
    versions,
};
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
        let launch = calls::launch_kernel_ex().map_err(|_| no_clusters(name))?;
        let attributes = [LaunchAttribute::cluster(cluster)];
        let config = with_attributes(config, stream, &attributes);
        // SAFETY: as above.
        unsafe { launch(&config, function, arguments, null_mut()) }
    };
    if status == calls::SUCCESS {
        return Ok(());
    }
    Err(Error::LaunchFailed { kernel: name, config, code: driver_error(status) })
}

/// How many clusters of this launch run at once. The context must be current.
pub(crate) fn resident_clusters(
    loaded: &LoadedKernel,
    name: &'static str,
    config: LaunchConfig,
) -> Result<u32> {
    let function = loaded.function(config.shared_bytes, config.cluster)?;
    let count = calls::occupancy_max_active_clusters().map_err(|_| no_clusters(name))?;
    let attributes = [LaunchAttribute::cluster(config.cluster)];
    let config = with_attributes(config, StreamHandle::DEFAULT, &attributes);
    let mut clusters = 0;
    // SAFETY: writes one number; a loaded function.
    check("cuOccupancyMaxActiveClusters", unsafe { count(&mut clusters, function, &config) })?;
    Ok(clusters as u32)
}

/// A launch as the driver describes it, for as long as the attributes live.
fn with_attributes(
    config: LaunchConfig,
    stream: StreamHandle,
    attributes: &[LaunchAttribute],
) -> calls::LaunchConfig {
    let LaunchConfig { grid, block, shared_bytes, .. } = config;
    calls::LaunchConfig {
        grid: [grid.x, grid.y, grid.z],
        block: [block.x, block.y, block.z],
        shared_bytes,
        stream: stream.0,
        attributes: attributes.as_ptr(),
        attribute_count: attributes.len() as u32,
    }
}

/// The driver is too old for clusters.
fn no_clusters(kernel: &'static str) -> Error {
    let needed = "a driver for CUDA 11.8 (version 520 or later), for clusters";
    versions::driver_too_old(kernel, needed.to_owned())
}
