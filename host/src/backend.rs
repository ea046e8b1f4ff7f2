//! What a device must be able to do, whether it is a GPU or the emulator.

use crate::{PtxLibrary, Result, device::DeviceKind};
#[cfg(feature = "emulator")]
use cuda_launch::Entry;
use cuda_launch::{Kernel, LaunchBounds, LaunchConfig, TensorMap, TensorTiling};
use std::{ffi::c_void, fmt};

/// A stream's handle; null is the device's default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamHandle(pub *mut c_void);

impl StreamHandle {
    pub const DEFAULT: StreamHandle = StreamHandle(std::ptr::null_mut());
}

// SAFETY: a handle is a name; the driver's functions take it from any thread.
unsafe impl Send for StreamHandle {}
// SAFETY: as above.
unsafe impl Sync for StreamHandle {}

/// A kernel without the type of its arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelRef {
    pub name: &'static str,
    pub bounds: LaunchBounds,
    /// A GPU finds the kernel by its name; the emulator runs this.
    #[cfg(feature = "emulator")]
    pub entry: Entry,
    #[cfg(feature = "emulator")]
    pub arch: &'static str,
}

impl<Args> From<&Kernel<Args>> for KernelRef {
    fn from(kernel: &Kernel<Args>) -> Self {
        KernelRef {
            name: kernel.name(),
            bounds: kernel.bounds(),
            #[cfg(feature = "emulator")]
            entry: kernel.entry(),
            #[cfg(feature = "emulator")]
            arch: kernel.arch(),
        }
    }
}

/// Memory of a device, freed when dropped.
pub(crate) trait Allocation: fmt::Debug + Send + Sync {
    /// The address of the first byte, aligned for every element type.
    fn pointer(&self) -> u64;
}

/// A device's operations. Addresses are the device's.
pub(crate) trait Backend: fmt::Debug + Send + Sync {
    fn kind(&self) -> DeviceKind;

    fn name(&self) -> &str;

    fn compute_capability(&self) -> (u32, u32);

    fn multiprocessors(&self) -> u32;

    /// The most dynamic shared memory a block can ask for, in bytes.
    fn shared_bytes_per_block(&self) -> u32;

    /// At least one byte of uninitialised memory; poisoned where that is cheap.
    fn allocate(&self, bytes: usize) -> Result<Box<dyn Allocation>>;

    /// Copies, and returns once the device has the bytes.
    ///
    /// # Safety
    /// Both ranges must be valid, and nothing may use the device's meanwhile.
    unsafe fn copy_from_host(&self, to: u64, from: *const u8, bytes: usize) -> Result<()>;

    /// Copies after all that the default stream holds, and returns once the host has the bytes.
    ///
    /// # Safety
    /// Both ranges must be valid, and nothing may write the device's meanwhile.
    unsafe fn copy_to_host(&self, to: *mut u8, from: u64, bytes: usize) -> Result<()>;

    /// Sets bytes, and returns once they are set.
    ///
    /// # Safety
    /// As [`Backend::copy_from_host`].
    unsafe fn fill(&self, to: u64, value: u8, bytes: usize) -> Result<()>;

    /// A stream; the default stream and it wait for each other, or not.
    fn create_stream(&self, blocking: bool) -> Result<StreamHandle>;

    /// # Safety
    /// The stream must be from [`Backend::create_stream`], and not used again.
    unsafe fn destroy_stream(&self, stream: StreamHandle);

    /// Fails unless the stream is of this device's primary context.
    ///
    /// # Safety
    /// The stream must exist.
    unsafe fn check_stream(&self, stream: StreamHandle) -> Result<()>;

    fn synchronize(&self, stream: StreamHandle) -> Result<()>;

    /// Whether a graph is being captured from the stream.
    fn is_capturing(&self, stream: StreamHandle) -> Result<bool>;

    /// Makes a further set of kernels known.
    fn register(&self, library: &'static PtxLibrary);

    /// Loads a kernel's code.
    fn prepare(&self, kernel: &str) -> Result<()>;

    /// How many clusters of this launch run at once. Loads the kernel's code.
    fn resident_clusters(&self, kernel: KernelRef, config: LaunchConfig) -> Result<u32>;

    /// Describes a tensor and its tiles to this device.
    fn tensor_map(&self, tiling: &TensorTiling<'_>) -> Result<TensorMap>;

    /// Enqueues a kernel.
    ///
    /// # Safety
    /// As [`cuda_launch::Launcher::launch`]; `args` point to the kernel's arguments.
    unsafe fn launch(
        &self,
        stream: StreamHandle,
        kernel: KernelRef,
        config: LaunchConfig,
        args: &[*const c_void],
    ) -> Result<()>;
}
