//! Streams: queues of work on a device.

use crate::{
    Device, Result,
    backend::{KernelRef, StreamHandle},
    debug,
};
use cuda_launch::{Kernel, KernelArgs, LaunchConfig, Launcher};
use std::{ffi::c_void, sync::Arc};

/// A queue of work on a device, carried out in order. Cheap to clone.
///
/// On the emulator a launch runs to its end before it returns.
#[derive(Debug, Clone)]
pub struct Stream {
    device: Device,
    handle: StreamHandle,
    /// Destroys the stream after its last clone, if the library made it.
    _owner: Option<Arc<Owner>>,
}

#[derive(Debug)]
struct Owner {
    device: Device,
    handle: StreamHandle,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: made by `Stream::new`, and no clone is left.
        unsafe { self.device.backend().destroy_stream(self.handle) };
    }
}

impl Stream {
    /// A new stream that waits for the default stream's work, as the default stream does for its.
    ///
    /// # Errors
    /// The driver cannot make one.
    pub fn new(device: &Device) -> Result<Self> {
        Self::owned(device, true)
    }

    /// A new stream that nothing but its own order orders: what it does must be waited for before
    /// the host reads it or another stream uses it. Graphs are captured from such a stream: while
    /// one is captured from any other, CUDA forbids all use of the default stream.
    ///
    /// # Errors
    /// The driver cannot make one.
    pub fn non_blocking(device: &Device) -> Result<Self> {
        Self::owned(device, false)
    }

    fn owned(device: &Device, blocking: bool) -> Result<Self> {
        let handle = device.backend().create_stream(blocking)?;
        let owner = Arc::new(Owner { device: device.clone(), handle });
        Ok(Stream { device: device.clone(), handle, _owner: Some(owner) })
    }

    /// A stream that someone else made: a `CUstream` or `cudaStream_t` of the device's primary
    /// context, null for the default stream. The emulator ignores the handle.
    ///
    /// # Errors
    /// [`Error::ForeignStream`](crate::Error::ForeignStream) if it is of another context.
    ///
    /// # Safety
    /// The stream must exist until the last clone of this is dropped.
    pub unsafe fn from_raw(device: &Device, stream: *mut c_void) -> Result<Self> {
        let handle = StreamHandle(stream);
        // SAFETY: the stream exists.
        unsafe { device.backend().check_stream(handle) }?;
        Ok(Self::borrowed(device, handle))
    }

    pub(crate) fn borrowed(device: &Device, handle: StreamHandle) -> Self {
        Stream { device: device.clone(), handle, _owner: None }
    }

    /// The device that the stream is a queue of.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The `CUstream`; null for the default stream, and on the emulator.
    pub fn as_raw(&self) -> *mut c_void {
        self.handle.0
    }

    /// Waits until all that was enqueued is done.
    ///
    /// # Errors
    /// What went wrong in it.
    pub fn synchronize(&self) -> Result<()> {
        self.device.backend().synchronize(self.handle)
    }

    /// Whether a graph is being captured from the stream.
    ///
    /// # Errors
    /// The driver cannot say.
    pub fn is_capturing(&self) -> Result<bool> {
        self.device.backend().is_capturing(self.handle)
    }
}

impl Launcher for Stream {
    type Error = crate::Error;

    unsafe fn launch<Args: KernelArgs>(
        &self,
        kernel: &Kernel<Args>,
        config: LaunchConfig,
        args: Args,
    ) -> Result<()> {
        let kernel = KernelRef::from(kernel);
        args.with_pointers(|args| {
            debug::traced_launch(self, kernel, config, || {
                check_config(kernel, config, &self.device)?;
                if config.grid.count() == 0 {
                    return Ok(());
                }
                // SAFETY: promised by the caller; the pointers are to the kernel's arguments.
                unsafe { self.device.backend().launch(self.handle, kernel, config, args) }
            })
        })
    }
}

/// Refuses what no device can launch, with words of our own: the driver says "invalid value".
fn check_config(kernel: KernelRef, config: LaunchConfig, device: &Device) -> Result<()> {
    let LaunchConfig { grid, block, cluster, shared_bytes } = config;
    let threads = block.count();
    let reason = if threads == 0 || threads > kernel.bounds.threads as usize {
        format!("{threads} threads in a block, compiled for 1 to {}", kernel.bounds.threads)
    } else if grid.x > i32::MAX as u32 || grid.y > 65535 || grid.z > 65535 {
        "a grid has at most 2^31 - 1, 65535 and 65535 blocks".to_owned()
    } else if cluster == 0 || !grid.x.is_multiple_of(cluster) {
        "the cluster's size does not divide the grid's first dimension".to_owned()
    } else if shared_bytes > device.shared_bytes_per_block() {
        format!("a block has at most {} bytes of shared memory", device.shared_bytes_per_block())
    } else {
        return Ok(());
    };
    Err(crate::Error::InvalidLaunch { kernel: kernel.name, config, reason })
}
