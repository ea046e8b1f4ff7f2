//! The f64 kernels' gradient is that of the f64 kernels' probabilities, by central differences.

use fused_attention::{
    BankIndex, Causal, Device, GradientInputs, Mask, RowLengths, ScaledMaskedSoftmax,
    SoftmaxInputs, Tensor, backward_tile_names,
};
use support::{on_every_backend, random::Random};

const SHAPE: [usize; 3] = [2, 4, 10];
const COLUMNS: usize = SHAPE[2];
const COUNT: usize = SHAPE[0] * SHAPE[1] * COLUMNS;
const STEP: f64 = 1e-6;

fn normal(seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..COUNT).map(|_| random.normal()).collect()
}

/// `sum_j p_j dp_j` of each row, by the forward.
fn weighted_sums(
    softmax: ScaledMaskedSoftmax,
    x: &Tensor<f64>,
    dp: &[f64],
    mask: Mask<'_>,
    scale: Option<&Tensor<f64>>,
) -> Vec<f64> {
    let p = forward(softmax, x, mask, scale).to_vec().unwrap();
    let rows = p.chunks(COLUMNS).zip(dp.chunks(COLUMNS));
    rows.map(|(p, dp)| p.iter().zip(dp).map(|(p, dp)| p * dp).sum()).collect()
}

fn forward(
    softmax: ScaledMaskedSoftmax,
    x: &Tensor<f64>,
    mask: Mask<'_>,
    scale: Option<&Tensor<f64>>,
) -> Tensor<f64> {
    let mut inputs = SoftmaxInputs::new(x).mask(mask);
    if let Some(scale) = scale {
        inputs = inputs.scale(scale);
    }
    softmax.forward_with_lse(inputs).unwrap().0
}

/// Compares the gradient, from either source and by every tile that can, with the differences of
/// the forward.
#[track_caller]
fn check(
    device: &Device,
    softmax: ScaledMaskedSoftmax,
    mask: Mask<'_>,
    scale: Option<&Tensor<f64>>,
) {
    let (numbers, gradient) = (normal(1), normal(2));
    let x = device.upload(&numbers, &SHAPE).unwrap();
    let dp = device.upload(&gradient, &SHAPE).unwrap();
    let mut expected = vec![0.0; COUNT];
    for column in 0..COLUMNS {
        // Rows do not concern one another, so all are moved together.
        let moved = |by: f64| {
            let mut numbers = numbers.clone();
            numbers.iter_mut().skip(column).step_by(COLUMNS).for_each(|x| *x += by);
            let x = device.upload(&numbers, &SHAPE).unwrap();
            weighted_sums(softmax, &x, &gradient, mask, scale)
        };
        for (row, (up, down)) in moved(STEP).into_iter().zip(moved(-STEP)).enumerate() {
            expected[row * COLUMNS + column] = (up - down) / (2.0 * STEP);
        }
    }
    let p = forward(softmax, &x, mask, scale);
    let mut inputs =
        [GradientInputs::from_probabilities(&p, &dp), GradientInputs::from_scores(&x, &dp)];
    for inputs in &mut inputs {
        *inputs = inputs.mask(mask);
        if let Some(scale) = scale {
            *inputs = inputs.scale(scale);
        }
        for tile in backward_tile_names() {
            let found = softmax.with_tile(tile).unwrap().backward(*inputs).unwrap();
            for (i, (found, expected)) in found.to_vec().unwrap().iter().zip(&expected).enumerate()
            {
                let near = (found - expected).abs() <= 5e-9;
                assert!(near, "{tile}, element {i}: {found}, expected {expected}");
            }
        }
    }
    let moved = expected.iter().filter(|dx| dx.abs() > 1e-3).count();
    assert!(moved > 3 || softmax.scale() == 0.0, "only {moved} elements have a gradient");
}

#[test]
fn scales() {
    on_every_backend(|device| {
        for scale in [1.0, 0.125, -0.7, 0.0, 5.0] {
            check(device, ScaledMaskedSoftmax::new(scale), Mask::none(), None);
        }
        let scale = device.upload(&[-1.5], &[1]).unwrap();
        check(device, ScaledMaskedSoftmax::new(f64::NAN), Mask::none(), Some(&scale));
    });
}

#[test]
fn visible_ranges() {
    on_every_backend(|device| {
        let plain = ScaledMaskedSoftmax::new(0.9);
        let lengths = RowLengths::per_batch(device, &[6, 9]).unwrap();
        let by_row = RowLengths::per_row(device, &[9, 5, 0, 3, 9, 1, 7, 9], &SHAPE[..2]).unwrap();
        for softmax in [
            plain,
            plain.causal(Causal::TopLeft),
            plain.causal(Causal::BottomRight),
            plain.window(2, 3),
            plain.window(2, 3).diagonal(Causal::TopLeft),
            plain.window(-1, 2),
            plain.window(3, -1).causal(Causal::BottomRight),
        ] {
            check(device, softmax, Mask::none(), None);
            check(device, softmax, Mask::none().lengths(&lengths), None);
            check(device, softmax, Mask::none().lengths(&by_row), None);
        }
    });
}

#[test]
fn masks_of_elements() {
    on_every_backend(|device| {
        let mut random = Random::new(7);
        // Two masks, of which each batch entry takes another.
        let shape = [2, SHAPE[0], SHAPE[1], COLUMNS];
        let bytes: Vec<u8> = (0..2 * COUNT).map(|_| u8::from(random.chance(0.3))).collect();
        let added: Vec<f64> = (0..2 * COUNT)
            .map(|_| if random.chance(0.2) { f64::NEG_INFINITY } else { random.normal() })
            .collect();
        let bytes = device.upload(&bytes, &shape).unwrap();
        let added = device.upload(&added, &shape).unwrap();
        let index = BankIndex::per_batch(device, &[1, 0]).unwrap();
        let lengths = RowLengths::per_batch(device, &[7, 9]).unwrap();
        let of_elements = [
            Mask::exclude(&bytes),
            Mask::keep(&bytes),
            Mask::additive(&added),
            Mask::exclude(&bytes).and_additive(&added),
        ];
        let softmax = ScaledMaskedSoftmax::new(-0.8);
        for mask in of_elements {
            let mask = mask.from_bank(&index);
            check(device, softmax, mask, None);
            let both = mask.lengths(&lengths);
            check(device, softmax.causal(Causal::BottomRight).window(5, 0), both, None);
        }
        // Repeated over batch entries and queries, and one for a whole row.
        let first = |tensor: &Tensor<u8>, row: usize| {
            tensor.narrow(0, 0, 1).unwrap().narrow(1, 0, 1).unwrap().narrow(2, row, 1).unwrap()
        };
        let key_mask = first(&bytes, 0).reshape(&[1, COLUMNS]).unwrap();
        check(device, softmax, Mask::exclude(&key_mask), None);
        let of_rows = device.upload(&[0.5, -1.0, 2.0, f64::NEG_INFINITY], &[4, 1]).unwrap();
        check(device, softmax, Mask::exclude(&key_mask).and_additive(&of_rows), None);
    });
}
