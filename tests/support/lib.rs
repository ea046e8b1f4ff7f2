//! What the tests share: the backends they run on.

pub mod allocations;
pub mod attention_case;
pub mod placement;
pub mod random;
pub mod random_problems;
pub mod softmax_case;
pub mod synchronisation;

use fused_attention::{Device, DeviceKind};
use std::{
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::OnceLock,
};

/// Every backend there is: the emulator, unless `FUSED_ATTENTION_ONLY_GPU=1` is set, and each GPU.
/// Says which, once, past the capture of output.
///
/// # Panics
/// `FUSED_ATTENTION_REQUIRE_GPU=1` is set, and there is no GPU.
pub fn backends() -> Vec<Device> {
    static BACKENDS: OnceLock<Vec<Device>> = OnceLock::new();
    let found = BACKENDS.get_or_init(|| {
        let mut devices = Device::available();
        if std::env::var("FUSED_ATTENTION_ONLY_GPU").is_ok_and(|value| value == "1") {
            devices.retain(is_gpu);
        }
        let names: Vec<_> = devices.iter().map(Device::to_string).collect();
        let mut line = format!("backends: {}\n", names.join(", "));
        if let Err(error) = Device::cuda(0) {
            line += &format!("no GPU: {error}\n");
        }
        // The test goes on even if nobody can read the line.
        let _ = std::io::stderr().write_all(line.as_bytes());
        devices
    });
    let required = std::env::var("FUSED_ATTENTION_REQUIRE_GPU").is_ok_and(|value| value == "1");
    assert!(
        !required || found.iter().any(is_gpu),
        "FUSED_ATTENTION_REQUIRE_GPU=1, and there is no GPU"
    );
    assert!(!found.is_empty(), "no backend: FUSED_ATTENTION_ONLY_GPU=1, and there is no GPU");
    found.clone()
}

/// The GPUs among the backends. A test that needs one and gets none says so and passes.
pub fn gpus() -> Vec<Device> {
    let gpus: Vec<_> = backends().into_iter().filter(is_gpu).collect();
    if gpus.is_empty() {
        eprintln!("skipped: needs a GPU");
    }
    gpus
}

/// Runs a test on every backend, and says on which it failed.
///
/// # Panics
/// The test does.
pub fn on_every_backend(test: impl Fn(&Device)) {
    for device in backends() {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| test(&device))) {
            eprintln!("failed on {device}");
            resume_unwind(payload);
        }
    }
}

/// Whether the device is a GPU.
pub fn is_gpu(device: &Device) -> bool {
    matches!(device.kind(), DeviceKind::Cuda { .. })
}
