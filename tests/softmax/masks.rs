//! Masks with a value for each element: bytes, numbers, banks of them, and what they broadcast to.

use fused_attention::{Accumulate, Causal, Mask, Per, Polarity, ScaledMaskedSoftmax};
use half::{bf16, f16};
use support::{
    on_every_backend,
    placement::Placement,
    softmax_case::{AdditiveMask, Bank, ByteMask, Lengths, SoftmaxCase},
};

const X: [usize; 4] = [2, 3, 4, 40];

/// Every shape that broadcasts to x's: each dimension of x or of size 1, and fewer dimensions.
fn broadcast_shapes(of: &[usize]) -> Vec<Vec<usize>> {
    let mut shapes = Vec::new();
    for missing in 0..=of.len() {
        let own = &of[missing..];
        for bits in 0..1 << own.len() {
            let size = |(dim, &size): (usize, &usize)| if bits >> dim & 1 == 1 { 1 } else { size };
            shapes.push(own.iter().enumerate().map(size).collect());
        }
    }
    shapes
}

fn every_broadcast<T: Accumulate>() {
    on_every_backend(|device| {
        for shape in broadcast_shapes(&X) {
            for expanded in [false, true] {
                let hidden_rows = 0.2;
                let bytes = ByteMask { expanded, hidden_rows, ..ByteMask::new(&shape) };
                let additive = AdditiveMask { expanded, hidden_rows, ..AdditiveMask::new(&shape) };
                let wide = AdditiveMask { wide: true, ..additive.clone() };
                let case = SoftmaxCase { seed: shape.len() as u64, ..SoftmaxCase::new(&X) };
                for (bytes, additive) in [
                    (Some(&bytes), None),
                    (None, Some(&additive)),
                    (None, Some(&wide)),
                    (Some(&bytes), Some(&additive)),
                ] {
                    let (bytes, additive) = (bytes.cloned(), additive.cloned());
                    SoftmaxCase { bytes, additive, ..case.clone() }.assert_right::<T>(device);
                }
            }
        }
    });
}

#[test]
fn every_broadcast_f16() {
    every_broadcast::<f16>();
}

#[test]
fn every_broadcast_f32() {
    every_broadcast::<f32>();
}

#[test]
fn every_broadcast_f64() {
    every_broadcast::<f64>();
}

/// Any byte but 0 counts as set, in both polarities.
#[test]
fn bytes_are_zero_or_not() {
    on_every_backend(|device| {
        for columns in [16, 17, 300, 5000] {
            let x = device.upload(&vec![0f32; columns], &[1, columns]).unwrap();
            for byte in [1u8, 2, 127, 128, 255] {
                // Every third column is set.
                let set = |j: usize| j.is_multiple_of(3);
                let bytes: Vec<u8> = (0..columns).map(|j| if set(j) { byte } else { 0 }).collect();
                let mask = device.upload(&bytes, &[1, columns]).unwrap();
                for (mask, visible_if_set) in
                    [(Mask::keep(&mask), true), (Mask::exclude(&mask), false)]
                {
                    let y = ScaledMaskedSoftmax::new(1.0).forward(&x, mask).unwrap();
                    let visible = |j: usize| set(j) == visible_if_set;
                    let share = 1.0 / (0..columns).filter(|&j| visible(j)).count() as f32;
                    for (j, y) in y.to_vec().unwrap().into_iter().enumerate() {
                        let expected = if visible(j) { share } else { 0.0 };
                        assert!((y - expected).abs() <= 1e-6 * expected, "{byte}, column {j}: {y}");
                    }
                }
            }
        }
    });
}

/// Masks at odd addresses, in longer rows, and with their rows interleaved or exchanged.
#[test]
fn every_placement_of_masks() {
    use Placement::{Contiguous, Offset, Packed, Permuted, Sliced};
    on_every_backend(|device| {
        for columns in [24, 37, 1030, 4128] {
            let shape = [2, 3, columns];
            for placement in
                [Contiguous, Offset(1), Offset(4), Offset(8), Sliced(3), Packed, Permuted]
            {
                for x in [Contiguous, Offset(1)] {
                    let bytes = ByteMask { placement, ..ByteMask::new(&shape) };
                    let additive = AdditiveMask { placement, ..AdditiveMask::new(&shape) };
                    let wide = AdditiveMask { wide: true, ..additive.clone() };
                    let case = SoftmaxCase { x, ..SoftmaxCase::new(&shape) };
                    SoftmaxCase { bytes: Some(bytes), ..case.clone() }.assert_right::<f16>(device);
                    for mask in [additive, wide] {
                        let case = SoftmaxCase { additive: Some(mask), ..case.clone() };
                        case.assert_right::<bf16>(device);
                        case.assert_right::<f32>(device);
                    }
                }
            }
        }
    });
}

/// An index for each batch entry chooses among masks, of which either kind may come.
#[test]
fn banks() {
    let broadcasts = [vec![3, 4, 40], vec![1, 4, 40], vec![4, 40], vec![4, 1], vec![40], vec![1]];
    on_every_backend(|device| {
        for shape in &broadcasts {
            for on_device in [false, true] {
                for placement in [Placement::Contiguous, Placement::Sliced(1)] {
                    let bank = Some(Bank { on_device, ..Bank::random(5) });
                    let bytes = ByteMask { placement, hidden_rows: 0.2, ..ByteMask::new(shape) };
                    let additive =
                        AdditiveMask { placement, hidden_rows: 0.2, ..AdditiveMask::new(shape) };
                    let case = SoftmaxCase { bank, ..SoftmaxCase::new(&[6, 3, 4, 40]) };
                    let with_bytes = SoftmaxCase { bytes: Some(bytes), ..case.clone() };
                    with_bytes.assert_right::<f16>(device);
                    let both = SoftmaxCase { additive: Some(additive.clone()), ..with_bytes };
                    both.assert_right::<f32>(device);
                    SoftmaxCase { additive: Some(additive), ..case }.assert_right::<bf16>(device);
                }
            }
        }
    });
}

/// A mask of the bank for each batch entry, of the batch's own shape, beside x of rank 2 and 1.
#[test]
fn banks_in_low_ranks() {
    on_every_backend(|device| {
        for shape in [vec![3, 40], vec![40]] {
            let bank = Some(Bank::random(4));
            let bytes = Some(ByteMask::new(&[40]));
            let case = SoftmaxCase { bank, bytes, ..SoftmaxCase::new(&shape) };
            case.assert_right::<f32>(device);
        }
    });
}

/// Rows whose index the host did not see, and which is outside of the bank, become NaN; others do
/// not.
#[test]
fn indices_outside_of_a_bank() {
    on_every_backend(|device| {
        for shape in [vec![3, 40], vec![3, 1], vec![1]] {
            let index = Some(vec![0, -1, 1, 2, i32::MAX, i32::MIN, 1]);
            let bank = Some(Bank { size: 2, index, on_device: true });
            let case = SoftmaxCase { bank, ..SoftmaxCase::new(&[7, 3, 40]) };
            let bytes = Some(ByteMask { hidden_rows: 0.5, ..ByteMask::new(&shape) });
            SoftmaxCase { bytes, ..case.clone() }.assert_right::<f16>(device);
            let additive = Some(AdditiveMask::new(&shape));
            SoftmaxCase { additive, ..case }.assert_right::<f32>(device);
        }
    });
}

/// Every combination of all there is.
fn all_combinations<T: Accumulate>() {
    let shape = [3, 2, 5, 24];
    on_every_backend(|device| {
        for bits in 0..64u64 {
            let has = |bit: u64| bits >> bit & 1 == 1;
            let masked = has(0) || has(1);
            let case = SoftmaxCase {
                bytes: has(0).then(|| ByteMask::new(&[3, 1, 5, 24][usize::from(has(5))..])),
                additive: has(1)
                    .then(|| AdditiveMask { wide: has(0), ..AdditiveMask::new(&[2, 5, 24]) }),
                lengths: has(2)
                    .then(|| Lengths::random(if has(0) { Per::Row } else { Per::Batch })),
                causal: has(3).then_some(if has(1) {
                    Causal::TopLeft
                } else {
                    Causal::BottomRight
                }),
                window: has(4).then_some((6, 3)),
                bank: (has(5) && masked).then(|| Bank::random(3)),
                scale_on_device: bits.count_ones() % 2 == 1,
                seed: bits,
                ..SoftmaxCase::new(&shape)
            };
            case.assert_right::<T>(device);
            let (x, y) = (Placement::Sliced(3), Placement::Packed);
            SoftmaxCase { x, y, ..case }.assert_right::<T>(device);
        }
    });
}

#[test]
fn all_combinations_f16() {
    all_combinations::<f16>();
}

#[test]
fn all_combinations_bf16() {
    all_combinations::<bf16>();
}

#[test]
fn all_combinations_f32() {
    all_combinations::<f32>();
}

#[test]
fn all_combinations_f64() {
    all_combinations::<f64>();
}

/// What `Mask` says first and what it says later apply together.
#[test]
fn masks_add_up() {
    on_every_backend(|device| {
        let x = device.upload(&[0f32; 4], &[1, 4]).unwrap();
        let bytes = device.upload(&[1u8, 0, 0, 0], &[4]).unwrap();
        let numbers = device.upload(&[0f32, 0.0, f32::NEG_INFINITY, 0.0], &[4]).unwrap();
        let mask = Mask::exclude(&bytes).and_additive(&numbers);
        let y = ScaledMaskedSoftmax::new(1.0).forward(&x, mask).unwrap();
        assert_eq!(y.to_vec().unwrap(), [0.0, 0.5, 0.0, 0.5]);
        let mask = Mask::additive(&numbers);
        let y = ScaledMaskedSoftmax::new(1.0).causal(Causal::TopLeft).forward(&x, mask).unwrap();
        assert_eq!(y.to_vec().unwrap(), [1.0, 0.0, 0.0, 0.0]);
    });
}

/// A bank of bytes in both polarities.
#[test]
fn a_bank_of_kept_elements() {
    on_every_backend(|device| {
        let bytes =
            ByteMask { polarity: Polarity::Keep, hidden_rows: 0.3, ..ByteMask::new(&[4, 40]) };
        let (bytes, bank) = (Some(bytes), Some(Bank::random(3)));
        SoftmaxCase { bytes, bank, ..SoftmaxCase::new(&[5, 4, 40]) }.assert_right::<f32>(device);
    });
}
