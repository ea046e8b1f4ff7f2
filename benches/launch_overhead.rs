//! Host time of a call: what `forward_into` costs the caller, from the plan to the driver's return.
//!
//! A tiny problem, so that the GPU keeps up; the stream is emptied before the driver's queue fills.

use bench_support::{Gpu, median};
use fused_attention::{Mask, ScaledMaskedSoftmax, SoftmaxInputs};
use std::time::Instant;

const ROUNDS: usize = 100;
const CALLS: usize = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(gpu) = Gpu::open() else { return Ok(()) };
    let x = gpu.device.zeros::<f32>(&[4, 64])?;
    let y = gpu.device.zeros::<f32>(&[4, 64])?;
    let softmax = ScaledMaskedSoftmax::new(0.125);
    let call = || {
        let inputs = SoftmaxInputs::new(&x).mask(Mask::none());
        softmax.forward_into(&gpu.stream, inputs, &y, None)
    };
    // Loads the kernel and makes the plan.
    call()?;
    gpu.stream.synchronize()?;
    let mut times = Vec::with_capacity(ROUNDS * CALLS);
    for _ in 0..ROUNDS {
        for _ in 0..CALLS {
            let start = Instant::now();
            call()?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        gpu.stream.synchronize()?;
    }
    println!(
        "{}: {:.2} us of host time a call, median of {}",
        gpu.device,
        median(&times),
        times.len()
    );
    Ok(())
}
