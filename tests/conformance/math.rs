//! Elementary functions: f32 to the error that PTX documents, f64 to one ulp of the standard
//! library's and to the same bits everywhere.

use super::harness::{Buffer, Random, conformance, conformance_from, launch};
use conformance_kernels::math::*;
use cuda_std::Value;
use fused_attention::{Device, Kernel, LaunchConfig};

type Function<T> = Kernel<(*const T, *mut T, u32)>;

fn run<T: Value>(device: &Device, kernel: &Function<T>, values: &[T]) -> Vec<T> {
    let (from, to) = (Buffer::new(device, values), Buffer::empty(device, values.len()));
    let count = values.len() as u32;
    let config = LaunchConfig::new(count.div_ceil(256), 256);
    let args = (from.pointer(), to.pointer_mut(), count);
    // SAFETY: `count` elements.
    unsafe { launch(device, kernel, config, args) };
    to.to_vec()
}

/// Random bits, numbers of ordinary size, and what is special.
fn floats() -> Vec<f32> {
    let mut random = Random(22);
    let mut values: Vec<f32> = random.values(20_000);
    values.extend((0..20_000).map(|_| (random.unit() * 300.0 - 150.0) as f32));
    values.extend((0..20_000).map(|_| (random.unit() * 4.0 - 2.0) as f32));
    values.extend([0.0, f32::INFINITY, f32::NAN, 1.0, 0.5, 2.0, f32::MAX, f32::MIN_POSITIVE]);
    values.extend([f32::from_bits(1), f32::from_bits(0x7f_ffff), 127.99, 128.0, 149.0, 126.0]);
    values.iter().flat_map(|&x| [x, -x]).collect()
}

/// Zero of the same sign for a subnormal number.
fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// Compares with `exact`, of arguments and to results with subnormal numbers flushed: NaN, zeros
/// and infinities as they are, all else within `allowed` of the argument and the exact result.
fn check_flushed(
    kernel: &'static Function<f32>,
    exact: fn(f64) -> f64,
    allowed: fn(f32, f64) -> f64,
) {
    let values = floats();
    conformance(|device| {
        for (&x, found) in values.iter().zip(run(device, kernel, &values)) {
            let exact = exact(flush(x) as f64);
            let rounded = flush(exact as f32);
            let name = kernel.name();
            if rounded.is_nan() {
                assert!(found.is_nan(), "{name}({x:e}) = {found:e}, not NaN");
            } else if rounded.is_infinite() || rounded == 0.0 {
                // At the ends of the range the error may carry over.
                let end = rounded == found
                    || found.abs() == f32::MIN_POSITIVE && exact != 0.0
                    || found.abs() >= f32::MAX.next_down() && exact.is_finite();
                assert!(end, "{name}({x:e}) = {found:e}, not {rounded:e}");
            } else {
                let error = (found as f64 - exact).abs();
                let small = found == 0.0 && rounded.abs() <= 2.0 * f32::MIN_POSITIVE;
                let large = found.is_infinite() && rounded.abs() >= f32::MAX.next_down();
                let bound = allowed(x, exact);
                assert!(
                    error <= bound || small || large,
                    "{name}({x:e}) = {found:e}, not {exact:e}: {error:e} off, {bound:e} allowed"
                );
            }
        }
    });
}

/// The distance between f32s around `x`.
fn ulp(x: f64) -> f64 {
    let x = (x.abs() as f32).clamp(f32::MIN_POSITIVE, f32::MAX);
    x as f64 - x.next_down() as f64
}

#[test]
fn exp2_is_good_to_2_ulp() {
    check_flushed(&exp2, f64::exp2, |_, exact| 2.5 * ulp(exact));
}

#[test]
fn rcp_is_good_to_1_ulp() {
    check_flushed(&rcp, f64::recip, |_, exact| 1.5 * ulp(exact));
}

#[test]
fn log2_is_good_to_22_bits() {
    check_flushed(&log2, f64::log2, |x, exact| {
        let scale = if (0.5..=2.0).contains(&x) { 1.0 } else { exact.abs() };
        scale * (2f64.powi(-22) + 2f64.powi(-24))
    });
}

#[test]
fn tanh_is_good_to_11_bits() {
    let values = floats();
    conformance_from((8, 0), |device| {
        for (&x, found) in values.iter().zip(run(device, &tanh, &values)) {
            let exact = (x as f64).tanh();
            let good = (found as f64 - exact).abs() <= exact.abs() * 2f64.powi(-11);
            assert!(good || exact.is_nan() && found.is_nan(), "tanh({x:e}) = {found:e}");
        }
    });
}

#[test]
fn fma_rounds_once() {
    let values = floats();
    conformance(|device| {
        for (&x, found) in values.iter().zip(run(device, &fma, &values)) {
            let exact = x.mul_add(x, -1.0);
            let same = found.to_bits() == exact.to_bits() || found.is_nan() && exact.is_nan();
            assert!(same, "{x:e} * {x:e} - 1 = {found:e}, not {exact:e}");
        }
    });
}

/// Numbers from `low` to `high`, spread evenly.
fn grid(low: f64, high: f64, count: usize) -> impl Iterator<Item = f64> {
    (0..=count).map(move |i| low + (high - low) * i as f64 / count as f64)
}

/// Compares with the standard library to one ulp, and with the emulator to the bit.
fn check_double(kernel: &'static Function<f64>, values: &[f64], standard: fn(f64) -> f64) {
    let emulated = run(&Device::emulator(), kernel, values);
    conformance(|device| {
        let found = run(device, kernel, values);
        for ((&x, found), &emulated) in values.iter().zip(found).zip(&emulated) {
            let (name, exact) = (kernel.name(), standard(x));
            if exact.is_nan() {
                assert!(found.is_nan(), "{name}({x:e}) = {found:e}, not NaN");
                continue;
            }
            let near = [exact.next_down(), exact, exact.next_up()].contains(&found);
            let same_end =
                exact.is_finite() == found.is_finite() && (exact == 0.0) == (found == 0.0);
            assert!(near, "{name}({x:e}) = {found:e}, not {exact:e}");
            assert!(same_end || exact.is_subnormal(), "{name}({x:e}) = {found:e}, not {exact:e}");
            assert_eq!(found.to_bits(), emulated.to_bits(), "{name}({x:e}), emulated {emulated:e}");
        }
    });
}

#[test]
fn exp_of_doubles_is_good_to_1_ulp() {
    let mut values: Vec<f64> = grid(-760.0, 715.0, 200_000).collect();
    values.extend(grid(-1.0, 1.0, 100_000));
    // Subnormal results, and the last ones before 0 and infinity.
    values.extend(grid(-745.2, -708.0, 50_000));
    values.extend(grid(709.7, 709.8, 10_000));
    values.extend(Random(23).values::<f64>(20_000));
    values.extend([0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MIN_POSITIVE]);
    values.extend([f64::from_bits(1), f64::MAX, f64::MIN, -745.133_219_101_941_2, -745.14]);
    values.extend([709.782_712_893_384, 709.782_712_893_384_1, 1e-17, -1e-17]);
    check_double(&exp_f64, &values, f64::exp);
}

#[test]
fn ln_of_doubles_is_good_to_1_ulp() {
    let mut values: Vec<f64> = grid(0.0, 4.0, 200_000).collect();
    values.extend(grid(0.9999, 1.0001, 50_000));
    values.extend(Random(24).values::<f64>(100_000));
    // Subnormal arguments.
    values.extend(Random(25).values::<u64>(20_000).iter().map(|bits| f64::from_bits(bits >> 12)));
    values.extend([0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -1.0, 1.0]);
    values.extend([f64::from_bits(1), f64::MIN_POSITIVE, f64::MAX, std::f64::consts::SQRT_2]);
    values.extend([std::f64::consts::FRAC_1_SQRT_2, 1.0f64.next_up(), 1.0f64.next_down()]);
    check_double(&ln_f64, &values, f64::ln);
}
