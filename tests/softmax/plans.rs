//! Plans are kept between calls, and never taken for another problem.

use fused_attention::{Causal, Mask, Scalar, ScaledMaskedSoftmax, SoftmaxInputs, Tensor};
use support::{
    on_every_backend,
    placement::Placement,
    random::Random,
    softmax_case::{ByteMask, SoftmaxCase},
};

fn normal(count: usize) -> Vec<f32> {
    let mut random = Random::new(9);
    (0..count).map(|_| random.normal() as f32).collect()
}

/// The bits of a tensor's elements.
fn bits<T: Scalar>(tensor: &Tensor<T>) -> String {
    format!("{:?}", tensor.to_vec().unwrap())
}

#[test]
fn the_same_call_gives_the_same_bits() {
    on_every_backend(|device| {
        for columns in [40, 1000, 9000, 70_000] {
            let x = device.upload(&normal(3 * columns), &[3, columns]).unwrap();
            let softmax = ScaledMaskedSoftmax::new(0.3).causal(Causal::BottomRight);
            let first = softmax.forward_with_lse(SoftmaxInputs::new(&x)).unwrap();
            for _ in 0..3 {
                let again = softmax.forward_with_lse(SoftmaxInputs::new(&x)).unwrap();
                assert_eq!(bits(&again.0), bits(&first.0));
                assert_eq!(bits(&again.1), bits(&first.1));
            }
        }
    });
}

/// Other memory, other numbers, the same form: the plan is the same, the result is not.
#[test]
fn a_plan_holds_no_addresses() {
    on_every_backend(|device| {
        for seed in 0..5 {
            let case = SoftmaxCase { seed, ..SoftmaxCase::new(&[3, 100]) };
            SoftmaxCase { bytes: Some(ByteMask::new(&[3, 100])), ..case }
                .assert_right::<f32>(device);
        }
    });
}

/// Problems that differ in one thing only, one after the other and again.
#[test]
fn neighbouring_problems_do_not_mix() {
    let shape = [2, 6, 64];
    let plain = SoftmaxCase::new(&shape);
    let bytes = |shape: &[usize]| Some(ByteMask::new(shape));
    let cases = [
        plain.clone(),
        SoftmaxCase { scale: 0.5, ..plain.clone() },
        SoftmaxCase { scale_on_device: true, ..plain.clone() },
        SoftmaxCase { causal: Some(Causal::TopLeft), ..plain.clone() },
        SoftmaxCase { causal: Some(Causal::BottomRight), ..plain.clone() },
        SoftmaxCase { window: Some((3, 2)), ..plain.clone() },
        SoftmaxCase { window: Some((2, 3)), ..plain.clone() },
        SoftmaxCase { window: Some((3, 2)), diagonal: Causal::TopLeft, ..plain.clone() },
        SoftmaxCase { window: Some((3, 2)), causal: Some(Causal::BottomRight), ..plain.clone() },
        SoftmaxCase { bytes: bytes(&shape), ..plain.clone() },
        SoftmaxCase { bytes: bytes(&[6, 64]), ..plain.clone() },
        SoftmaxCase { bytes: bytes(&[2, 1, 64]), ..plain.clone() },
        SoftmaxCase { x: Placement::Offset(1), ..plain.clone() },
        SoftmaxCase { x: Placement::Offset(8), ..plain.clone() },
        SoftmaxCase { y: Placement::Offset(1), ..plain.clone() },
        SoftmaxCase { shape: vec![6, 2, 64], ..plain.clone() },
        SoftmaxCase { shape: vec![12, 64], ..plain },
    ];
    on_every_backend(|device| {
        for _ in 0..2 {
            for case in &cases {
                case.assert_right::<f32>(device);
            }
        }
    });
}

/// Many threads at once.
#[test]
fn threads_share_plans() {
    on_every_backend(|device| {
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                scope.spawn(move || {
                    for i in 0..20 {
                        let case = SoftmaxCase::new(&[2, 30 + (i + 5 * thread as usize) % 20]);
                        SoftmaxCase { seed: thread, ..case }.assert_right::<f32>(device);
                    }
                });
            }
        });
    });
}

/// The options' hash and equality tell scales apart by their bits.
#[test]
fn options_compare() {
    let softmax = ScaledMaskedSoftmax::new(0.5);
    assert_eq!(softmax, ScaledMaskedSoftmax::new(0.5));
    assert_ne!(softmax, ScaledMaskedSoftmax::new(0.25));
    assert_ne!(softmax, softmax.causal(Causal::TopLeft));
    assert_ne!(softmax.causal(Causal::TopLeft), softmax.causal(Causal::BottomRight));
    assert_eq!(ScaledMaskedSoftmax::new(f64::NAN), ScaledMaskedSoftmax::new(f64::NAN));
    let x = [0.0f32; 4];
    on_every_backend(|device| {
        let x = device.upload(&x, &[1, 4]).unwrap();
        let y = ScaledMaskedSoftmax::new(f64::NAN).forward(&x, Mask::none()).unwrap();
        assert!(y.to_vec().unwrap().iter().all(|y| y.is_nan()));
    });
}
