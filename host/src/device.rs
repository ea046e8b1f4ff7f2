//! Devices: GPUs and the emulator.

use crate::{
    Error, PtxLibrary, Result,
    backend::{Backend, StreamHandle},
    stream::Stream,
};
use cuda_launch::{Kernel, LaunchConfig, TensorMap, TensorTiling};
use std::{fmt, sync::Arc};

/// What kind of device this is, and which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A GPU, by the CUDA driver's number.
    Cuda {
        /// The number.
        ordinal: u32,
    },
    /// The emulator on the CPU.
    Emulator,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceKind::Cuda { ordinal } => write!(f, "cuda:{ordinal}"),
            DeviceKind::Emulator => f.write_str("emulator"),
        }
    }
}

/// Where tensors live and kernels run. Cheap to clone.
///
/// On a GPU this is the device's primary context, which CUDA's runtime API, PyTorch and others
/// share. No call leaves another context current than it found.
#[derive(Debug, Clone)]
pub struct Device {
    backend: Arc<dyn Backend>,
}

impl Device {
    /// The GPU of this number.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::NoSuchDevice`], or that the driver cannot use it.
    #[cfg(feature = "cuda")]
    pub fn cuda(ordinal: u32) -> Result<Self> {
        crate::cuda::Cuda::open(ordinal).map(|backend| Device { backend })
    }

    /// The GPU of this number.
    ///
    /// # Errors
    /// Always: the library is built without the feature `cuda`.
    #[cfg(not(feature = "cuda"))]
    pub fn cuda(ordinal: u32) -> Result<Self> {
        let _ = ordinal;
        Err(Error::FeatureDisabled { feature: "cuda" })
    }

    /// The emulator, in the fastest of its modes.
    #[cfg(feature = "emulator")]
    pub fn emulator() -> Self {
        Self::emulator_with(cuda_emulator::Emulator::default())
    }

    /// The emulator with these options: schedules, checks, timing of asynchronous copies.
    #[cfg(feature = "emulator")]
    pub fn emulator_with(emulator: cuda_emulator::Emulator) -> Self {
        Device { backend: Arc::new(crate::emulated::Emulated::new(emulator)) }
    }

    /// Every device there is: the emulator, if the library is built with it, then the GPUs.
    pub fn available() -> Vec<Self> {
        let mut devices = Vec::new();
        #[cfg(feature = "emulator")]
        devices.push(Self::emulator());
        devices.extend((0..).map_while(|ordinal| Self::cuda(ordinal).ok()));
        devices
    }

    /// Which device this is.
    pub fn kind(&self) -> DeviceKind {
        self.backend.kind()
    }

    /// The product's name.
    pub fn name(&self) -> &str {
        self.backend.name()
    }

    /// The compute capability, major and minor.
    pub fn compute_capability(&self) -> (u32, u32) {
        self.backend.compute_capability()
    }

    /// How many multiprocessors the device has.
    pub fn multiprocessors(&self) -> u32 {
        self.backend.multiprocessors()
    }

    /// The most shared memory that one block can have, in bytes.
    pub fn shared_bytes_per_block(&self) -> u32 {
        self.backend.shared_bytes_per_block()
    }

    /// Whether tensors of one can be used by the other. Emulators share the host's memory,
    /// whatever their options.
    pub fn shares_memory_with(&self, other: &Device) -> bool {
        self.kind() == other.kind()
    }

    /// Fails unless a tensor on `found` can be used on this device.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`].
    pub fn check_same(&self, tensor: &'static str, found: &Device) -> Result<()> {
        if self.shares_memory_with(found) {
            return Ok(());
        }
        let (expected, found) = (self.to_string(), found.to_string());
        Err(Error::DeviceMismatch { tensor, expected, found })
    }

    /// The device's default stream (CUDA's legacy stream).
    pub fn default_stream(&self) -> Stream {
        Stream::borrowed(self, StreamHandle::DEFAULT)
    }

    /// Waits until the default stream is empty, and with it every stream that synchronises with
    /// it.
    ///
    /// # Errors
    /// What went wrong in work enqueued before.
    pub fn synchronize(&self) -> Result<()> {
        self.backend.synchronize(StreamHandle::DEFAULT)
    }

    /// Loads kernels ahead of their first launch: before a graph is captured, where loading is
    /// not possible, or to keep the driver's compiler out of a measurement. On the emulator there
    /// is nothing to load.
    ///
    /// # Errors
    /// [`Error::KernelNotFound`], [`Error::DriverTooOld`] or [`Error::ModuleLoad`].
    pub fn prepare(&self, kernels: &[&str]) -> Result<()> {
        kernels.iter().try_for_each(|kernel| self.backend.prepare(kernel))
    }

    /// This device with another set of kernels besides the library's own. It stays known to all
    /// handles of the device. Where two sets hold the same entry, the library's own counts, then
    /// that of the set registered last, until the entry is loaded.
    pub fn with_library(self, library: &'static PtxLibrary) -> Self {
        self.backend.register(library);
        self
    }

    /// Describes a tensor in this device's memory and its tiles to kernels that copy them by TMA,
    /// which GPUs can since Hopper. Nothing is read or written there.
    ///
    /// # Errors
    /// [`Error::Tiling`], or that the driver has no tensor maps.
    pub fn tensor_map(&self, tiling: &TensorTiling<'_>) -> Result<TensorMap> {
        self.backend.tensor_map(tiling)
    }

    /// How many clusters of this launch the device runs at once.
    pub(crate) fn resident_clusters<Args>(
        &self,
        kernel: &Kernel<Args>,
        config: LaunchConfig,
    ) -> Result<u32> {
        self.backend.resident_clusters(kernel.into(), config)
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind(), self.name())
    }
}
