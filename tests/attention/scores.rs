//! Scores of every size: equal, far from 0, scaled by anything, capped.

use fused_attention::{Attention, AttentionInputs, Device, Element};
use half::{bf16, f16};
use support::{
    attention_case::{AttentionCase, Edit, Operand},
    on_every_backend,
    softmax_case::{AdditiveMask, Values},
};

/// The mean of the visible values where all scores are the same.
#[test]
fn equal_scores_average() {
    let case =
        AttentionCase { values: Values::Constant(0.0), ..AttentionCase::new((2, 2, 70, 150, 64)) };
    on_every_backend(|device| {
        for case in [case.clone(), case.clone().causal()] {
            case.assert_right::<f16>(device);
            case.assert_right::<bf16>(device);
        }
    });
}

/// Each logit is about -66854.86: the mean of the values, and a log-sum-exp that is that and ln n.
#[test]
fn equal_scores_far_from_zero() {
    fn check<T: Element>(device: &Device) {
        let (keys, dim) = (100, 64);
        let q = device.upload(&vec![T::from_f64(-32.0); dim], &[1, 1, 1, dim]).unwrap();
        let k = device.upload(&vec![T::from_f64(32.0); keys * dim], &[1, 1, keys, dim]).unwrap();
        let v: Vec<T> = (0..keys * dim).map(|n| T::from_f64((n / dim % 8) as f64)).collect();
        let v = device.upload(&v, &[1, 1, keys, dim]).unwrap();
        let logit = -66854.86f64;
        let attention = Attention::new().scale(logit / (-1024.0 * dim as f64));
        let output = attention.forward(&AttentionInputs::new(&q, &k, &v)).unwrap();
        let mean = (0..keys).map(|j| (j % 8) as f64).sum::<f64>() / keys as f64;
        for o in output.o.to_vec().unwrap() {
            assert!((o.to_f64() - mean).abs() <= mean / 200.0, "{o:?}, not {mean}");
        }
        let expected = logit + (keys as f64).ln();
        for lse in output.lse.to_vec().unwrap() {
            // A unit in the last place is 1/128.
            assert!((f64::from(lse) - expected).abs() < 4.0 / 128.0, "{lse}, not {expected}");
        }
    }
    on_every_backend(|device| {
        check::<f16>(device);
        check::<bf16>(device);
    });
}

/// Scales of both signs, 0, and so large or small that products come near the ends of f32; also in
/// device memory.
#[test]
fn scales() {
    let case = AttentionCase::new((1, 2, 33, 100, 64));
    on_every_backend(|device| {
        for scale in [0.125, 0.0, -0.125, -1.0, 1e-30, -1e-38, 1e-3] {
            for scale_on_device in [false, true] {
                let case = AttentionCase { scale: Some(scale), scale_on_device, ..case.clone() };
                case.assert_right::<f16>(device);
                case.causal().assert_right::<bf16>(device);
            }
        }
    });
}

/// Where one score is far above the others, its value is the result.
#[test]
fn huge_scores_choose() {
    on_every_backend(|device| {
        for scale in [1e4, -1e4, 1e30, f64::from(f32::MAX)] {
            let (queries, keys, dim) = (20, 90, 64);
            let q = device.upload(&vec![f16::from_f64(8.0); queries * dim], &[1, 1, queries, dim]);
            // Key 77 has the largest product, key 5 the smallest.
            let number = |n: usize| match n / dim {
                77 => 3.0,
                5 => -3.0,
                _ => 0.5,
            };
            let k: Vec<f16> = (0..keys * dim).map(|n| f16::from_f64(number(n))).collect();
            let v: Vec<f16> = (0..keys * dim).map(|n| f16::from_f64((n / dim) as f64)).collect();
            let k = device.upload(&k, &[1, 1, keys, dim]).unwrap();
            let v = device.upload(&v, &[1, 1, keys, dim]).unwrap();
            let inputs = AttentionInputs::new(q.as_ref().unwrap(), &k, &v);
            let output = Attention::new().scale(scale).forward(&inputs).unwrap();
            let chosen = f16::from_f64(if scale > 0.0 { 77.0 } else { 5.0 });
            let o = output.o.to_vec().unwrap();
            assert!(o.iter().all(|&o| o == chosen), "scale {scale}: {o:?}");
        }
    });
}

/// The cap bends scores before anything is added to them or hides them.
#[test]
fn caps() {
    let case = AttentionCase { scale: Some(0.7), ..AttentionCase::new((1, 2, 40, 130, 64)) };
    let bias = AdditiveMask::new(&case.scores());
    let lowest = Values::Either(f64::from(f32::MIN), 0.0);
    let lowest = AdditiveMask { wide: true, values: lowest, ..bias.clone() };
    on_every_backend(|device| {
        for softcap in [0.5, 20.0, 1e4, 1e30] {
            let case = AttentionCase { softcap: Some(softcap), ..case.clone() };
            for case in [
                case.clone(),
                case.clone().causal(),
                AttentionCase { window: Some((20, 3)), ..case.clone() },
                AttentionCase { bias: Some(bias.clone()), ..case.clone() },
                AttentionCase { bias: Some(lowest.clone()), ..case.clone() },
                AttentionCase { slopes: Some(vec![2]), ..case.clone() },
                AttentionCase { dropout: Some((0.3, 1, 2)), ..case.clone() },
            ] {
                case.assert_right::<f16>(device);
            }
            case.assert_right::<bf16>(device);
        }
    });
}

/// Scores so large that rounding a product with one moves exponents by any amount: the largest alone
/// counts, and of several such their mean. Powers of two, so that ties are ties in any order of sums.
#[test]
fn scores_near_the_largest_number() {
    fn check<T: Element>(exponents: &[i32], device: &Device) {
        for &exponent in exponents {
            let size = 2f64.powi(exponent);
            for scale in [None, Some(3.0)] {
                let case = AttentionCase {
                    values: Values::Either(-size, size),
                    scale,
                    ..AttentionCase::new((1, 2, 70, 150, 64))
                };
                case.assert_right::<T>(device);
                let case = AttentionCase { values: Values::Constant(size), ..case };
                case.assert_right::<T>(device);
            }
        }
    }
    on_every_backend(|device| {
        check::<f16>(&[10, 15], device);
        check::<bf16>(&[11, 20, 40, 60], device);
        check::<f32>(&[11, 20, 40, 60], device);
    });
}

/// Rows whose scores are of one size in some blocks of keys, and of quite another in others: their
/// neighbours' too.
#[test]
fn scores_that_come_near_and_go_far() {
    let case = AttentionCase::new((1, 1, 40, 300, 64));
    let element = |operand, row: usize, value| Edit { operand, element: 64 * row, value };
    let far = |key| element(Operand::K, key, 2f64.powi(24));
    // Far above or below the other scores of a row, by the sign of its query.
    let late = AttentionCase { edits: vec![far(5)], ..case.clone() };
    // Far below in blocks that come first.
    let low = (0..40).map(|query| element(Operand::Q, query, -1.0));
    let early = AttentionCase { edits: low.chain((150..300).map(far)).collect(), ..case.clone() };
    on_every_backend(|device| {
        for case in [&late, &early] {
            case.assert_right::<f32>(device);
            case.assert_right::<bf16>(device);
        }
    });
}
