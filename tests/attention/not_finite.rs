//! NaN and infinity: in which rows they show.

use fused_attention::Element;
use half::{bf16, f16};
use support::{
    attention_case::{AttentionCase, Edit, Operand},
    on_every_backend,
};

const DIM: usize = 64;

fn case(edits: Vec<Edit>) -> AttentionCase {
    AttentionCase { edits, kv_heads: 1, ..AttentionCase::new((2, 2, 70, 140, DIM)) }
}

fn edit(operand: Operand, element: usize, value: f64) -> Edit {
    Edit { operand, element, value }
}

/// In a query: that row is NaN, with its log-sum-exp, and no other.
#[test]
fn in_a_query() {
    on_every_backend(|device| {
        for value in [f64::NAN, f64::INFINITY] {
            for row in [0, 17, 69, 70 + 33] {
                let case = case(vec![edit(Operand::Q, row * DIM + 5, value)]);
                let solved = case.solve::<f16>();
                let nan = solved.expected.lse.iter().position(|lse| lse.is_nan());
                assert_eq!(nan, Some(row));
                solved.assert_right(device);
                case.causal().assert_right::<bf16>(device);
            }
        }
    });
}

/// In a key: rows that see it are NaN, and no others.
#[test]
fn in_a_key() {
    on_every_backend(|device| {
        for value in [f64::NAN, f64::INFINITY] {
            let case = case(vec![edit(Operand::K, 100 * DIM + 9, value)]);
            case.assert_right::<f16>(device);
            // From the bottom right, query 30 of 70 is the first to see key 100 of 140.
            let causal = case.clone().causal();
            let solved = causal.solve::<f16>();
            let nan = |row: usize| solved.expected.lse[row].is_nan();
            // An infinite key gives scores of either sign, of which -inf hides.
            assert!(!nan(29) && (value == f64::INFINITY || nan(30) && nan(69)));
            solved.assert_right(device);
            AttentionCase { window: Some((20, 20)), ..case.clone() }.assert_right::<bf16>(device);
            let lengths = Some(vec![100, 140]);
            AttentionCase { key_lengths: lengths, ..case }.assert_right::<f16>(device);
        }
    });
}

/// In a value: that column of the rows that see it, as arithmetic gives.
#[test]
fn in_a_value() {
    fn check<T: Element>() {
        on_every_backend(|device| {
            for value in [f64::NAN, f64::INFINITY] {
                let case = case(vec![edit(Operand::V, 100 * DIM + 9, value)]);
                let solved = case.solve::<T>();
                let broken = |n: &usize| !solved.expected.o[*n].is_finite();
                let columns: Vec<_> =
                    (0..solved.expected.o.len()).filter(broken).map(|n| n % DIM).collect();
                // Both heads of the first batch entry.
                assert_eq!(columns, [9; 2 * 70]);
                solved.assert_right(device);
            }
        });
    }
    check::<f16>();
    check::<bf16>();
}

/// A bias of infinity, and one of NaN.
#[test]
fn in_a_bias() {
    use fused_attention::{Attention, AttentionInputs};
    on_every_backend(|device| {
        for value in [f32::NAN, f32::INFINITY] {
            let x = device.upload(&[f16::ONE; 20 * DIM], &[1, 1, 20, DIM]).unwrap();
            let mut numbers = vec![0f32; 20 * 20];
            numbers[7 * 20 + 3] = value;
            let bias = device.upload(&numbers, &[20, 20]).unwrap();
            let inputs = AttentionInputs::new(&x, &x, &x).bias(&bias);
            let output = Attention::new().forward(&inputs).unwrap();
            for (row, o) in output.o.to_vec().unwrap().chunks(DIM).enumerate() {
                assert!(o.iter().all(|o| o.is_nan() == (row == 7)), "row {row}: {o:?}");
            }
            for (row, lse) in output.lse.to_vec().unwrap().iter().enumerate() {
                assert_eq!(lse.is_nan(), row == 7, "row {row}: {lse}");
            }
        }
    });
}
