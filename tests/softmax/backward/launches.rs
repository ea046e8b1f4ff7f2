//! What a kernel makes of a part of a problem: launches that begin at a later query.

use fused_attention::{
    Causal, Device, GradientInputs, LaunchConfig, Launcher, ScaledMaskedSoftmax, Tensor,
};
use kernels::softmax::{
    entries::BACKWARD_VARIANTS,
    problem::{MAX_ROW_DIMENSIONS, SoftmaxBackward},
};
use support::{on_every_backend, random::Random};

use super::super::launches::{KEYS, QUERIES, rows_from};

/// Causal backward from scores of the rows from `first` on, `rows` of them.
fn launch(device: &Device, tensors: [&Tensor<f32>; 3], first: usize, rows: usize) {
    let [x, dp, dx] = tensors;
    let offset = (first * KEYS * size_of::<f32>()) as u64;
    let mut gradient_strides = [0; MAX_ROW_DIMENSIONS];
    gradient_strides[0] = KEYS as i64;
    let problem = SoftmaxBackward {
        rows: rows_from(x, dx, first, rows),
        gradient: (dp.pointer() + offset) as *const _,
        gradient_strides,
    };
    let variant = BACKWARD_VARIANTS.iter().find(|variant| variant.tile.name == "warp2");
    // f32, from scores without masks of elements.
    let kernel = variant.expect("a tile of that name").kernels[2][1];
    // A warp of 32 lanes for each row.
    let config = LaunchConfig::new(rows.div_ceil(4) as u32, 128);
    // SAFETY: the tensors have these rows.
    unsafe { device.default_stream().launch(kernel, config, (problem,)) }.unwrap();
}

#[test]
fn the_diagonal_does_not_begin_anew() {
    let mut random = Random::new(3);
    let mut numbers =
        || -> Vec<f32> { (0..QUERIES * KEYS).map(|_| random.normal() as f32).collect() };
    let (x, dp) = (numbers(), numbers());
    on_every_backend(|device| {
        let upload = |numbers: &[f32]| device.upload(numbers, &[QUERIES, KEYS]).unwrap();
        let (x, dp) = (upload(&x), upload(&dp));
        let softmax = ScaledMaskedSoftmax::new(0.5).causal(Causal::BottomRight);
        let softmax = softmax.with_tile("warp2").unwrap();
        let whole = softmax.backward(GradientInputs::from_scores(&x, &dp)).unwrap();
        let dx = upload(&vec![f32::NAN; QUERIES * KEYS]);
        for (first, rows) in [(0, 5), (5, 1), (6, 5)] {
            launch(device, [&x, &dp, &dx], first, rows);
        }
        let (whole, parts) = (whole.to_vec().unwrap(), dx.to_vec().unwrap());
        for (i, (whole, part)) in whole.iter().zip(&parts).enumerate() {
            assert!((whole - part).abs() <= 1e-6, "element {i}: {part}, not {whole}");
        }
    });
}
