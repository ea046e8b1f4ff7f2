//! Causal masks, windows and ALiBi: what counts by position.

use fused_attention::{Attention, AttentionInputs, Causal};
use half::{bf16, f16};
use support::{attention_case::AttentionCase, on_every_backend, random::Random};

/// Lengths around one another and around tiles.
const LENGTHS: [(usize, usize); 7] =
    [(1, 1), (1, 70), (70, 1), (65, 129), (129, 65), (64, 64), (100, 300)];

#[test]
fn causal_from_either_corner() {
    on_every_backend(|device| {
        for (queries, keys) in LENGTHS {
            for causal in [Causal::BottomRight, Causal::TopLeft] {
                let case = AttentionCase::new((1, 2, queries, keys, 64));
                let case = AttentionCase { causal: Some(causal), ..case };
                case.assert_right::<f16>(device);
                case.assert_right::<bf16>(device);
            }
        }
    });
}

#[test]
fn windows() {
    let windows = [(0, 0), (3, 5), (-1, 7), (40, -1), (64, 64), (1000, 0), (i64::MAX, i64::MAX)];
    on_every_backend(|device| {
        for (queries, keys) in LENGTHS {
            for window in windows {
                for diagonal in [Causal::BottomRight, Causal::TopLeft] {
                    let case = AttentionCase::new((1, 1, queries, keys, 64));
                    let window = Some(window);
                    AttentionCase { window, diagonal, ..case }.assert_right::<f16>(device);
                }
            }
        }
        // Beside a causal mask, which hides what is right of the diagonal.
        let case = AttentionCase { window: Some((9, 9)), ..AttentionCase::new((1, 1, 70, 90, 64)) };
        case.causal().assert_right::<f16>(device);
    });
}

/// A window of (S - 1, 0) is a causal mask, to the bit.
#[test]
fn a_window_that_is_causal() {
    on_every_backend(|device| {
        let mut random = Random::new(2);
        let numbers: Vec<f16> = (0..150 * 64).map(|_| f16::from_f64(random.normal())).collect();
        let x = device.upload(&numbers, &[1, 1, 150, 64]).unwrap();
        let inputs = AttentionInputs::new(&x, &x, &x);
        let results = [
            Attention::new().causal(Causal::BottomRight),
            Attention::new().causal(Causal::TopLeft),
            Attention::new().window(149, 0),
            Attention::new().window(-1, 0),
            Attention::new().window(-7, 0).diagonal(Causal::TopLeft),
        ]
        .map(|attention| {
            let output = attention.forward(&inputs).unwrap();
            (output.o.to_vec().unwrap(), output.lse.to_vec().unwrap())
        });
        assert!(results.iter().all(|result| *result == results[0]));
    });
}

/// ALiBi counts from the bottom right diagonal, whatever the numbers of queries, keys and heads.
#[test]
fn alibi() {
    on_every_backend(|device| {
        for (queries, keys) in LENGTHS {
            for heads in [1, 3, 6] {
                let case = AttentionCase::new((2, heads, queries, keys, 64));
                for slopes in [vec![heads], vec![2, heads], vec![2, 1], vec![1]] {
                    let case = AttentionCase { slopes: Some(slopes), ..case.clone() };
                    case.assert_right::<f16>(device);
                }
                let case = AttentionCase { slopes: Some(vec![heads]), ..case };
                case.clone().causal().assert_right::<bf16>(device);
                AttentionCase { key_lengths: Some(vec![keys as i32 / 2, keys as i32]), ..case }
                    .assert_right::<f16>(device);
            }
        }
    });
}
