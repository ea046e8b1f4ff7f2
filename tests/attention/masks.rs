//! Boolean masks and biases: of every shape that broadcasts, from banks, lying anywhere.

use fused_attention::Polarity;
use half::{bf16, f16};
use support::{
    attention_case::AttentionCase,
    on_every_backend,
    placement::Placement,
    softmax_case::{AdditiveMask, Bank, ByteMask},
};

fn case() -> AttentionCase {
    AttentionCase { kv_heads: 1, ..AttentionCase::new((2, 3, 37, 130, 64)) }
}

/// Every shape that broadcasts to the scores.
fn shapes() -> Vec<Vec<usize>> {
    let whole = case().scores();
    let mut shapes: Vec<_> = (0..16)
        .map(|ones: usize| {
            (0..4).map(|dim| if ones >> dim & 1 == 1 { 1 } else { whole[dim] }).collect()
        })
        .collect();
    shapes.extend([vec![37, 130], vec![130], vec![3, 1, 1], vec![]]);
    shapes
}

const PLACEMENTS: [Placement; 6] = [
    Placement::Contiguous,
    Placement::Offset(1),
    Placement::Sliced(3),
    Placement::Packed,
    Placement::Permuted,
    Placement::RowsFirst,
];

#[test]
fn byte_masks() {
    on_every_backend(|device| {
        for (i, shape) in shapes().iter().enumerate() {
            for polarity in [Polarity::Exclude, Polarity::Keep] {
                let mask = ByteMask {
                    polarity,
                    expanded: i % 2 == 1,
                    placement: PLACEMENTS[i % 6],
                    ..ByteMask::new(shape)
                };
                AttentionCase { bytes: Some(mask), ..case() }.assert_right::<f16>(device);
            }
        }
    });
}

#[test]
fn biases() {
    on_every_backend(|device| {
        for (i, shape) in shapes().iter().enumerate() {
            for wide in [false, true] {
                let mask = AdditiveMask {
                    wide,
                    expanded: i % 2 == 1,
                    placement: PLACEMENTS[i % 6],
                    ..AdditiveMask::new(shape)
                };
                let case = AttentionCase { bias: Some(mask), ..case() };
                case.assert_right::<f16>(device);
                case.causal().assert_right::<bf16>(device);
            }
        }
    });
}

#[test]
fn both_from_banks() {
    let bytes = ByteMask::new(&[3, 37, 130]);
    let bias = AdditiveMask::new(&[1, 37, 130]);
    let given = Bank { index: Some(vec![2, 0]), ..Bank::random(3) };
    // An index that the bank does not have, which the host does not see: NaN in its batch entry.
    let outside = |index| Bank { index: Some(index), ..Bank::random(3) };
    on_every_backend(|device| {
        for (bytes, bias) in [
            (Some(bytes.clone()), None),
            (None, Some(bias.clone())),
            (Some(bytes.clone()), Some(bias.clone())),
        ] {
            let case = AttentionCase { bytes, bias, ..case() };
            AttentionCase { bank: Some(given.clone()), ..case.clone() }.assert_right::<f16>(device);
            for index in [vec![3, 1], vec![0, -1], vec![i32::MIN, i32::MAX]] {
                let bank = Some(outside(index));
                let case = AttentionCase { bank, counts_on_device: true, ..case.clone() };
                case.assert_right::<f16>(device);
            }
        }
    });
}

/// Beside everything else.
#[test]
fn with_all_else() {
    let case = AttentionCase {
        bytes: Some(ByteMask::new(&[3, 37, 130])),
        bias: Some(AdditiveMask::new(&[2, 1, 37, 130])),
        slopes: Some(vec![3]),
        softcap: Some(10.0),
        dropout: Some((0.2, 7, 8)),
        key_lengths: Some(vec![130, 77]),
        query_lengths: Some(vec![20, 37]),
        window: Some((60, 50)),
        ..case()
    };
    on_every_backend(|device| {
        case.assert_right::<f16>(device);
        case.assert_right::<bf16>(device);
        case.clone().causal().assert_right::<f16>(device);
    });
}
