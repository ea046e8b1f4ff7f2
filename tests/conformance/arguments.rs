//! How arguments reach a kernel.

use super::harness::{Buffer, Random, conformance, launch};
use conformance_kernels::arguments::*;
use fused_attention::LaunchConfig;

#[test]
fn a_struct_by_value_keeps_its_layout() {
    conformance(|device| {
        let values: Vec<u32> = Random(21).values(32);
        let (from, to) = (Buffer::new(device, &values), Buffer::<f64>::empty(device, 32));
        let (shift, factor, offsets) = (5, 0.375, [1 << 30, 12345]);
        let affine = Affine { shift, factor, offsets, from: from.pointer() };
        // SAFETY: an element for each thread.
        unsafe { launch(device, &by_value, LaunchConfig::new(1, 32), (affine, to.pointer_mut())) };
        let expected = values
            .iter()
            .map(|&x| factor * (x << shift) as f64 + offsets[0] as f64 - offsets[1] as f64);
        assert_eq!(to.to_vec(), expected.collect::<Vec<_>>());
    });
}

#[test]
fn none_and_twelve_arguments() {
    conformance(|device| {
        // SAFETY: no memory.
        unsafe { launch(device, &nothing, LaunchConfig::new(2, 32), ()) };

        let to = Buffer::<u64>::empty(device, 1);
        let (a, b, c, d, e, f) = (200u8, 60_000u16, 4_000_000_000u32, 1u64 << 63, -7i32, true);
        let (g, h, i, j, k) = (201u8, u64::MAX / 3, 60_001u16, 4_000_000_001u32, 202u8);
        let args = (to.pointer_mut(), a, b, c, d, e, f, g, h, i, j, k);
        // SAFETY: one element.
        unsafe { launch(device, &twelve, LaunchConfig::new(1, 32), args) };
        let small = a as u64 + b as u64 + c as u64 + f as u64 + g as u64 + i as u64;
        let expected = small + j as u64 + k as u64 + d + h - 7;
        assert_eq!(to.to_vec(), [expected]);
    });
}
