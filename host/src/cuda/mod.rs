//! GPUs, through the CUDA driver.

mod context;
mod kernels;
mod launch;
mod memory;
mod status;
mod streams;
mod versions;

use crate::{
    Error, PtxLibrary, Result,
    backend::{Allocation, Backend, KernelRef, StreamHandle},
    device::DeviceKind,
};
use context::PrimaryContext;
use cuda_driver::calls;
use cuda_launch::{LaunchConfig, TensorMap, TensorTiling};
use cust::{
    device::{Device, DeviceAttribute},
    sys::{self, CUdevice_attribute_enum as Attribute},
};
use kernels::Kernels;
use status::{check, from_cust, from_tensor_map};
use std::{
    collections::HashMap,
    ffi::{c_int, c_void},
    sync::{Arc, Mutex, PoisonError},
};

/// A GPU, with what is loaded into its primary context.
#[derive(Debug)]
pub(crate) struct Cuda {
    ordinal: u32,
    name: String,
    compute_capability: (u32, u32),
    multiprocessors: u32,
    shared_bytes_per_block: u32,
    context: Arc<PrimaryContext>,
    kernels: Kernels,
}

impl Cuda {
    /// The GPU of this number, opened once in a process.
    pub fn open(ordinal: u32) -> Result<Arc<dyn Backend>> {
        // Never emptied: kernels loaded into a primary context stay, as the context does.
        static OPENED: Mutex<Option<HashMap<u32, Arc<Cuda>>>> = Mutex::new(None);
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.get_or_insert_default();
        if let Some(cuda) = opened.get(&ordinal) {
            return Ok(cuda.clone());
        }
        let cuda = Arc::new(Cuda::new(ordinal)?);
        opened.insert(ordinal, cuda.clone());
        Ok(cuda)
    }

    fn new(ordinal: u32) -> Result<Self> {
        let count = device_count()?;
        if ordinal >= count {
            return Err(Error::NoSuchDevice { ordinal, count });
        }
        let device = Device::get_device(ordinal).map_err(from_cust("cuDeviceGet"))?;
        let attribute = |attribute| {
            let value = device.get_attribute(attribute);
            value.map(|value| value as u32).map_err(from_cust("cuDeviceGetAttribute"))
        };
        let compute_capability = (
            attribute(DeviceAttribute::ComputeCapabilityMajor)?,
            attribute(DeviceAttribute::ComputeCapabilityMinor)?,
        );
        let mut shared: c_int = 0;
        let optin = Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        // SAFETY: writes one number.
        let status = unsafe { sys::cuDeviceGetAttribute(&mut shared, optin, device.as_raw()) };
        check("cuDeviceGetAttribute", status as i32)?;
        Ok(Cuda {
            ordinal,
            name: device.name().map_err(from_cust("cuDeviceGetName"))?,
            compute_capability,
            multiprocessors: attribute(DeviceAttribute::MultiprocessorCount)?,
            shared_bytes_per_block: shared as u32,
            context: Arc::new(PrimaryContext::retain(ordinal, device)?),
            kernels: Kernels::new(compute_capability),
        })
    }
}

/// How many GPUs there are: none with a driver that finds none, an error without a driver.
fn device_count() -> Result<u32> {
    const NO_DEVICE: calls::Status = 100;
    cuda_driver::load().map_err(|error| Error::NoDriver { reason: error.to_string() })?;
    // SAFETY: may be called at any time, any number of times.
    match unsafe { calls::cuInit(0) } {
        NO_DEVICE => return Ok(0),
        status => check("cuInit", status)?,
    }
    Device::num_devices().map_err(from_cust("cuDeviceGetCount"))
}

impl Backend for Cuda {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cuda { ordinal: self.ordinal }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn compute_capability(&self) -> (u32, u32) {
        self.compute_capability
    }

    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    fn shared_bytes_per_block(&self) -> u32 {
        self.shared_bytes_per_block
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Allocation>> {
        memory::allocate(&self.context, bytes)
    }

    unsafe fn copy_from_host(&self, to: u64, from: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { memory::copy_from_host(&self.context, to, from, bytes) }
    }

    unsafe fn copy_to_host(&self, to: *mut u8, from: u64, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { memory::copy_to_host(&self.context, to, from, bytes) }
    }

    unsafe fn fill(&self, to: u64, value: u8, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { memory::fill(&self.context, to, value, bytes) }
    }

    fn create_stream(&self, blocking: bool) -> Result<StreamHandle> {
        streams::create(&self.context, blocking)
    }

    unsafe fn destroy_stream(&self, stream: StreamHandle) {
        // SAFETY: promised by the caller.
        unsafe { streams::destroy(&self.context, stream) };
    }

    unsafe fn check_stream(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: promised by the caller.
        if unsafe { streams::is_of(&self.context, stream) }? {
            return Ok(());
        }
        let device = format!("{} ({})", self.kind(), self.name);
        Err(Error::ForeignStream { stream: stream.0 as u64, device })
    }

    fn synchronize(&self, stream: StreamHandle) -> Result<()> {
        streams::synchronize(&self.context, stream)
    }

    fn is_capturing(&self, stream: StreamHandle) -> Result<bool> {
        streams::is_capturing(&self.context, stream)
    }

    fn register(&self, library: &'static PtxLibrary) {
        self.kernels.register(library);
    }

    fn prepare(&self, kernel: &str) -> Result<()> {
        let _current = self.context.enter()?;
        self.kernels.load(kernel).map(drop)
    }

    fn tensor_map(&self, tiling: &TensorTiling<'_>) -> Result<TensorMap> {
        let _current = self.context.enter()?;
        cuda_driver::tensor_map::encode(tiling).map_err(from_tensor_map)
    }

    fn resident_clusters(&self, kernel: KernelRef, config: LaunchConfig) -> Result<u32> {
        let _current = self.context.enter()?;
        launch::resident_clusters(self.kernels.load(kernel.name)?, kernel.name, config)
    }

    unsafe fn launch(
        &self,
        stream: StreamHandle,
        kernel: KernelRef,
        config: LaunchConfig,
        args: &[*const c_void],
    ) -> Result<()> {
        let _current = self.context.enter()?;
        let loaded = match self.kernels.get(kernel.name) {
            Some(loaded) => loaded,
            None if streams::is_capturing(&self.context, stream)? => {
                return Err(Error::LoadDuringCapture { kernel: kernel.name.into() });
            }
            None => self.kernels.load(kernel.name)?,
        };
        // SAFETY: promised by the caller.
        unsafe { launch::launch(stream, loaded, kernel.name, config, args) }
    }
}
