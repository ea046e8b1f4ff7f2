//! The crates that are built for the device.

use crate::workspace::root;
use cuda_builder::Arch;
use std::path::PathBuf;

/// A crate of kernels whose PTX is committed.
#[derive(Debug)]
pub(crate) struct DeviceCrate {
    /// The package.
    pub(crate) package: &'static str,
    /// Its folder.
    pub(crate) folder: &'static str,
    /// The folder of its PTX, manifest and resource table.
    pub(crate) output: &'static str,
    /// What it is built for.
    pub(crate) archs: &'static [Arch],
}

/// Every such crate.
pub(crate) const DEVICE_CRATES: &[DeviceCrate] = &[
    DeviceCrate {
        package: "fused-attention-kernels",
        folder: "kernels",
        output: "host/ptx",
        archs: &[Arch::Sm70, Arch::Sm80, Arch::Sm90, Arch::Sm90a],
    },
    DeviceCrate {
        package: "fused-attention-conformance-kernels",
        folder: "tests/device",
        output: "tests/ptx",
        archs: &[Arch::Sm70, Arch::Sm80, Arch::Sm90, Arch::Sm90a],
    },
];

/// The crates of the workspace that every crate of kernels is built from.
pub(crate) const DEVICE_LIBRARIES: [(&str, &str); 2] =
    [("fused-attention-cuda-std", "cuda/std"), ("fused-attention-cuda-macros", "cuda/macros")];

impl DeviceCrate {
    pub(crate) fn folder(&self) -> PathBuf {
        root().join(self.folder)
    }

    pub(crate) fn output(&self) -> PathBuf {
        root().join(self.output)
    }
}
