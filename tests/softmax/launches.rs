//! What a kernel makes of a part of a problem: launches that begin at a later query.

use super::by_hand;
use fused_attention::{Causal, Device, LaunchConfig, Launcher, Mask, ScaledMaskedSoftmax, Tensor};
use kernels::softmax::{entries::FORWARD_VARIANTS, problem::SoftmaxForward};
use support::{on_every_backend, random::Random};

pub(super) const QUERIES: usize = 11;
pub(super) const KEYS: usize = 40;

/// The causal problem of the rows from `first` on, `rows` of them.
pub(super) fn rows_from(
    x: &Tensor<f32>,
    y: &Tensor<f32>,
    first: usize,
    rows: usize,
) -> SoftmaxForward {
    let offset = (first * KEYS * size_of::<f32>()) as u64;
    SoftmaxForward {
        x: (x.pointer() + offset) as *const _,
        y: (y.pointer() + offset) as *mut _,
        window_right: 0,
        queries: QUERIES as u64,
        first_query: first as u64,
        ..by_hand::forward(x, y, (rows, KEYS), 0.5)
    }
}

/// Causal softmax of these rows.
fn launch(device: &Device, x: &Tensor<f32>, y: &Tensor<f32>, first: usize, rows: usize) {
    let problem = rows_from(x, y, first, rows);
    let variant = FORWARD_VARIANTS.iter().find(|variant| variant.tile.name == "warp4");
    // f32, with a visible range.
    let kernel = variant.expect("a tile of that name").kernels[2][1];
    // A warp of 32 lanes for each row.
    let config = LaunchConfig::new(rows.div_ceil(4) as u32, 128);
    // SAFETY: both tensors have these rows.
    unsafe { device.default_stream().launch(kernel, config, (problem,)) }.unwrap();
}

#[test]
fn the_diagonal_does_not_begin_anew() {
    let mut random = Random::new(3);
    let numbers: Vec<f32> = (0..QUERIES * KEYS).map(|_| random.normal() as f32).collect();
    on_every_backend(|device| {
        let x = device.upload(&numbers, &[QUERIES, KEYS]).unwrap();
        let softmax = ScaledMaskedSoftmax::new(0.5).causal(Causal::BottomRight);
        let whole = softmax.with_tile("warp4").unwrap().forward(&x, Mask::none()).unwrap();
        let y = device.upload(&vec![f32::NAN; QUERIES * KEYS], &[QUERIES, KEYS]).unwrap();
        for (first, rows) in [(0, 5), (5, 1), (6, 5)] {
            launch(device, &x, &y, first, rows);
        }
        let (whole, parts) = (whole.to_vec().unwrap(), y.to_vec().unwrap());
        for (i, (whole, part)) in whole.iter().zip(&parts).enumerate() {
            assert!((whole - part).abs() <= 1e-6 * whole, "element {i}: {part}, not {whole}");
        }
    });
}
