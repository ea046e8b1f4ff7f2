//! Cases worked out by hand.

use super::*;
use crate::reference::tolerance::check_output;
use half::bf16;

const INF: f64 = f64::INFINITY;

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-14 * b.abs();
        assert!(same, "element {i}: {a}, expected {b}, in {found:?}");
    }
}

/// A problem whose rows are one number each: queries of 1, keys and values from two lists.
fn problem<'a>(queries: usize, keys: &'a [f64], values: &'a [f64]) -> AttentionProblem<'a> {
    let q = Rows { row: 0, ..Rows::contiguous(&[1.0], 1, 1, 1) };
    let rows = |numbers| Rows::contiguous(numbers, 1, keys.len(), 1);
    AttentionProblem::new(q, rows(keys), rows(values), queries, keys.len())
}

#[test]
fn by_hand() {
    // The probabilities are 1/8, 2/8 and 5/8.
    let keys = [0.0, 2f64.ln(), 5f64.ln()];
    let found = problem(2, &keys, &[8.0, 4.0, -8.0]).solve();
    assert_close(&found.o, &[-3.0; 2]);
    assert_close(&found.lse, &[8f64.ln(); 2]);
    let scaled = problem(1, &[4.0, 0.0], &[1.0, 0.0]);
    let found = AttentionProblem { scale: 3f64.ln() / 4.0, ..scaled }.solve();
    assert_close(&found.o, &[0.75]);
}

#[test]
fn the_cap_comes_before_the_bias() {
    let bias = |_, _, _, j| if j == 0 { 3f64.ln() - 2.0 * 1f64.tanh() } else { 0.0 };
    let capped = AttentionProblem {
        scale: 0.25,
        softcap: Some(2.0),
        bias: Some(&bias),
        ..problem(1, &[8.0, 0.0], &[1.0, 0.0])
    };
    let found = capped.solve();
    assert_close(&found.o, &[0.75]);
    assert_close(&found.lse, &[4f64.ln()]);
}

#[test]
fn alibi_counts_from_the_bottom_right_diagonal() {
    // Query 0 of 2 is on the diagonal with key 1 of 3, query 1 with key 2.
    let slope = |_, _| 2f64.ln();
    let sloped = problem(2, &[0.0; 3], &[4.0, 0.0, 1.0]);
    let found = AttentionProblem { slopes: Some(&slope), ..sloped }.solve();
    assert_close(&found.o, &[2.5 / 2.0, 2.0 / 1.75]);
    assert_close(&found.lse, &[2f64.ln(), 1.75f64.ln()]);
    let lengths = |_| 2;
    let found =
        AttentionProblem { slopes: Some(&slope), key_lengths: Some(&lengths), ..sloped }.solve();
    assert_close(&found.o, &[4.0 / 1.5, 2.0 / 1.5]);
}

#[test]
fn ranges_count_within_lengths() {
    let values = [1.0, 10.0, 100.0, 1000.0];
    // How many of each value a query sees.
    let sums = |problem: AttentionProblem| {
        let Attention { o, lse } = problem.solve();
        o.iter().zip(&lse).map(|(o, lse)| (o * lse.exp()).round()).collect::<Vec<_>>()
    };
    let plain = problem(3, &[0.0; 4], &values);
    let causal = |causal| AttentionProblem { causal: Some(causal), ..plain };
    assert_eq!(sums(causal(Causal::BottomRight)), [11.0, 111.0, 1111.0]);
    assert_eq!(sums(causal(Causal::TopLeft)), [1.0, 11.0, 111.0]);
    let window = |left, right| AttentionProblem { window: (left, right), ..plain };
    assert_eq!(sums(window(1, 0)), [11.0, 110.0, 1100.0]);
    assert_eq!(sums(window(-1, 0)), sums(causal(Causal::BottomRight)));
    assert_eq!(sums(window(1 << 40, 1 << 40)), [1111.0; 3]);
    let top_left = AttentionProblem { diagonal: Causal::TopLeft, ..window(0, 1) };
    assert_eq!(sums(top_left), [11.0, 110.0, 1100.0]);
    // A query beyond the length sees nothing.
    let (two, three) = (|_| 2, |_| 3);
    let bottom_right = causal(Causal::BottomRight);
    let fewer = AttentionProblem { query_lengths: Some(&two), ..bottom_right };
    assert_eq!(sums(fewer), [111.0, 1111.0, 0.0]);
    let fewer = AttentionProblem { key_lengths: Some(&three), ..bottom_right };
    assert_eq!(sums(fewer), [1.0, 11.0, 111.0]);
    let fewer = AttentionProblem { key_lengths: Some(&two), ..bottom_right };
    assert_eq!(sums(fewer), [0.0, 1.0, 11.0]);
    let hides = |_, _, i, j| i == j;
    let hidden = AttentionProblem { excluded: Some(&hides), ..plain };
    assert_eq!(sums(hidden), [1110.0, 1101.0, 1011.0]);
}

#[test]
fn rows_that_see_nothing_are_zero() {
    let all = |_, _, _, _| true;
    let found =
        AttentionProblem { excluded: Some(&all), ..problem(1, &[f64::NAN; 2], &[f64::NAN; 2]) }
            .solve();
    assert_eq!((found.o, found.lse), (vec![0.0], vec![-INF]));
    let hidden = |_, _, _, _| -INF;
    let found =
        AttentionProblem { bias: Some(&hidden), ..problem(1, &[0.0; 2], &[1.0; 2]) }.solve();
    assert_eq!((found.o, found.lse), (vec![0.0], vec![-INF]));
    let found = problem(1, &[], &[]).solve();
    assert_eq!((found.o, found.lse), (vec![0.0], vec![-INF]));
}

#[test]
fn finite_numbers_do_not_mask() {
    let lowest = |_, _, _, _| f64::from(f32::MIN);
    let found =
        AttentionProblem { bias: Some(&lowest), ..problem(1, &[1.0, 2.0], &[1.0, 3.0]) }.solve();
    assert_close(&found.o, &[2.0]);
    assert_close(&found.lse, &[f64::from(f32::MIN)]);
    let one = |_, _, _, j| if j == 0 { f64::from(f32::MIN) } else { 0.0 };
    let found =
        AttentionProblem { bias: Some(&one), ..problem(1, &[1.0, 2.0], &[1.0, 3.0]) }.solve();
    assert_close(&found.o, &[3.0]);
    let found = problem(1, &[-66854.86; 4], &[1.0, 2.0, 3.0, 4.0]).solve();
    assert_close(&found.o, &[2.5]);
    assert_close(&found.lse, &[-66854.86 + 4f64.ln()]);
}

#[test]
fn nan_stays_in_rows_that_see_it() {
    let found = AttentionProblem {
        causal: Some(Causal::TopLeft),
        ..problem(2, &[0.0, f64::NAN], &[1.0, 1.0])
    }
    .solve();
    assert_close(&found.o, &[1.0, f64::NAN]);
    assert_close(&found.lse, &[0.0, f64::NAN]);
    let found = problem(1, &[0.0, INF], &[1.0, 1.0]).solve();
    assert_close(&found.o, &[f64::NAN]);
}

#[test]
fn query_heads_share() {
    let q = Rows { numbers: &[0.0], batch: 0, head: 0, row: 0, dim: 1 };
    let v = Rows { numbers: &[0.0, 1.0, 2.0, 3.0], batch: 2, head: 1, row: 0, dim: 1 };
    let problem = AttentionProblem::new(q, q, v, 1, 3);
    let problem = AttentionProblem { batch: 2, heads: 6, kv_heads: 2, ..problem };
    let expected = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0];
    assert_close(&problem.solve().o, &expected);
}

#[test]
fn dropout_scales_what_it_keeps() {
    let dropout = Dropout { dropped: 64, seed: 5, offset: 7 };
    let found =
        AttentionProblem { dropout: Some(dropout), ..problem(1, &[0.0; 64], &[1.0; 64]) }.solve();
    let kept = (0..64).filter(|&j| dropout.keeps(0, 0, j)).count();
    assert!((30..64).contains(&kept), "{kept}");
    assert_close(&found.o, &[kept as f64 / 64.0 * 4.0 / 3.0]);
    // The log-sum-exp is that before dropout.
    assert_close(&found.lse, &[64f64.ln()]);
}

/// The bytes of one patch decide rows 8 apart and neighbouring columns, and no two elements share one.
#[test]
fn patches_of_dropout() {
    use crate::reference::philox::philox4x32_10;
    let (seed, offset, head) = (0x0123_4567_89ab_cdef_u64, 3, 9);
    for (i, j) in [(0, 0), (7, 31), (8, 0), (33, 70), (100, 255), (1000, 4097)] {
        let (i_patch, a) = (i / 32 * 8 + i % 8, i % 32 / 8);
        let (j_patch, b) = (j / 4, j % 4);
        let counter = [i_patch as u32, j_patch as u32, head as u32, offset];
        let word = philox4x32_10(counter, [0x89ab_cdef, 0x0123_4567])[a];
        let byte = (word >> (8 * b)) as u8;
        let keeps = |dropped| Dropout { dropped, seed, offset }.keeps(head, i, j);
        assert!(keeps(byte), "({i}, {j})");
        assert!(byte == 255 || !keeps(byte + 1), "({i}, {j})");
    }
}

#[test]
fn the_share_that_is_kept() {
    for dropped in [1, 26, 128, 255] {
        let dropout = Dropout { dropped, seed: 11, offset: 0 };
        let kept = (0..256 * 256).filter(|n| dropout.keeps(1, n / 256, n % 256)).count();
        let (share, expected) = (kept as f64 / 65536.0, 1.0 - f64::from(dropped) / 256.0);
        assert!((share - expected).abs() < 0.01, "{share}, not {expected}");
        let mean: f64 = (0..256 * 256).map(|n| dropout.factor(1, n / 256, n % 256)).sum();
        assert!((mean / 65536.0 - 1.0).abs() < 0.1);
    }
}

/// The rule that judges kernels passes the plain computation, and not one that forgets a key.
#[test]
fn the_unfused_computation_is_right() {
    let number = |seed: usize| (seed * 7919 % 1009) as f64 / 300.0 - 1.7;
    let rows: Vec<f64> = (0..40 * 8).map(|n| bf16::from_f64(number(n)).to_f64()).collect();
    let rows = Rows::contiguous(&rows, 1, 40, 8);
    let problem =
        AttentionProblem { scale: 0.35, ..AttentionProblem::new(rows, rows, rows, 5, 40) };
    let (expected, unfused) = (problem.solve(), problem.solve_unfused::<bf16>());
    check_output(&unfused.values, &expected.o, &unfused, 8).unwrap();
    let forgets = |_, _, _, j| j == 17;
    let wrong = AttentionProblem { excluded: Some(&forgets), ..problem };
    let wrong = wrong.solve_unfused::<bf16>().values;
    check_output(&wrong, &expected.o, &unfused, 8).unwrap_err();
}
