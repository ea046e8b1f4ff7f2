//! A shared library that uses `fused-attention`.

use fused_attention::{
    Causal, Device, Mask, Result, ScaledMaskedSoftmax, reference::softmax::SoftmaxProblem,
};

/// Computes a softmax on every device. Returns how many there are, and the largest distance of a
/// result from the reference.
pub fn check_devices() -> Result<(usize, f64)> {
    let x: Vec<f32> = (0..12).map(|i| (i * 7 % 5) as f32).collect();
    let wide: Vec<f64> = x.iter().copied().map(f64::from).collect();
    let reference = SoftmaxProblem {
        scale: 0.5,
        causal: Some(Causal::BottomRight),
        ..SoftmaxProblem::new(&wide, 3, 4)
    };
    let expected = reference.solve().p;
    let softmax = ScaledMaskedSoftmax::new(0.5).causal(Causal::BottomRight);
    let mut worst = 0f64;
    let devices = Device::available();
    for device in &devices {
        let x = device.upload(&x, &[3, 4])?;
        let found = softmax.forward(&x, Mask::none())?.to_vec()?;
        for (found, expected) in found.iter().zip(&expected) {
            worst = worst.max((f64::from(*found) - expected).abs());
        }
    }
    Ok((devices.len(), worst))
}

/// [`check_devices`] for C: the number of devices, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn external_device_count() -> i32 {
    match check_devices() {
        Ok((count, worst)) if worst < 1e-6 => count as i32,
        _ => -1,
    }
}
