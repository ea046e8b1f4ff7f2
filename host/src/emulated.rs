//! The CPU emulator as a device. Its memory is the host's, with a guard page at either end.

use crate::{
    Error, PtxLibrary, Result,
    backend::{Allocation, Backend, KernelRef, StreamHandle},
    device::DeviceKind,
};
use cuda_emulator::{Buffer, Emulator, Placement};
use cuda_launch::{Kernel, KernelArgs, LaunchConfig, Launcher, TensorMap, TensorTiling};
use std::{ffi::c_void, ptr};

/// A device that runs kernels on the calling thread and its helpers, to the end.
#[derive(Debug)]
pub(crate) struct Emulated {
    emulator: Emulator,
}

impl Emulated {
    pub fn new(emulator: Emulator) -> Self {
        Emulated { emulator }
    }
}

/// Arguments of a kernel whose type is no longer known.
struct Pointers<'a>(&'a [*const c_void]);

impl KernelArgs for Pointers<'_> {
    fn with_pointers<R>(&self, f: impl FnOnce(&[*const c_void]) -> R) -> R {
        f(self.0)
    }
}

#[derive(Debug)]
struct HostMemory(Buffer<u8>);

impl Allocation for HostMemory {
    fn pointer(&self) -> u64 {
        self.0.as_mut_ptr() as u64
    }
}

impl Backend for Emulated {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Emulator
    }

    fn name(&self) -> &str {
        "CPU emulator"
    }

    fn compute_capability(&self) -> (u32, u32) {
        (9, 0)
    }

    fn multiprocessors(&self) -> u32 {
        4
    }

    fn shared_bytes_per_block(&self) -> u32 {
        227 << 10
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Allocation>> {
        let buffer = Buffer::bytes(bytes, 256, Placement::Aligned)
            .map_err(|_| Error::OutOfMemory { device: self.name().into(), bytes })?;
        Ok(Box::new(HostMemory(buffer)))
    }

    unsafe fn copy_from_host(&self, to: u64, from: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { ptr::copy_nonoverlapping(from, to as *mut u8, bytes) };
        Ok(())
    }

    unsafe fn copy_to_host(&self, to: *mut u8, from: u64, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { ptr::copy_nonoverlapping(from as *const u8, to, bytes) };
        Ok(())
    }

    unsafe fn fill(&self, to: u64, value: u8, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { ptr::write_bytes(to as *mut u8, value, bytes) };
        Ok(())
    }

    fn create_stream(&self, _: bool) -> Result<StreamHandle> {
        Ok(StreamHandle::DEFAULT)
    }

    unsafe fn destroy_stream(&self, _: StreamHandle) {}

    unsafe fn check_stream(&self, _: StreamHandle) -> Result<()> {
        Ok(())
    }

    fn synchronize(&self, _: StreamHandle) -> Result<()> {
        Ok(())
    }

    fn is_capturing(&self, _: StreamHandle) -> Result<bool> {
        Ok(false)
    }

    fn register(&self, _: &'static PtxLibrary) {}

    fn prepare(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn tensor_map(&self, tiling: &TensorTiling<'_>) -> Result<TensorMap> {
        cuda_emulator::copy::encode(tiling).map_err(Error::Tiling)
    }

    /// Few, so that they take rows in turn.
    fn resident_clusters(&self, _: KernelRef, _: LaunchConfig) -> Result<u32> {
        Ok(2)
    }

    unsafe fn launch(
        &self,
        _: StreamHandle,
        kernel: KernelRef,
        config: LaunchConfig,
        args: &[*const c_void],
    ) -> Result<()> {
        // SAFETY: `args` stands for the tuple that `kernel.entry` takes.
        let erased = unsafe { Kernel::new(kernel.name, kernel.entry, kernel.bounds, kernel.arch) };
        // SAFETY: promised by the caller.
        let result = unsafe { self.emulator.launch(&erased, config, Pointers(args)) };
        result.map_err(|fault| Error::EmulatorFault { kernel: kernel.name, fault: fault.into() })
    }
}
