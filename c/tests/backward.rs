//! The backward by the C interface, bit for bit what the Rust interface computes.

use crate::{
    abi::{fa_diagonal, fa_softmax_options},
    api::{Emulator, api, scaled},
    mirror::MirroredBackward,
};
use fused_attention::{
    Accumulate, Causal, Device, Per, Polarity, RawBackward, RawMask, RawSaved, RawTensor,
    ScaledMaskedSoftmax, Tensor,
};
use half::{bf16, f16};
use std::ptr::{null, null_mut};

const SCALE: f64 = 0.7;

/// Batch entries, heads, queries and keys.
const SHAPE: [usize; 4] = [2, 3, 5, 37];

/// Numbers up to `most` in magnitude, as a tensor of the emulator.
fn numbers<T: Accumulate>(step: usize, most: f64) -> Tensor<T> {
    let number = |i: usize| T::from_f64(((i * step % 401) as f64 / 200.0 - 1.0) * most);
    let values: Vec<T> = (0..SHAPE.iter().product()).map(number).collect();
    Device::emulator().upload(&values, &SHAPE).unwrap()
}

/// The bits of dx that `run` leaves of a poisoned one.
fn result<T: Accumulate>(
    saved: RawSaved,
    mask: RawMask,
    scale: Option<RawTensor>,
    run: impl FnOnce(&RawBackward),
) -> Vec<u64> {
    let dp = numbers::<T>(7919, 2.0);
    let dx = numbers::<T>(1, f64::NAN);
    run(&RawBackward { saved, dp: (&dp).into(), dx: (&dx).into(), scale, mask });
    dx.to_vec().unwrap().iter().map(|dx| dx.to_f64().to_bits()).collect()
}

/// Calls by both interfaces, and compares.
#[track_caller]
fn compare<T: Accumulate>(
    (rust, c): (ScaledMaskedSoftmax, fa_softmax_options),
    saved: RawSaved,
    mask: RawMask,
    scale: Option<RawTensor>,
) {
    let expected = result::<T>(saved, mask, scale, |call| {
        let stream = Device::emulator().default_stream();
        // SAFETY: the tensors are alive, and nobody else's.
        unsafe { rust.backward_raw(&stream, call) }.unwrap();
    });
    let found = result::<T>(saved, mask, scale, |call| {
        let device = Emulator::open();
        let tensors = MirroredBackward::new(&device, call);
        // SAFETY: as above; the structs are those of the source.
        api().check(unsafe {
            (api().fa_softmax_backward)(device.handle(), &c, &tensors.tensors, null_mut())
        });
        tensors.copy_back();
    });
    assert!(found == expected, "{found:?}\nis not\n{expected:?}");
    let is_nan = |bits: &u64| f64::from_bits(*bits).is_nan();
    assert!(!found.iter().any(is_nan), "an element of dx is not written");
    assert!(found.iter().any(|&bits| f64::from_bits(bits) != 0.0), "dx is zero");
}

fn plain() -> (ScaledMaskedSoftmax, fa_softmax_options) {
    (ScaledMaskedSoftmax::new(SCALE), scaled(SCALE))
}

/// From probabilities and from scores.
fn sources<T: Accumulate>(saved: &Tensor<T>) -> [RawSaved; 2] {
    [RawSaved::Probabilities(saved.into()), RawSaved::Scores(saved.into())]
}

fn compare_both_sources<T: Accumulate>(mask: RawMask) {
    for saved in sources(&numbers::<T>(17, 1.0)) {
        compare::<T>(plain(), saved, mask, None);
    }
}

#[test]
fn every_type() {
    compare_both_sources::<f16>(RawMask::default());
    compare_both_sources::<bf16>(RawMask::default());
    compare_both_sources::<f32>(RawMask::default());
    compare_both_sources::<f64>(RawMask::default());
}

#[test]
fn masks() {
    let device = Device::emulator();
    let bytes: Vec<u8> = (0..SHAPE.iter().product()).map(|i| u8::from(i % 3 == 0)).collect();
    let bytes = device.upload(&bytes, &SHAPE).unwrap();
    let lengths = device.upload(&[30, 0], &[2]).unwrap();
    compare_both_sources::<bf16>(RawMask {
        bytes: Some(((&bytes).into(), Polarity::Exclude)),
        lengths: Some(((&lengths).into(), Per::Batch)),
        ..RawMask::default()
    });
    let bank = [4, 1, 5, 37];
    let values: Vec<f32> = (0..bank.iter().product()).map(|i: usize| (i % 7) as f32).collect();
    let additive = device.upload(&values, &bank).unwrap();
    let index = device.upload(&[3, 1], &[2]).unwrap();
    compare_both_sources::<f16>(RawMask {
        additive: Some((&additive).into()),
        bank_index: Some((&index).into()),
        ..RawMask::default()
    });
}

#[test]
fn options_and_a_scale_in_device_memory() {
    let causal = ScaledMaskedSoftmax::new(f64::NAN).causal(Causal::TopLeft).window(9, -1);
    let c = fa_softmax_options {
        is_causal: 1,
        diagonal: fa_diagonal::TopLeft as u32,
        has_window: 1,
        window_left: 9,
        window_right: -1,
        ..scaled(f64::NAN)
    };
    let scale = Device::emulator().upload(&[-1.25f32], &[1]).unwrap();
    for saved in sources(&numbers::<f32>(17, 1.0)) {
        compare::<f32>((causal, c), saved, RawMask::default(), Some((&scale).into()));
    }
}

#[test]
fn the_gradient_may_take_its_source_s_place() {
    for saved in sources(&numbers::<f32>(17, 1.0)) {
        let expected = result::<f32>(saved, RawMask::default(), None, |call| {
            let stream = Device::emulator().default_stream();
            // SAFETY: the tensors are alive, and nobody else's.
            unsafe { plain().0.backward_raw(&stream, call) }.unwrap();
        });
        for in_dp in [true, false] {
            let found = result::<f32>(saved, RawMask::default(), None, |call| {
                let device = Emulator::open();
                let mut mirrored = MirroredBackward::new(&device, call);
                let tensors = mirrored.tensors;
                let source = if tensors.p.is_null() { tensors.x } else { tensors.p };
                let place = if in_dp { tensors.dp } else { source };
                mirrored.tensors.dx = place;
                // SAFETY: as above.
                api().check(unsafe {
                    let backward = api().fa_softmax_backward;
                    backward(device.handle(), &plain().1, &mirrored.tensors, null_mut())
                });
                mirrored.copy_back_from(place);
            });
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn a_plan_says_what_rust_says() {
    let (saved, dp, dx) =
        (numbers::<bf16>(17, 1.0), numbers::<bf16>(3, 1.0), numbers::<bf16>(5, 1.0));
    for saved in sources(&saved) {
        let (dp, dx) = ((&dp).into(), (&dx).into());
        let call = RawBackward { saved, dp, dx, scale: None, mask: RawMask::default() };
        let (rust, c) = plain();
        let stream = Device::emulator().default_stream();
        let expected = rust.explain_backward_raw(&stream, &call).unwrap().to_string();
        let device = Emulator::open();
        let tensors = MirroredBackward::new(&device, &call);
        let (mut text, mut length) = (vec![0u8; 4096], 0);
        let to = text.as_mut_ptr().cast();
        // SAFETY: there is room for as many bytes.
        api().check(unsafe {
            let plan = api().fa_softmax_backward_plan;
            plan(device.handle(), &c, &tensors.tensors, to, text.len(), &mut length)
        });
        assert_eq!(String::from_utf8_lossy(&text[..length]), expected);
    }
}

#[test]
fn what_is_refused() {
    let (device, saved) = (Emulator::open(), numbers::<f32>(17, 1.0));
    let (dp, dx) = (numbers::<f32>(3, 1.0), numbers::<f32>(5, 1.0));
    let call = RawBackward {
        saved: RawSaved::Probabilities((&saved).into()),
        dp: (&dp).into(),
        dx: (&dx).into(),
        scale: None,
        mask: RawMask::default(),
    };
    let mirrored = MirroredBackward::new(&device, &call);
    let status = |change: &dyn Fn(&mut crate::abi::fa_softmax_backward_tensors)| {
        let mut tensors = mirrored.tensors;
        change(&mut tensors);
        let (backward, plan) = (api().fa_softmax_backward, api().fa_softmax_backward_plan);
        // SAFETY: pointers are null or valid.
        let statuses = unsafe {
            [
                backward(device.handle(), &scaled(SCALE), &tensors, null_mut()),
                plan(device.handle(), &scaled(SCALE), &tensors, null_mut(), 0, null_mut()),
            ]
        };
        assert_eq!(statuses[0], statuses[1]);
        format!("{}: {}", api().name(statuses[0]), api().message())
    };
    assert_eq!(status(&|tensors| tensors.p = null()), "NULL_ARGUMENT: p and x are null");
    assert_eq!(
        status(&|tensors| tensors.x = tensors.p),
        "CONFLICTING_ARGUMENTS: p and x are given, and one of them counts"
    );
    assert_eq!(status(&|tensors| tensors.dp = null()), "NULL_ARGUMENT: dp is null");
    assert_eq!(status(&|tensors| tensors.dx = null()), "NULL_ARGUMENT: dx is null");
    assert!(status(&|tensors| tensors.struct_size -= 1).starts_with("STRUCT_SIZE: "));
    let plan = api().fa_softmax_backward_plan;
    // SAFETY: null is allowed.
    let status = unsafe {
        let nothing = (null_mut(), null_mut());
        plan(null(), &scaled(SCALE), &mirrored.tensors, nothing.0, 0, nothing.1)
    };
    assert_eq!(api().name(status), "NULL_ARGUMENT");
}
