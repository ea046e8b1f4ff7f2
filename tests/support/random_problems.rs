//! Random problems: how many are drawn, and where they run.

use crate::{backends, is_gpu, placement::Placement};
use cuda_emulator::Emulator;
use fused_attention::Device;
use proptest::{
    sample::select,
    strategy::Strategy,
    test_runner::{Config, TestCaseError, TestRunner},
};

/// How many problems are drawn: `FUSED_ATTENTION_TEST_CASES`, or as many as a test run has time
/// for on the emulator, and more on a GPU; for the emulator none if it is not among the backends.
pub fn cases(on_gpu: bool) -> u32 {
    if !on_gpu && backends().iter().all(is_gpu) {
        return 0;
    }
    let asked = std::env::var("FUSED_ATTENTION_TEST_CASES").ok().and_then(|n| n.parse().ok());
    asked.unwrap_or(if on_gpu { 2000 } else { 250 })
}

/// Half of the problems on the plain emulator, half under adversarial schedules.
pub fn emulator(seed: u64) -> Device {
    match seed % 2 {
        0 => Device::emulator(),
        _ => Device::emulator_with(Emulator::adversarial(seed)),
    }
}

/// Every way to lie in memory.
pub fn placement() -> impl Strategy<Value = Placement> {
    use Placement::{Contiguous, Offset, Packed, Permuted, Sliced};
    select(vec![
        Contiguous,
        Offset(8),
        Offset(1),
        Offset(4),
        Sliced(8),
        Sliced(3),
        Packed,
        Permuted,
    ])
}

/// Draws problems and checks each.
///
/// # Panics
/// One does not hold; it is shrunk before, and told.
pub fn draw<S: Strategy>(
    cases: u32,
    problems: &S,
    check: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    if let Err(error) = TestRunner::new(config).run(problems, check) {
        panic!("{error}");
    }
}
