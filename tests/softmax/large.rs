//! Problems beyond 32 bits: on GPUs only.

use fused_attention::{
    Accumulate, Causal, Device, Element, Error, Mask, ScaledMaskedSoftmax, SoftmaxInputs, Tensor,
    reference::{
        softmax::SoftmaxProblem,
        tolerance::{check_lse, check_output},
    },
};
use half::{bf16, f16};
use support::{gpus, random::Random};

/// A result, or none where the GPU has not the memory, which is said.
pub(crate) fn enough_memory<R>(result: fused_attention::Result<R>) -> Option<R> {
    match result {
        Ok(result) => Some(result),
        Err(error @ Error::OutOfMemory { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Rows of normal numbers.
pub(super) fn normal<T: Element>(count: usize, seed: u64) -> Vec<T> {
    let mut random = Random::new(seed);
    (0..count).map(|_| T::from_f64(random.normal())).collect()
}

/// Rows of x before, at and beyond 2^31 and 2^32 elements or bytes, and the last ones.
pub(super) fn samples(rows: usize, columns: usize) -> Vec<usize> {
    let at = [0, 1 << 30, 1 << 31, 1 << 32].map(|element: usize| element / columns);
    let mut samples: Vec<_> = at
        .into_iter()
        .chain([rows - 1])
        .flat_map(|row| row.saturating_sub(1)..(row + 2).min(rows))
        .collect();
    samples.dedup();
    samples
}

/// More than 2^31 elements in all, sampled.
fn more_than_2_to_31_elements<T: Accumulate>(device: &Device, rows: usize, columns: usize) {
    assert!(rows * columns > 1 << 31);
    let Some(x) = enough_memory(device.zeros::<T>(&[rows, columns])) else { return };
    let Some(y) = enough_memory(device.zeros::<T>(&[rows, columns])) else { return };
    let Some(mask) = enough_memory(device.zeros::<u8>(&[rows, columns])) else { return };
    let lse: Tensor<T::Accumulator> = device.zeros(&[rows]).unwrap();
    for &row in &samples(rows, columns) {
        let x = x.narrow(0, row, 1).unwrap();
        x.copy_from(&normal(columns, row as u64)).unwrap();
        // The last third of a sampled row is hidden, where there is a mask.
        let mask = mask.narrow(0, row, 1).unwrap().narrow(1, 2 * columns / 3, columns / 3).unwrap();
        mask.copy_from(&vec![1; columns / 3]).unwrap();
    }
    let softmax = ScaledMaskedSoftmax::new(0.7);
    for masked in [false, true] {
        let inputs = SoftmaxInputs::new(&x);
        let inputs = if masked { inputs.mask(Mask::exclude(&mask)) } else { inputs };
        softmax.forward_into(&device.default_stream(), inputs, &y, Some(&lse)).unwrap();
        for row in samples(rows, columns) {
            let x: Vec<f64> =
                normal::<T>(columns, row as u64).into_iter().map(|x| x.to_f64()).collect();
            let hidden = |_: usize, _: usize, j: usize| {
                masked && (2 * columns / 3..2 * columns / 3 + columns / 3).contains(&j)
            };
            let problem = SoftmaxProblem {
                scale: 0.7f32.into(),
                excluded: Some(&hidden),
                ..SoftmaxProblem::new(&x, 1, columns)
            };
            let (expected, unfused) = (problem.solve(), problem.solve_unfused::<T>());
            let y = y.narrow(0, row, 1).unwrap().to_vec().unwrap();
            check_output(&y, &expected.p, &unfused, columns)
                .unwrap_or_else(|error| panic!("row {row}: {error}"));
            let lse = lse.narrow(0, row, 1).unwrap().to_vec().unwrap();
            check_lse(&lse, &expected.lse).unwrap_or_else(|error| panic!("row {row}: {error}"));
        }
        // A row between, of zeros.
        let y = y.narrow(0, rows / 3, 1).unwrap().to_vec().unwrap();
        let average = 1.0 / columns as f64;
        assert!(y.iter().all(|y| (y.to_f64() - average).abs() <= 0.01 * average));
    }
}

#[test]
fn more_than_2_to_31_elements_of_bf16() {
    for device in gpus() {
        more_than_2_to_31_elements::<bf16>(&device, 2_097_155, 1024);
    }
}

#[test]
fn more_than_2_to_31_elements_of_f32_off_the_grid() {
    for device in gpus() {
        more_than_2_to_31_elements::<f32>(&device, 42_800, 50_259);
    }
}

/// One row, of zeros but for four elements on both sides of column 2^31.
#[test]
fn a_row_of_more_than_2_to_31_elements() {
    const COLUMNS: usize = (1 << 31) + 8;
    const HIGH: [usize; 4] = [0, (1 << 31) - 1, 1 << 31, COLUMNS - 1];
    for device in gpus() {
        let Some(x) = enough_memory(device.zeros::<f32>(&[1, COLUMNS])) else { return };
        let Some(y) = enough_memory(device.zeros::<f32>(&[1, COLUMNS])) else { return };
        for column in HIGH {
            x.narrow(1, column, 1).unwrap().copy_from(&[21.0]).unwrap();
        }
        let softmax = ScaledMaskedSoftmax::new(1.0);
        softmax.forward_into(&device.default_stream(), SoftmaxInputs::new(&x), &y, None).unwrap();
        let high = 21f64.exp();
        let sum = 4.0 * high + (COLUMNS - HIGH.len()) as f64;
        for column in HIGH.into_iter().flat_map(|column| [column, column.saturating_sub(2)]) {
            let expected = if HIGH.contains(&column) { high / sum } else { 1.0 / sum };
            let found = y.narrow(1, column, 1).unwrap().to_vec().unwrap()[0];
            let difference = (f64::from(found) - expected).abs();
            assert!(difference <= 1e-3 * expected, "column {column}: {found}, not {expected}");
        }
    }
}

/// More rows than one launch takes: 2^26. The rows repeat after a prime number of them.
#[test]
fn more_rows_than_a_launch_takes() {
    const PERIOD: usize = 1009;
    let rows = (1 << 26) + 12_345;
    for device in gpus() {
        for columns in 1..=4 {
            let pattern: Vec<f16> = normal(PERIOD * columns, columns as u64);
            let mut host: Vec<f16> = Vec::with_capacity(rows * columns + pattern.len());
            while host.len() < rows * columns {
                host.extend_from_slice(&pattern);
            }
            host.truncate(rows * columns);
            let Some(x) = enough_memory(device.upload(&host, &[rows, columns])) else { return };
            let Some(y) = enough_memory(device.zeros::<f16>(&[rows, columns])) else { return };
            let softmax = ScaledMaskedSoftmax::new(0.7);
            let explanation = softmax.explain(SoftmaxInputs::new(&x), &y).unwrap();
            assert_eq!(explanation.launches.len(), 2, "{explanation}");
            let stream = device.default_stream();
            softmax.forward_into(&stream, SoftmaxInputs::new(&x), &y, None).unwrap();
            let found = y.to_vec().unwrap();
            let numbers: Vec<f64> = pattern.iter().map(|x| x.to_f64()).collect();
            let problem = SoftmaxProblem {
                scale: 0.7f32.into(),
                ..SoftmaxProblem::new(&numbers, PERIOD, columns)
            };
            let first = &found[..pattern.len()];
            check_output(first, &problem.solve().p, &problem.solve_unfused::<f16>(), columns)
                .unwrap_or_else(|error| panic!("{columns} columns: {error}"));
            for (i, rows) in found.chunks(first.len()).enumerate() {
                assert_eq!(rows, &first[..rows.len()], "{columns} columns, repetition {i}");
            }
            // The diagonal is that of the whole problem: only the last rows see anything.
            let causal = softmax.causal(Causal::BottomRight);
            causal.forward_into(&stream, SoftmaxInputs::new(&x), &y, None).unwrap();
            let found = y.to_vec().unwrap();
            let (blind, seeing) = found.split_at((rows - columns) * columns);
            assert!(blind.iter().all(|&y| y == f16::ZERO), "{columns} columns");
            for (i, row) in seeing.chunks(columns).enumerate() {
                let seen: Vec<_> = row.iter().map(|&y| y > f16::ZERO).collect();
                let expected: Vec<_> = (0..columns).map(|j| j <= i).collect();
                assert_eq!(seen, expected);
            }
        }
    }
}
