//! Conversions, to the bit; but a NaN only has to stay one where it is widened.

use super::harness::{Buffer, Random, conformance, conformance_from, launch};
use conformance_kernels::convert::*;
use cuda_std::Value;
use fused_attention::{Device, Kernel, LaunchConfig};
use half::{bf16, f16};

fn run<A: Value, B: Value>(
    device: &Device,
    kernel: &Kernel<(*const A, *mut B, u32)>,
    values: &[A],
) -> Vec<B> {
    let (from, to) = (Buffer::new(device, values), Buffer::empty(device, values.len()));
    let count = values.len() as u32;
    let config = LaunchConfig::new(count.div_ceil(256), 256);
    // SAFETY: `count` elements.
    unsafe { launch(device, kernel, config, (from.pointer(), to.pointer_mut(), count)) };
    to.to_vec()
}

fn assert_same(found: f32, expected: f32, what: &str, bits: u32) {
    let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
    assert!(same, "{what} of {bits:#x} is {found:e}, not {expected:e}");
}

#[test]
fn every_16_bits_widen() {
    let values: Vec<u32> = (0..=0xffff).collect();
    conformance(|device| {
        for (&x, [half, brain]) in values.iter().zip(run(device, &widen, &values)) {
            assert_same(half, f16::from_bits(x as u16).to_f32(), "f16", x);
            assert_same(brain, bf16::from_bits(x as u16).to_f32(), "bf16", x);
        }
    });
}

#[test]
fn pairs_unpack_low_half_first() {
    let values: Vec<u32> = Random(26).values(50_000);
    conformance(|device| {
        for (&x, [a, b, c, d]) in values.iter().zip(run(device, &unpack, &values)) {
            let (low, high) = (x as u16, (x >> 16) as u16);
            assert_same(a, f16::from_bits(low).to_f32(), "low f16", x);
            assert_same(b, f16::from_bits(high).to_f32(), "high f16", x);
            assert_same(c, bf16::from_bits(low).to_f32(), "low bf16", x);
            assert_same(d, bf16::from_bits(high).to_f32(), "high bf16", x);
        }
    });
}

#[test]
fn bytes_are_picked_and_spread() {
    let values: Vec<[u32; 2]> = Random(31).values(20_000);
    conformance(|device| {
        for (&[low, high], found) in values.iter().zip(run(device, &permute, &values)) {
            let (low, high) = (low.to_le_bytes(), high.to_le_bytes());
            let top = |byte: u8| if byte >= 0x80 { 0xff } else { 0 };
            let [a, b, c, d] = low.map(top);
            let expected =
                [[low[2], high[3], low[1], high[0]], [a, a, b, b], [c, c, d, d], [top(high[2]); 4]];
            assert_eq!(found.map(u32::to_le_bytes), expected, "of {low:x?} {high:x?}");
        }
    });
}

#[test]
fn bytes_are_picked_by_a_register() {
    let values: Vec<[u32; 2]> = Random(32).values(20_000);
    conformance(|device| {
        for (&[low, high], found) in values.iter().zip(run(device, &permute_by, &values)) {
            let bytes = (low as u64 | (high as u64) << 32).to_le_bytes();
            let expected = [0, 4, 8, 12].map(|shift| {
                let digit = high >> shift & 15;
                let byte = bytes[digit as usize & 7];
                if digit < 8 { byte } else { (byte as i8 >> 7) as u8 }
            });
            assert_eq!(found.to_le_bytes(), expected, "of {low:x} {high:x}");
        }
    });
}

/// Every value of 16 bits as f32, the midpoint to the next, and their neighbours; random bits.
fn floats() -> Vec<f32> {
    let mut values: Vec<f32> = Random(27).values(20_000);
    for bits in 0..=0xffff {
        for x in [f16::from_bits(bits).to_f32(), bf16::from_bits(bits).to_f32()] {
            values.extend([x, x.next_up(), x.next_down()]);
        }
        let half = f16::from_bits(bits).to_f64() + f16::from_bits(bits.wrapping_add(1)).to_f64();
        let half = (half / 2.0) as f32;
        let brain = f32::from_bits((bits as u32) << 16 | 0x8000);
        for x in [half, brain] {
            values.extend([x, x.next_up(), x.next_down()]);
        }
    }
    values
}

fn to_f16(x: f32) -> u32 {
    if x.is_nan() { 0x7fff } else { f16::from_f32(x).to_bits() as u32 }
}

fn to_bf16(x: f32) -> u32 {
    if x.is_nan() { 0x7fff } else { bf16::from_f32(x).to_bits() as u32 }
}

#[test]
fn narrowing_rounds_to_nearest_even() {
    let values = floats();
    let check = |device: &Device, kernel| {
        for (&x, found) in values.iter().zip(run(device, kernel, &values)) {
            let y = -0.5 * x;
            let halves = to_f16(x) | to_f16(y) << 16;
            let brains = to_bf16(x) | to_bf16(y) << 16;
            let expected = [to_f16(x), to_bf16(x), halves, brains];
            assert_eq!(found, expected, "{x:e} ({:#x}), {}", x.to_bits(), kernel.name());
        }
    };
    conformance(|device| check(device, &narrow_sm_70));
    conformance_from((8, 0), |device| check(device, &narrow_sm_80));
}

#[test]
fn the_larger_of_each_pair() {
    conformance_from((8, 0), |device| {
        let values: Vec<[u32; 2]> = Random(23).values(4096);
        let larger = |a: f32, b: f32| if a.is_nan() || b > a { b } else { a };
        for ([a, b], found) in values.iter().zip(run(device, &maxima, &values)) {
            for half in [0, 16] {
                let (a, b) = ((a >> half) as u16, (b >> half) as u16);
                let [of_f16, of_bf16] = found.map(|pair: u32| (pair >> half) as u16);
                let expected = larger(f16::from_bits(a).to_f32(), f16::from_bits(b).to_f32());
                let value = f16::from_bits(of_f16).to_f32();
                let same = value == expected || value.is_nan() && expected.is_nan();
                assert!(same, "of {a:#x} and {b:#x} as f16: {value}, not {expected}");
                let expected = larger(bf16::from_bits(a).to_f32(), bf16::from_bits(b).to_f32());
                let value = bf16::from_bits(of_bf16).to_f32();
                let same = value == expected || value.is_nan() && expected.is_nan();
                assert!(same, "of {a:#x} and {b:#x} as bf16: {value}, not {expected}");
            }
        }
    });
}
