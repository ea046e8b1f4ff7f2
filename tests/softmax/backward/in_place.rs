//! The result in place of an input.

use super::{ROWS, from_either};
use fused_attention::{
    Accumulate, Device, Dtype, RawBackward, RawMask, RawSaved, RawTensor, ScaledMaskedSoftmax,
    backward_tile_names,
};
use half::{bf16, f16};
use support::{
    on_every_backend,
    placement::Placement,
    softmax_case::{BackwardCase, InPlace, Lengths, SoftmaxCase},
};

const EITHER: [InPlace; 2] = [InPlace::Saved, InPlace::Gradient];

fn every_row<T: Accumulate>() {
    on_every_backend(|device| {
        for (length, tile) in ROWS {
            for (x, dp) in [
                (Placement::Contiguous, Placement::Contiguous),
                (Placement::Offset(1), Placement::Sliced(3)),
            ] {
                let forward = SoftmaxCase { x, tile, ..SoftmaxCase::new(&[3, length]) };
                for case in from_either(forward) {
                    for in_place in EITHER {
                        let case = BackwardCase { dp, in_place: Some(in_place), ..case.clone() };
                        case.assert_right::<T>(device);
                    }
                }
            }
        }
    });
}

#[test]
fn every_row_f16() {
    every_row::<f16>();
}

#[test]
fn every_row_f32() {
    every_row::<f32>();
}

/// Every tile, with rows that are longer than registers and shared memory hold where it can.
#[test]
fn every_tile() {
    on_every_backend(|device| {
        for tile in backward_tile_names() {
            let length = if tile.contains("warp") { 120 } else { 3000 };
            let lengths = Some(Lengths::random(fused_attention::Per::Row));
            let forward = SoftmaxCase { tile: Some(tile), ..SoftmaxCase::new(&[4, length]) };
            for case in from_either(SoftmaxCase { lengths, ..forward }) {
                for in_place in EITHER {
                    let case = BackwardCase { in_place: Some(in_place), ..case.clone() };
                    case.assert_right::<bf16>(device);
                }
            }
            if tile.contains("cluster") || tile.contains("stream") {
                let forward = SoftmaxCase { tile: Some(tile), ..SoftmaxCase::new(&[1, 150_000]) };
                let [from_p, from_x] = from_either(forward);
                let in_place = |case, in_place| BackwardCase { in_place: Some(in_place), ..case };
                in_place(from_p, InPlace::Gradient).assert_right::<f32>(device);
                in_place(from_x, InPlace::Saved).assert_right::<f32>(device);
            }
        }
    });
}

/// All three the same memory.
#[test]
fn everything_in_place() {
    fn run(device: &Device) -> Vec<f32> {
        // p = dp: the mean is 0.5 * 0.5 + 0.25 * 0.25 * 2 = 0.375.
        let memory = device.upload(&[0.5f32, 0.25, 0.25], &[1, 3]).unwrap();
        let raw = RawTensor::from(&memory);
        let tensors = RawBackward {
            saved: RawSaved::Probabilities(raw),
            dp: raw,
            dx: raw,
            scale: None,
            mask: RawMask::default(),
        };
        assert_eq!(raw.dtype, Dtype::F32);
        let softmax = ScaledMaskedSoftmax::new(2.0);
        // SAFETY: memory of the device, which lives until it has been read.
        unsafe { softmax.backward_raw(&device.default_stream(), &tensors) }.unwrap();
        memory.to_vec().unwrap()
    }
    on_every_backend(|device| assert_eq!(run(device), [0.125, -0.0625, -0.0625]));
}
