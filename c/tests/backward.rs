//! The backward by the C interface, bit for bit what the Rust interface computes.

use crate::{
    api::{Emulator, api, scaled},
    mirror::MirroredBackward,
};
use fused_attention::{
    Accumulate, Device, Per, Polarity, RawBackward, RawMask, RawSaved, RawTensor,
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

/// The bits of dx, from a poisoned one, or what is said instead.
fn result<T: Accumulate>(
    saved: RawSaved,
    mask: RawMask,
    run: impl FnOnce(&RawBackward) -> Result<(), String>,
) -> Result<Vec<u64>, String> {
    let dp = numbers::<T>(7919, 2.0);
    let dx = numbers::<T>(1, f64::NAN);
    let (dp, dx_raw) = (RawTensor::from(&dp), RawTensor::from(&dx));
    run(&RawBackward { saved, dp, dx: dx_raw, scale: None, mask })?;
    Ok(dx.to_vec().unwrap().iter().map(|dx| dx.to_f64().to_bits()).collect())
}

/// Calls by both interfaces, and compares.
#[track_caller]
fn compare<T: Accumulate>(saved: RawSaved, mask: RawMask) {
    let expected = result::<T>(saved, mask, |call| {
        let stream = Device::emulator().default_stream();
        // SAFETY: the tensors are alive, and nobody else's.
        let result = unsafe { ScaledMaskedSoftmax::new(SCALE).backward_raw(&stream, call) };
        result.map_err(|error| error.to_string())
    });
    let found = result::<T>(saved, mask, |call| {
        let device = Emulator::open();
        let tensors = MirroredBackward::new(&device, call);
        // SAFETY: as above; the structs are those of the source.
        let status = unsafe {
            let backward = api().fa_softmax_backward;
            backward(device.handle(), &scaled(SCALE), &tensors.tensors, null_mut())
        };
        tensors.copy_back();
        if status == 0 { Ok(()) } else { Err(api().message()) }
    });
    assert!(found == expected, "{found:?}\nis not\n{expected:?}");
}

fn compare_both_sources<T: Accumulate>(mask: RawMask) {
    let saved = numbers::<T>(17, 1.0);
    compare::<T>(RawSaved::Probabilities((&saved).into()), mask);
    compare::<T>(RawSaved::Scores((&saved).into()), mask);
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
