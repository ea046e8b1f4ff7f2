//! The definition in f64 on a device, which large results are compared with, against the reference
//! on the CPU.

use super::properties::problem;
use fused_attention::{Device, Element};
use half::{bf16, f16};
use proptest::test_runner::TestCaseError;
use support::{
    gpus,
    random_problems::{cases, draw},
};

fn random_problems<T: Element>(cases: u32, device: &Device) {
    draw(cases, &problem(1 << 18), |case| {
        let failed = |error| TestCaseError::fail(format!("{} on {device}: {error}", T::DTYPE));
        case.solve::<T>().check_definition(device).map_err(failed)
    });
}

fn on_every_backend<T: Element>() {
    random_problems::<T>(cases(false) / 2, &Device::emulator());
    gpus().iter().for_each(|gpu| random_problems::<T>(cases(true) / 2, gpu));
}

#[test]
fn random_problems_f16() {
    on_every_backend::<f16>();
}

#[test]
fn random_problems_bf16() {
    on_every_backend::<bf16>();
}

#[test]
fn random_problems_f32() {
    on_every_backend::<f32>();
}
