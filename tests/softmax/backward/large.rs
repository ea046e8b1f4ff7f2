//! Problems beyond 32 bits: on GPUs only.

use super::super::large::{enough_memory, normal, samples};
use fused_attention::{
    Accumulate, Causal, Device, Element, GradientInputs, ScaledMaskedSoftmax, Tensor,
    reference::{
        softmax::{Saved, SoftmaxProblem},
        tolerance::check_gradient,
    },
};
use half::{bf16, f16};
use support::{gpus, softmax_case::SOURCES};

fn inputs<'a, T: Accumulate>(
    saved: Saved,
    source: &'a Tensor<T>,
    dp: &'a Tensor<T>,
) -> GradientInputs<'a, T> {
    match saved {
        Saved::Probabilities => GradientInputs::from_probabilities(source, dp),
        Saved::Scores => GradientInputs::from_scores(source, dp),
    }
}

fn widened<T: Element>(numbers: &[T]) -> Vec<f64> {
    numbers.iter().map(|x| x.to_f64()).collect()
}

/// More than 2^31 elements in all, sampled.
fn more_than_2_to_31_elements<T: Accumulate>(device: &Device, rows: usize, columns: usize) {
    assert!(rows * columns > 1 << 31);
    let zeros = || enough_memory(device.zeros::<T>(&[rows, columns]));
    let (Some(source), Some(dp), Some(dx)) = (zeros(), zeros(), zeros()) else { return };
    let softmax = ScaledMaskedSoftmax::new(0.7);
    for saved in SOURCES {
        for &row in &samples(rows, columns) {
            let numbers = normal::<T>(columns, row as u64);
            let numbers = match saved {
                Saved::Scores => numbers,
                Saved::Probabilities => {
                    let p = SoftmaxProblem::new(&widened(&numbers), 1, columns).solve().p;
                    p.into_iter().map(T::from_f64).collect()
                }
            };
            source.narrow(0, row, 1).unwrap().copy_from(&numbers).unwrap();
            dp.narrow(0, row, 1).unwrap().copy_from(&normal(columns, !row as u64)).unwrap();
        }
        let stream = device.default_stream();
        softmax.backward_into(&stream, inputs(saved, &source, &dp), &dx).unwrap();
        for row in samples(rows, columns) {
            let row_of = |tensor: &Tensor<T>| tensor.narrow(0, row, 1).unwrap().to_vec().unwrap();
            let (x, dp) = (widened(&row_of(&source)), widened(&row_of(&dp)));
            let problem =
                SoftmaxProblem { scale: 0.7f32.into(), ..SoftmaxProblem::new(&x, 1, columns) };
            let expected = problem.solve_backward(saved, &dp);
            let unfused = problem.solve_backward_unfused::<T>(saved, &dp);
            check_gradient(&row_of(&dx), &expected, &unfused, columns)
                .unwrap_or_else(|error| panic!("row {row}: {error}"));
        }
        // A row between, of zeros.
        let dx = dx.narrow(0, rows / 3, 1).unwrap().to_vec().unwrap();
        assert!(dx.iter().all(|dx| dx.to_f64() == 0.0));
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

/// More rows than one launch takes: 2^26. The rows repeat after a prime number of them.
#[test]
fn more_rows_than_a_launch_takes() {
    const PERIOD: usize = 1009;
    const COLUMNS: usize = 3;
    let rows = (1 << 26) + 12_345;
    for device in gpus() {
        let repeated = |pattern: &[f16]| {
            let mut host: Vec<f16> = Vec::with_capacity(rows * COLUMNS + pattern.len());
            while host.len() < rows * COLUMNS {
                host.extend_from_slice(pattern);
            }
            host.truncate(rows * COLUMNS);
            enough_memory(device.upload(&host, &[rows, COLUMNS]))
        };
        let (x, dp): (Vec<f16>, Vec<f16>) =
            (normal(PERIOD * COLUMNS, 1), normal(PERIOD * COLUMNS, 2));
        let (Some(scores), Some(gradient)) = (repeated(&x), repeated(&dp)) else { return };
        let softmax = ScaledMaskedSoftmax::new(0.7);
        let inputs = GradientInputs::from_scores(&scores, &gradient);
        let found = softmax.explain_backward(inputs, &gradient).unwrap();
        assert_eq!(found.launches.len(), 2, "{found}");
        // In place, at first with a diagonal, which is that of the whole problem: all but the last
        // rows see nothing.
        let causal = softmax.causal(Causal::BottomRight);
        let dx = causal.backward(inputs).unwrap().to_vec().unwrap();
        assert!(dx[..(rows - COLUMNS) * COLUMNS].iter().all(|&dx| dx == f16::ZERO));
        assert!(dx[(rows - 2) * COLUMNS..].iter().any(|&dx| dx != f16::ZERO));
        softmax.backward_into(&device.default_stream(), inputs, &gradient).unwrap();
        let found = gradient.to_vec().unwrap();
        let (x, dp) = (widened(&x), widened(&dp));
        let problem =
            SoftmaxProblem { scale: 0.7f32.into(), ..SoftmaxProblem::new(&x, PERIOD, COLUMNS) };
        let expected = problem.solve_backward(Saved::Scores, &dp);
        let unfused = problem.solve_backward_unfused::<f16>(Saved::Scores, &dp);
        let first = &found[..x.len()];
        check_gradient(first, &expected, &unfused, COLUMNS).unwrap();
        // Repetitions lie elsewhere on the grid of vectors, so that sums may be rounded otherwise.
        for (i, rows) in
            found.chunks(first.len()).enumerate().filter(|(_, rows)| *rows != &first[..rows.len()])
        {
            let mut all = first.to_vec();
            all[..rows.len()].copy_from_slice(rows);
            if let Err(error) = check_gradient(&all, &expected, &unfused, COLUMNS) {
                panic!("repetition {i}: {error}");
            }
        }
    }
}
