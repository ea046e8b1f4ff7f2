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
    /// What its machine code is committed for too: where the driver would take long to compile it.
    pub(crate) assembled: &'static [Arch],
}

/// Every such crate.
pub(crate) const DEVICE_CRATES: &[DeviceCrate] = &[
    DeviceCrate {
        package: "fused-attention-kernels",
        folder: "kernels",
        output: "host/ptx",
        archs: &[Arch::Sm70, Arch::Sm80, Arch::Sm90, Arch::Sm90a],
        assembled: &[Arch::Sm90a],
    },
    DeviceCrate {
        package: "fused-attention-conformance-kernels",
        folder: "tests/device",
        output: "tests/ptx",
        archs: &[Arch::Sm70, Arch::Sm80, Arch::Sm90, Arch::Sm90a],
        assembled: &[],
    },
];

/// The crates of the workspace that every crate of kernels is built from.
pub(crate) const DEVICE_LIBRARIES: [(&str, &str); 2] =
    [("fused-attention-cuda-std", "cuda/std"), ("fused-attention-cuda-macros", "cuda/macros")];

impl DeviceCrate {
    /// Whether a file of PTX, by its path below the output's folder, has machine code beside it.
    pub(crate) fn is_assembled(&self, file: &str) -> bool {
        let arch = file.split('/').next();
        self.assembled.iter().any(|assembled| Some(assembled.name()) == arch)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        root().join(self.folder)
    }

    pub(crate) fn output(&self) -> PathBuf {
        root().join(self.output)
    }
}
