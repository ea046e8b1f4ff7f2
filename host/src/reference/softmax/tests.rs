//! Cases worked out by hand.

use super::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-15 * b.abs();
        assert!(same, "element {i}: {a}, expected {b}, in {found:?}");
    }
}

/// Which elements of the first matrix are visible, a row a string.
fn visible(problem: &SoftmaxProblem) -> Vec<String> {
    let mark = |i, j| if problem.is_visible(0, i, j) { '#' } else { '.' };
    (0..problem.rows).map(|i| (0..problem.columns).map(|j| mark(i, j)).collect()).collect()
}

#[test]
fn by_hand() {
    // The exponentials are 1, 2 and 5 of 8, then 1, 1 and 0 of 2.
    let x = [0.0, 2f64.ln(), 5f64.ln(), 3.0, 3.0, -INF];
    let Softmax { p, lse } = SoftmaxProblem::new(&x, 2, 3).solve();
    assert_close(&p, &[0.125, 0.25, 0.625, 0.5, 0.5, 0.0]);
    assert_close(&lse, &[8f64.ln(), 3.0 + 2f64.ln()]);
}

#[test]
fn scales_then_adds() {
    // 2 * 1 + ln 3 - 2 = ln 3 and 2 * 0 + 0 = ln 1.
    let add = |_, _, j| if j == 0 { 3f64.ln() - 2.0 } else { 0.0 };
    let x = [1.0, 0.0];
    let problem =
        SoftmaxProblem { scale: 2.0, additive: Some(&add), ..SoftmaxProblem::new(&x, 1, 2) };
    let Softmax { p, lse } = problem.solve();
    assert_close(&p, &[0.75, 0.25]);
    assert_close(&lse, &[4f64.ln()]);
}

#[test]
fn negative_scale_turns_the_order() {
    let x = [0.0, -(3f64.ln())];
    let problem = SoftmaxProblem { scale: -1.0, ..SoftmaxProblem::new(&x, 1, 2) };
    assert_close(&problem.solve().p, &[0.25, 0.75]);
}

#[test]
fn causal_alignments_differ() {
    let x = [0.0; 15];
    let problem = |causal, rows, columns| SoftmaxProblem {
        causal: Some(causal),
        ..SoftmaxProblem::new(&x, rows, columns)
    };
    assert_eq!(visible(&problem(Causal::TopLeft, 3, 5)), ["#....", "##...", "###.."]);
    assert_eq!(visible(&problem(Causal::BottomRight, 3, 5)), ["###..", "####.", "#####"]);
    assert_eq!(visible(&problem(Causal::TopLeft, 5, 3)), ["#..", "##.", "###", "###", "###"]);
    let tall = problem(Causal::BottomRight, 5, 3);
    assert_eq!(visible(&tall), ["...", "...", "#..", "##.", "###"]);
    let Softmax { p, lse } = tall.solve();
    assert_close(&p[..9], &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    assert_close(&lse, &[-INF, -INF, 0.0, 2f64.ln(), 3f64.ln()]);
}

#[test]
fn windows_count_from_the_diagonal() {
    let x = [0.0; 15];
    let window = SoftmaxProblem { window: (1, 0), ..SoftmaxProblem::new(&x, 3, 5) };
    assert_eq!(visible(&window), [".##..", "..##.", "...##"]);
    let window = SoftmaxProblem { window: (-1, 1), ..window };
    assert_eq!(visible(&window), ["####.", "#####", "#####"]);
    let top_left = SoftmaxProblem { window: (1, 0), diagonal: Causal::TopLeft, ..window };
    assert_eq!(visible(&top_left), ["#....", "##...", ".##.."]);
    let window = SoftmaxProblem { window: (0, 9), causal: Some(Causal::TopLeft), ..window };
    assert_eq!(visible(&window), ["#....", ".#...", "..#.."]);
    let window = SoftmaxProblem { window: (1 << 40, -1), causal: None, ..window };
    assert_eq!(visible(&window), ["#####"; 3]);
}

#[test]
fn lengths_place_the_diagonal() {
    let x = [0.0; 30];
    let lengths = |matrix: usize, _: usize| [4, 0][matrix];
    let problem = SoftmaxProblem {
        causal: Some(Causal::BottomRight),
        lengths: Some(&lengths),
        ..SoftmaxProblem::new(&x, 3, 5)
    };
    assert_eq!(visible(&problem), ["##...", "###..", "####."]);
    let Softmax { p, lse } = problem.solve();
    assert_close(&p[..5], &[0.5, 0.5, 0.0, 0.0, 0.0]);
    assert_close(&p[15..], &[0.0; 15]);
    assert_close(&lse[3..], &[-INF; 3]);
}

#[test]
fn excluded_elements_do_not_count() {
    let x = [1.0, NAN, 1.0, INF, 5.0, 5.0];
    let excluded = |_, i, j| (i, j) == (0, 1) || (i, j) == (1, 0);
    let problem = SoftmaxProblem { excluded: Some(&excluded), ..SoftmaxProblem::new(&x, 2, 3) };
    assert_close(&problem.solve().p, &[0.5, 0.0, 0.5, 0.0, 0.5, 0.5]);
}

#[test]
fn a_row_that_sees_nothing_is_zero() {
    let excluded = |_, _, _| true;
    let x = [1.0, NAN];
    let hidden = SoftmaxProblem { excluded: Some(&excluded), ..SoftmaxProblem::new(&x, 1, 2) };
    assert_eq!(hidden.solve(), Softmax { p: vec![0.0; 2], lse: vec![-INF] });
    let infinite = SoftmaxProblem::new(&[-INF, -INF], 1, 2).solve();
    assert_eq!(infinite, Softmax { p: vec![0.0; 2], lse: vec![-INF] });
}

#[test]
fn finite_scores_never_mask() {
    let add = |_, _, _| f64::from(f32::MIN);
    let problem = SoftmaxProblem { additive: Some(&add), ..SoftmaxProblem::new(&[0.0; 4], 1, 4) };
    assert_close(&problem.solve().p, &[0.25; 4]);
    let lse = SoftmaxProblem::new(&[-10000.0, -10001.0], 1, 2).solve().lse;
    assert_close(&lse, &[-10000.0 + (1.0 + (-1f64).exp()).ln()]);
}

#[test]
fn nan_and_infinity_stay_in_their_row() {
    let x = [NAN, 1.0, 2.0, 2.0, INF, 0.0];
    let Softmax { p, lse } = SoftmaxProblem::new(&x, 3, 2).solve();
    assert_close(&p, &[NAN, NAN, 0.5, 0.5, NAN, NAN]);
    assert_close(&lse, &[NAN, 2.0 + 2f64.ln(), NAN]);
}

#[test]
fn without_elements_there_is_no_result() {
    assert_eq!(SoftmaxProblem::new(&[], 3, 0).solve(), Softmax { p: vec![], lse: vec![] });
    assert_eq!(SoftmaxProblem::new(&[], 0, 3).solve(), Softmax { p: vec![], lse: vec![] });
}
