//! Plans are kept between calls, and never taken for another problem.

use super::from_either;
use fused_attention::{Causal, GradientInputs, Mask, ScaledMaskedSoftmax};
use support::{
    on_every_backend,
    placement::Placement,
    random::Random,
    softmax_case::{BackwardCase, ByteMask, SoftmaxCase},
};

#[test]
fn the_same_call_gives_the_same_bits() {
    on_every_backend(|device| {
        for columns in [40, 1000, 9000, 70_000] {
            let mut random = Random::new(9);
            let mut normal = || {
                let numbers: Vec<f32> = (0..3 * columns).map(|_| random.normal() as f32).collect();
                device.upload(&numbers, &[3, columns]).unwrap()
            };
            let (x, dp) = (normal(), normal());
            let softmax = ScaledMaskedSoftmax::new(0.3).causal(Causal::BottomRight);
            let p = softmax.forward(&x, Mask::none()).unwrap();
            for inputs in
                [GradientInputs::from_probabilities(&p, &dp), GradientInputs::from_scores(&x, &dp)]
            {
                let bits = || -> Vec<u32> {
                    let dx = softmax.backward(inputs).unwrap().to_vec().unwrap();
                    dx.into_iter().map(f32::to_bits).collect()
                };
                let first = bits();
                assert!((0..3).all(|_| bits() == first), "{columns} columns on {device}");
            }
        }
    });
}

/// Problems that differ in one thing only, one after the other and again, with other numbers.
#[test]
fn neighbouring_problems_do_not_mix() {
    let shape = [2, 6, 64];
    let plain = SoftmaxCase::new(&shape);
    let forwards = [
        plain.clone(),
        SoftmaxCase { scale: 0.5, ..plain.clone() },
        SoftmaxCase { scale_on_device: true, ..plain.clone() },
        SoftmaxCase { causal: Some(Causal::TopLeft), ..plain.clone() },
        SoftmaxCase { causal: Some(Causal::BottomRight), ..plain.clone() },
        SoftmaxCase { window: Some((3, 2)), ..plain.clone() },
        SoftmaxCase { bytes: Some(ByteMask::new(&shape)), ..plain.clone() },
        SoftmaxCase { x: Placement::Offset(1), ..plain.clone() },
        SoftmaxCase { y: Placement::Offset(1), ..plain.clone() },
        SoftmaxCase { shape: vec![12, 64], ..plain },
    ];
    let in_gradient = |case: &BackwardCase, dp| BackwardCase { dp, ..case.clone() };
    on_every_backend(|device| {
        for seed in 0..2 {
            for forward in &forwards {
                let forward = SoftmaxCase { seed, ..forward.clone() };
                forward.assert_right::<f32>(device);
                for case in from_either(forward) {
                    case.assert_right::<f32>(device);
                    in_gradient(&case, Placement::Offset(1)).assert_right::<f32>(device);
                    in_gradient(&case, Placement::Sliced(4)).assert_right::<f32>(device);
                }
            }
        }
    });
}
