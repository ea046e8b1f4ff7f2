//! The forward by the C interface, bit for bit what the Rust interface computes.

use crate::{
    abi::{fa_diagonal, fa_softmax_options},
    api::{Emulator, api, scaled},
    mirror::MirroredForward,
};
use fused_attention::{
    Accumulate, Causal, Device, Dtype, Element, Per, Polarity, RawForward, RawMask, RawTensor,
    Scalar, ScaledMaskedSoftmax, Tensor,
};
use half::{bf16, f16};
use std::{ptr::null_mut, thread};

const SCALE: f64 = 0.7;

/// Batch entries, heads, queries and keys.
const SHAPE: [usize; 4] = [2, 3, 5, 37];

/// Numbers from -2 to 2, in an order that no mask repeats.
fn number<T: Element>(i: usize) -> T {
    T::from_f64((i * 7919 % 401) as f64 / 100.0 - 2.0)
}

/// A tensor of the emulator with these elements.
fn filled<T: Scalar>(shape: &[usize], element: impl Fn(usize) -> T) -> Tensor<T> {
    let values: Vec<T> = (0..shape.iter().product()).map(element).collect();
    Device::emulator().upload(&values, shape).unwrap()
}

fn raw<T: Scalar>(tensor: &Tensor<T>) -> RawTensor {
    tensor.into()
}

fn plain() -> (ScaledMaskedSoftmax, fa_softmax_options) {
    (ScaledMaskedSoftmax::new(SCALE), scaled(SCALE))
}

/// The bits of y and of the log-sum-exp that `run` leaves of poisoned ones.
fn results<T: Accumulate>(
    x: RawTensor,
    mask: RawMask,
    scale: Option<RawTensor>,
    run: impl FnOnce(&RawForward),
) -> (Vec<u64>, Vec<u64>) {
    let y = filled::<T>(&x.shape, |_| T::from_f64(9.0));
    let lse = filled(&x.shape[..x.rank() - 1], |_| T::Accumulator::from_f64(9.0));
    run(&RawForward { x, y: raw(&y), lse: Some(raw(&lse)), scale, mask });
    let bits = |value: f64| value.to_bits();
    (
        y.to_vec().unwrap().iter().map(|y| bits(y.to_f64())).collect(),
        lse.to_vec().unwrap().iter().map(|lse| bits(lse.to_f64())).collect(),
    )
}

/// Calls by both interfaces, and compares.
#[track_caller]
fn compare<T: Accumulate>(
    (rust, c): (ScaledMaskedSoftmax, fa_softmax_options),
    mask: RawMask,
    scale: Option<RawTensor>,
) {
    let x = filled(&SHAPE, number::<T>);
    let expected = results::<T>(raw(&x), mask, scale, |call| {
        let stream = Device::emulator().default_stream();
        // SAFETY: the tensors are alive, and nobody else's.
        unsafe { rust.forward_raw(&stream, call) }.unwrap();
    });
    let found = results::<T>(raw(&x), mask, scale, |call| {
        let device = Emulator::open();
        let tensors = MirroredForward::new(&device, call);
        // SAFETY: as above; the structs are those of the source.
        api().check(unsafe {
            (api().fa_softmax_forward)(device.handle(), &c, &tensors.tensors, null_mut())
        });
        tensors.copy_back();
    });
    assert!(found == expected, "{found:?}\nis not\n{expected:?}");
    let poison = 9f64.to_bits();
    assert!(!found.0.contains(&poison), "an element of y is not written");
    assert!(!found.1.contains(&poison), "an element of lse is not written");
}

#[test]
fn every_type() {
    compare::<f16>(plain(), RawMask::default(), None);
    compare::<bf16>(plain(), RawMask::default(), None);
    compare::<f32>(plain(), RawMask::default(), None);
    compare::<f64>(plain(), RawMask::default(), None);
}

#[test]
fn byte_masks_of_either_polarity() {
    let whole = filled(&SHAPE, |i| (i % 3) as u8);
    let broadcast = filled(&[2, 1, 1, 37], |i| (i % 5) as u8);
    for bytes in [raw(&whole), raw(&broadcast)] {
        for polarity in [Polarity::Exclude, Polarity::Keep] {
            let mask = RawMask { bytes: Some((bytes, polarity)), ..RawMask::default() };
            compare::<bf16>(plain(), mask, None);
        }
    }
}

#[test]
fn additive_masks() {
    let hidden = |i: usize| if i.is_multiple_of(4) { f64::NEG_INFINITY } else { (i % 7) as f64 };
    let wide = filled(&SHAPE, |i| hidden(i) as f32);
    let own = filled(&[5, 37], |i| f16::from_f64(hidden(i)));
    for additive in [raw(&wide), raw(&own)] {
        let mask = RawMask { additive: Some(additive), ..RawMask::default() };
        compare::<f16>(plain(), mask, None);
    }
}

#[test]
fn lengths_of_batch_entries_and_of_rows() {
    let of_batch = filled(&[2], |i| [30, 0][i]);
    let of_rows = filled(&[3, 5], |i| (i * 11 % 40) as i32 - 1);
    for lengths in [(raw(&of_batch), Per::Batch), (raw(&of_rows), Per::Row)] {
        let mask = RawMask { lengths: Some(lengths), ..RawMask::default() };
        compare::<f32>(plain(), mask, None);
    }
}

#[test]
fn banks_of_masks() {
    let bank = [4, 1, 5, 37];
    let (bytes, additive) = (filled(&bank, |i| (i * i % 3) as u8), filled(&bank, number::<f32>));
    let index = filled(&[2], |i| [3, 1][i]);
    let mask = RawMask {
        bytes: Some((raw(&bytes), Polarity::Exclude)),
        additive: Some(raw(&additive)),
        bank_index: Some(raw(&index)),
        ..RawMask::default()
    };
    compare::<bf16>(plain(), mask, None);
}

#[test]
fn causal_masks_and_windows_on_either_diagonal() {
    let diagonals =
        [(Causal::BottomRight, fa_diagonal::BottomRight), (Causal::TopLeft, fa_diagonal::TopLeft)];
    for (rust_diagonal, c_diagonal) in diagonals {
        let (rust, c) = plain();
        let c = fa_softmax_options { diagonal: c_diagonal as u32, ..c };
        let causal = fa_softmax_options { is_causal: 7, ..c };
        compare::<f32>((rust.causal(rust_diagonal), causal), RawMask::default(), None);
        for (left, right) in [(2, 1), (-1, 0), (0, 0), (i64::MAX, i64::MIN)] {
            let rust = rust.diagonal(rust_diagonal).window(left, right);
            let window =
                fa_softmax_options { has_window: 1, window_left: left, window_right: right, ..c };
            compare::<f32>((rust, window), RawMask::default(), None);
            let both = fa_softmax_options { is_causal: 1, ..window };
            compare::<f32>((rust.causal(rust_diagonal), both), RawMask::default(), None);
        }
    }
}

#[test]
fn a_scale_in_device_memory() {
    let scale = filled(&[1], |_| -1.25f32);
    let options = (ScaledMaskedSoftmax::new(f64::NAN), scaled(f64::NAN));
    compare::<f16>(options, RawMask::default(), Some(raw(&scale)));
}

#[test]
fn strided_tensors() {
    let (x, y) = (filled(&[5, 3, 64], number::<f32>), filled(&[3, 5, 48], |_| 9f32));
    let strided = |tensor: &Tensor<f32>, strides: &[i64]| {
        RawTensor::new(tensor.pointer(), Dtype::F32, &[3, 5, 37], strides).unwrap()
    };
    let (x, y_raw) = (strided(&x, &[64, 192, 1]), strided(&y, &[240, 48, 1]));
    let call = RawForward { x, y: y_raw, lse: None, scale: None, mask: RawMask::default() };
    let (rust, c) = plain();
    // SAFETY: the tensors are alive, and nobody else's.
    unsafe { rust.forward_raw(&Device::emulator().default_stream(), &call) }.unwrap();
    let expected = y.to_vec().unwrap();
    y.copy_from(&[9f32; 3 * 5 * 48]).unwrap();
    let device = Emulator::open();
    let tensors = MirroredForward::new(&device, &call);
    // SAFETY: as above.
    api().check(unsafe {
        (api().fa_softmax_forward)(device.handle(), &c, &tensors.tensors, null_mut())
    });
    tensors.copy_back();
    assert_eq!(y.to_vec().unwrap(), expected);
    assert_eq!(expected.iter().filter(|&&y| y == 9.0).count(), 3 * 5 * (48 - 37));
}

#[test]
fn a_plan_says_what_rust_says() {
    let x = filled(&SHAPE, number::<bf16>);
    let y = filled(&SHAPE, |_| bf16::ZERO);
    let call =
        RawForward { x: raw(&x), y: raw(&y), lse: None, scale: None, mask: RawMask::default() };
    let (rust, c) = plain();
    let expected = rust.explain_raw(&Device::emulator().default_stream(), &call).unwrap();
    let expected = expected.to_string();
    let device = Emulator::open();
    let tensors = MirroredForward::new(&device, &call);
    for capacity in [0, 1, 20, expected.len() + 1, 2 * expected.len()] {
        let (mut text, mut length) = (vec![0u8; capacity], 0);
        let to = text.as_mut_ptr().cast();
        // SAFETY: there is room for as many bytes.
        api().check(unsafe {
            let plan = api().fa_softmax_forward_plan;
            plan(device.handle(), &c, &tensors.tensors, to, capacity, &mut length)
        });
        assert_eq!(length, expected.len());
        let written = expected.len().min(capacity.saturating_sub(1));
        assert_eq!(text[..written], expected.as_bytes()[..written]);
        assert!(text[written..].iter().all(|&byte| byte == 0));
    }
    assert!(y.to_vec().unwrap().iter().all(|&y| y == bf16::ZERO), "a plan runs nothing");
}

#[test]
fn one_handle_serves_many_threads() {
    let x = filled(&SHAPE, number::<f32>);
    let device = Emulator::open();
    let device = &device;
    let run = |columns: usize| {
        let y = filled(&[30, columns], |_| 9f32);
        let x = RawTensor::contiguous(x.pointer(), Dtype::F32, &[30, columns]).unwrap();
        let call = RawForward { x, y: raw(&y), lse: None, scale: None, mask: RawMask::default() };
        let tensors = MirroredForward::new(device, &call);
        // SAFETY: the tensors are alive; each thread has a y of its own.
        let status = unsafe {
            (api().fa_softmax_forward)(
                device.handle(),
                &scaled(SCALE),
                &tensors.tensors,
                null_mut(),
            )
        };
        api().check(status);
        tensors.copy_back();
        y.to_vec().unwrap().iter().sum::<f32>()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=12).map(|i| scope.spawn(move || run(i % 4 + 1))).collect();
        for thread in threads {
            let sum = thread.join().unwrap();
            assert!((sum - 30.0).abs() < 1e-4, "30 rows sum to {sum}");
        }
    });
}
