//! Rows of every length, at every alignment and stride.

use fused_attention::Accumulate;
use half::{bf16, f16};
use support::{
    on_every_backend,
    softmax_case::{Placement, SoftmaxCase},
};

/// Lengths around those of vectors, warps and tiles.
const LENGTHS: [usize; 16] =
    [1, 2, 3, 8, 31, 33, 127, 128, 129, 256, 781, 1023, 1025, 2049, 4097, 16385];

fn every_length<T: Accumulate>() {
    on_every_backend(|device| {
        for length in LENGTHS {
            for placement in [Placement::Contiguous, Placement::OddOffset, Placement::Sliced(3)] {
                let case = SoftmaxCase::new(&[3, length]);
                SoftmaxCase { placement, ..case }.assert_right::<T>(device);
            }
        }
    });
}

#[test]
fn every_length_f16() {
    every_length::<f16>();
}

#[test]
fn every_length_bf16() {
    every_length::<bf16>();
}

#[test]
fn every_length_f32() {
    every_length::<f32>();
}

#[test]
fn every_length_f64() {
    every_length::<f64>();
}
