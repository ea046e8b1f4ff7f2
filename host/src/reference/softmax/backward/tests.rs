//! Cases worked out by hand, and differences of the forward.

use super::*;
use crate::Causal;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;
const ROWS: usize = 5;
const COLUMNS: usize = 7;
/// Two matrices.
const COUNT: usize = 2 * ROWS * COLUMNS;

#[track_caller]
fn assert_same(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!(a == b || a.is_nan() && b.is_nan(), "{found:?}, expected {expected:?}");
    }
}

/// Numbers between -1 and 1 without a pattern.
fn numbers(seed: f64) -> Vec<f64> {
    (0..COUNT).map(|i| (i as f64 * 12.9898 + seed * 78.233).sin()).collect()
}

/// `sum_j p_j dp_j` of each row.
fn weighted_sums(problem: &SoftmaxProblem, dp: &[f64]) -> Vec<f64> {
    let p = problem.solve().p;
    let rows = p.chunks(COLUMNS).zip(dp.chunks(COLUMNS));
    rows.map(|(p, dp)| p.iter().zip(dp).map(|(p, dp)| p * dp).sum()).collect()
}

/// Compares the gradient, from either source, with central differences of the forward.
#[track_caller]
fn check(problem: SoftmaxProblem) {
    const STEP: f64 = 1e-6;
    let dp = numbers(2.0);
    let mut expected = vec![0.0; COUNT];
    for column in 0..COLUMNS {
        // Rows do not concern one another, so all are moved together.
        let moved = |by: f64| {
            let mut x = problem.x.to_vec();
            x.iter_mut().skip(column).step_by(COLUMNS).for_each(|x| *x += by);
            weighted_sums(&SoftmaxProblem { x: &x, ..problem }, &dp)
        };
        for (row, (up, down)) in moved(STEP).into_iter().zip(moved(-STEP)).enumerate() {
            expected[row * COLUMNS + column] = (up - down) / (2.0 * STEP);
        }
    }
    let p = problem.solve().p;
    let from_p = SoftmaxProblem { x: &p, ..problem }.solve_backward(Saved::Probabilities, &dp);
    let from_x = problem.solve_backward(Saved::Scores, &dp);
    for found in [from_p, from_x] {
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let limit = 1e-9 * (1.0 + problem.scale.abs());
            assert!((found - expected).abs() <= limit, "element {i}: {found}, expected {expected}");
        }
        let moved = found.iter().filter(|dx| dx.abs() > 1e-4).count();
        assert!(moved > 1 || problem.scale == 0.0, "only {moved} elements have a gradient");
    }
}

#[test]
fn central_differences() {
    let x = numbers(1.0);
    let plain = SoftmaxProblem::new(&x, ROWS, COLUMNS);
    for scale in [1.0, 0.125, -0.7, 0.0, 30.0] {
        check(SoftmaxProblem { scale, ..plain });
    }
    let added = |matrix, i, j| ((3 * matrix + 5 * i + 7 * j) as f64).cos();
    let infinite = |matrix, i, j| if (i + 2 * j) % 5 == 0 { -INF } else { added(matrix, i, j) };
    let excluded = |matrix: usize, i: usize, j: usize| i == 1 || (matrix + i + j).is_multiple_of(3);
    let lengths = |matrix: usize, i: usize| [7, 3, 0, 1, 6][(2 * matrix + i) % 5];
    let causal = |causal| SoftmaxProblem { causal: Some(causal), ..plain };
    let (top_left, bottom_right) = (causal(Causal::TopLeft), causal(Causal::BottomRight));
    let window = SoftmaxProblem { window: (2, 1), ..plain };
    for problem in [
        SoftmaxProblem { additive: Some(&added), ..plain },
        SoftmaxProblem { additive: Some(&infinite), ..plain },
        SoftmaxProblem { excluded: Some(&excluded), ..plain },
        SoftmaxProblem { lengths: Some(&lengths), ..plain },
        top_left,
        bottom_right,
        window,
        SoftmaxProblem { window: (-1, 1), ..plain },
        SoftmaxProblem { diagonal: Causal::TopLeft, ..window },
        SoftmaxProblem { lengths: Some(&lengths), ..window },
        SoftmaxProblem { window: (1, -1), ..top_left },
    ] {
        check(problem);
        let both = SoftmaxProblem {
            additive: Some(&infinite),
            excluded: Some(&excluded),
            scale: -1.5,
            ..problem
        };
        check(both);
    }
}

#[test]
fn by_hand() {
    // The mean is 0.25 * 2 + 0.75 * -2 = -1.
    let problem = SoftmaxProblem { scale: 2.0, ..SoftmaxProblem::new(&[0.25, 0.75], 1, 2) };
    assert_same(&problem.solve_backward(Saved::Probabilities, &[2.0, -2.0]), &[1.5, -1.5]);
    let x = [0.0, 3f64.ln() / 2.0];
    let dx = SoftmaxProblem { x: &x, ..problem }.solve_backward(Saved::Scores, &[2.0, -2.0]);
    assert!((dx[0] - 1.5).abs() < 1e-15 && (dx[1] + 1.5).abs() < 1e-15, "{dx:?}");
}

#[test]
fn a_row_that_sees_nothing_has_no_gradient() {
    let excluded = |_, _, _| true;
    let hidden = SoftmaxProblem::new(&[0.0, 0.0], 1, 2);
    let dp = [NAN, INF];
    assert_same(&hidden.solve_backward(Saved::Probabilities, &dp), &[0.0, 0.0]);
    let hidden = SoftmaxProblem { x: &[1.0, NAN], excluded: Some(&excluded), ..hidden };
    assert_same(&hidden.solve_backward(Saved::Scores, &dp), &[0.0, 0.0]);
    let infinite = SoftmaxProblem::new(&[-INF, -INF], 1, 2);
    assert_same(&infinite.solve_backward(Saved::Scores, &dp), &[0.0, 0.0]);
}

#[test]
fn what_is_out_of_range_does_not_count() {
    let lengths = |_: usize, i: usize| [2, 0][i];
    let x = [0.5, 0.5, NAN, NAN, INF, 1.0];
    let problem = SoftmaxProblem { lengths: Some(&lengths), ..SoftmaxProblem::new(&x, 2, 3) };
    let dp = [1.0, -1.0, NAN, NAN, 1.0, INF];
    let expected = [0.5, -0.5, 0.0, 0.0, 0.0, 0.0];
    for saved in [Saved::Probabilities, Saved::Scores] {
        assert_same(&problem.solve_backward(saved, &dp), &expected);
    }
}

#[test]
fn gradients_of_zeros_do_not_count() {
    let problem = SoftmaxProblem::new(&[0.5, 0.0, 0.5], 1, 3);
    let dx = problem.solve_backward(Saved::Probabilities, &[1.0, NAN, -1.0]);
    assert_same(&dx, &[0.5, 0.0, -0.5]);
    let scores = SoftmaxProblem::new(&[1.0, -INF, 1.0], 1, 3);
    assert_same(&scores.solve_backward(Saved::Scores, &[1.0, NAN, -1.0]), &[0.5, 0.0, -0.5]);
}

#[test]
fn nan_fills_the_range_of_its_row() {
    let lengths = |_: usize, _: usize| 2;
    let solve = |saved, x: &[f64], dp: &[f64]| {
        let problem = SoftmaxProblem { lengths: Some(&lengths), ..SoftmaxProblem::new(x, 2, 3) };
        problem.solve_backward(saved, dp)
    };
    let (dp, p) = ([1.0, NAN, 1.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.0, 0.5, 0.5, 0.0]);
    let expected = [NAN, NAN, 0.0, 0.0, 0.0, 0.0];
    assert_same(&solve(Saved::Probabilities, &p, &dp), &expected);
    assert_same(&solve(Saved::Scores, &p, &dp), &expected);
    let (ones, broken) = ([1.0; 6], [NAN, 0.0, 0.5, 0.5, 0.5, 0.0]);
    assert_same(&solve(Saved::Probabilities, &broken, &ones), &expected);
    for value in [NAN, INF] {
        assert_same(&solve(Saved::Scores, &[value, 0.0, 0.0, 0.0, 0.0, 0.0], &ones), &expected);
    }
}

/// What rounding may do is little beside what a wrong formula gives.
#[test]
fn unfused_is_close() {
    let x = numbers(1.0);
    let problem = SoftmaxProblem { scale: 3.0, ..SoftmaxProblem::new(&x, ROWS, COLUMNS) };
    let dp = numbers(2.0);
    let expected = problem.solve_backward(Saved::Scores, &dp);
    let unfused = problem.solve_backward_unfused::<f32>(Saved::Scores, &dp);
    assert_eq!(unfused.row_errors.len(), 2 * ROWS);
    assert!(unfused.row_errors.iter().all(|error| (1e-7..1e-5).contains(error)));
    for ((value, weight), expected) in unfused.values.iter().zip(&unfused.weights).zip(&expected) {
        assert!((f64::from(*value) - expected).abs() < 1e-6);
        assert!((expected.abs()..9.0).contains(weight), "{weight}");
    }
}
