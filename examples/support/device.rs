//! The choice between a GPU and the emulator.

use clap::ValueEnum;
use fused_attention::{Device, Result};

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wanted {
    /// The first GPU, or the emulator if there is none.
    Auto,
    /// The first GPU.
    Cuda,
    /// The emulator on the CPU.
    Emulator,
}

/// A device, and why it is this one.
///
/// # Errors
/// A GPU is asked for, and there is none that can be used.
pub fn choose(wanted: Wanted) -> Result<(Device, String)> {
    match wanted {
        Wanted::Cuda => Ok((Device::cuda(0)?, "as asked for".to_owned())),
        Wanted::Emulator => Ok((Device::emulator(), "as asked for".to_owned())),
        Wanted::Auto => Ok(match Device::cuda(0) {
            Ok(gpu) => (gpu, "the first GPU".to_owned()),
            Err(error) => (Device::emulator(), format!("no GPU: {error}")),
        }),
    }
}
