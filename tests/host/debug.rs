//! What `FUSED_ATTENTION_DEBUG` prints. It is read once, so it is set for a process of its own: this
//! binary again.

use conformance_kernels::arguments::nothing;
use fused_attention::{
    Accumulate, Device, Element, Error, GradientInputs, LaunchConfig, Launcher, Mask,
    ScaledMaskedSoftmax,
};
use half::{bf16, f16};
use std::process::Command;

/// What the ignored test of this name prints with these switches.
fn output_of(test: &str, switches: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", test])
        .env("FUSED_ATTENTION_DEBUG", switches)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{test}: {text}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn trace_prints_launches_and_their_time() {
    let test = "host::debug::launches_once";
    let traced = output_of(test, "trace");
    let launch = traced.lines().find(|line| line.starts_with("nothing: ")).expect(&traced);
    assert!(launch.contains("grid (2, 1, 1), block (32, 1, 1), cluster 1, 64 bytes"), "{launch}");
    assert!(launch.ends_with(" us"), "{launch}");
    assert!(output_of(test, "nan, trace").contains("nothing: "));
    assert!(!output_of(test, "").contains("nothing: "));
}

#[test]
#[ignore = "prints by a switch: run by trace_prints_launches_and_their_time"]
fn launches_once() {
    crate::conformance::harness::conformance(|device| {
        let config = LaunchConfig::new(2, 32).shared_bytes(64);
        // SAFETY: the kernel touches no memory.
        unsafe { device.default_stream().launch(&nothing, config, ()) }.unwrap();
    });
}

#[test]
fn trace_prints_plans() {
    let traced = output_of("host::debug::computes_a_softmax", "trace");
    for operation in ["softmax forward: ", "softmax backward: "] {
        assert!(traced.lines().any(|line| line.starts_with(operation)), "{traced}");
    }
}

#[test]
#[ignore = "prints by a switch: run by trace_prints_plans"]
fn computes_a_softmax() {
    support::on_every_backend(|device| {
        let x = device.upload(&[0f32; 6], &[2, 3]).unwrap();
        let softmax = ScaledMaskedSoftmax::new(1.0);
        let y = softmax.forward(&x, Mask::none()).unwrap();
        softmax.backward(GradientInputs::from_probabilities(&y, &x)).unwrap();
    });
}

#[test]
fn nan_mode_names_the_first_bad_element() {
    output_of("host::debug::nan_is_found", "nan");
}

#[test]
#[ignore = "needs a switch: run by nan_mode_names_the_first_bad_element"]
fn nan_is_found() {
    support::on_every_backend(|device| {
        softmax_of_nan::<f16>(device);
        softmax_of_nan::<bf16>(device);
        softmax_of_nan::<f32>(device);
        softmax_of_nan::<f64>(device);
    });
}

fn softmax_of_nan<T: Accumulate>(device: &Device) {
    let softmax = ScaledMaskedSoftmax::new(1.0);
    let mut x = [T::from_f64(f64::INFINITY); 24];
    for (i, x) in x.iter_mut().enumerate().skip(8) {
        *x = T::from_f64(f64::from(i as u32 % 4));
    }
    // In the view, rows 2 to 5 without the last column: the first NaN is the one at [1, 1].
    (x[4 * 3 + 1], x[4 * 3 + 2], x[4 * 2 + 3]) = (nan::<T>(), nan::<T>(), nan::<T>());
    let view = device.upload(&x, &[6, 4]).unwrap().narrow(0, 2, 4).unwrap();
    let view = view.narrow(1, 0, 3).unwrap();
    let error = softmax.forward(&view, Mask::none()).unwrap_err();
    let Error::NanFound { operation: "softmax forward", tensor: "x", index } = error else {
        panic!("{error}")
    };
    assert_eq!(index, [1, 1], "{}", T::DTYPE);
    softmax.forward(&view.narrow(0, 2, 2).unwrap(), Mask::none()).unwrap();
    // An infinity is no NaN, but makes some: found in the result.
    let infinite = device.upload(&x[..4], &[1, 4]).unwrap();
    let error = softmax.forward(&infinite, Mask::none()).unwrap_err();
    assert!(matches!(&error, Error::NanFound { tensor: "y", index, .. } if index == &[0, 0]));
    // In the backward, each of the inputs, then the result.
    let finite = device.upload(&[T::from_f64(0.5); 12], &[4, 3]).unwrap();
    for (inputs, tensor) in [
        (GradientInputs::from_probabilities(&view, &finite), "p"),
        (GradientInputs::from_scores(&view, &finite), "x"),
        (GradientInputs::from_scores(&finite, &view), "dp"),
    ] {
        let error = softmax.backward(inputs).unwrap_err();
        let Error::NanFound { operation: "softmax backward", tensor: found, index } = error else {
            panic!("{error}")
        };
        assert_eq!((found, &*index), (tensor, &[1, 1][..]), "{}", T::DTYPE);
    }
    softmax.backward(GradientInputs::from_scores(&finite, &finite)).unwrap();
    let dp = device.upload(&[T::from_f64(0.0); 4], &[1, 4]).unwrap();
    let error = softmax.backward(GradientInputs::from_scores(&infinite, &dp)).unwrap_err();
    assert!(matches!(&error, Error::NanFound { tensor: "dx", index, .. } if index == &[0, 0]));
}

fn nan<T: Element>() -> T {
    T::from_f64(f64::NAN)
}

#[test]
fn without_the_switch_nan_passes() {
    assert!(std::env::var_os("FUSED_ATTENTION_DEBUG").is_none(), "set for the whole run");
    support::on_every_backend(|device| {
        let x = device.upload(&[f32::NAN, 0.0], &[1, 2]).unwrap();
        let y = ScaledMaskedSoftmax::new(1.0).forward(&x, Mask::none()).unwrap();
        assert!(y.to_vec().unwrap().iter().all(|y| y.is_nan()));
    });
}
