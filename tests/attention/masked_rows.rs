//! Queries that see nothing, and queries that only look like it.

use fused_attention::{Causal, Element, Polarity};
use half::{bf16, f16};
use support::{
    attention_case::{AttentionCase, SolvedAttention},
    on_every_backend,
    softmax_case::{AdditiveMask, ByteMask, Values},
};

/// Rows that see nothing: at least so many.
#[track_caller]
fn blind<T: Element>(solved: &SolvedAttention<T>) -> usize {
    let rows = solved.expected.o.chunks(solved.case.value_dim).zip(&solved.expected.lse);
    let blind = rows.filter(|(_, lse)| **lse == f64::NEG_INFINITY);
    // The reference agrees with the definition.
    blind.inspect(|(o, _)| assert!(o.iter().all(|&o| o == 0.0))).count()
}

/// Every way to hide whole rows, and others in part.
fn hiding() -> Vec<AttentionCase> {
    let case = AttentionCase::new((2, 2, 70, 140, 64));
    let scores = case.scores();
    let bytes = ByteMask { hidden_rows: 0.5, ..ByteMask::new(&scores) };
    let bias = AdditiveMask { hidden_rows: 0.5, ..AdditiveMask::new(&scores) };
    let masks = |bytes: Option<ByteMask>, bias: Option<AdditiveMask>| AttentionCase {
        bytes,
        bias,
        seed: 3,
        ..case.clone()
    };
    let tall = AttentionCase { queries: 140, keys: 70, ..case.clone() };
    let window = |left, right| AttentionCase { window: Some((left, right)), ..tall.clone() };
    vec![
        masks(Some(bytes.clone()), None),
        masks(Some(ByteMask { polarity: Polarity::Keep, ..bytes.clone() }), None),
        // One byte or number for a whole row.
        masks(Some(ByteMask { shape: vec![2, 2, 70, 1], ..bytes.clone() }), None),
        masks(None, Some(AdditiveMask { hidden: 0.5, ..AdditiveMask::new(&[2, 1, 70, 1]) })),
        masks(None, Some(bias.clone())),
        masks(None, Some(AdditiveMask { wide: true, ..bias.clone() })),
        masks(Some(bytes), Some(bias)),
        tall.clone().causal(),
        window(3, 0),
        AttentionCase { diagonal: Causal::TopLeft, ..window(3, 0) },
        AttentionCase { key_lengths: Some(vec![0, 140]), ..case.clone() },
        AttentionCase { query_lengths: Some(vec![70, 0]), ..case.clone() },
        AttentionCase { key_lengths: Some(vec![5, 69]), ..case.clone() }.causal(),
    ]
}

fn rows_that_see_nothing<T: Element>() {
    for case in hiding() {
        let solved = case.solve::<T>();
        let (found, rows) = (blind(&solved), solved.expected.lse.len());
        assert!((20..rows).contains(&found), "{found} of {rows}: {case:?}");
        on_every_backend(|device| solved.assert_right(device));
    }
}

#[test]
fn rows_that_see_nothing_f16() {
    rows_that_see_nothing::<f16>();
}

#[test]
fn rows_that_see_nothing_bf16() {
    rows_that_see_nothing::<bf16>();
}

#[test]
fn rows_that_see_nothing_f32() {
    rows_that_see_nothing::<f32>();
}

/// With a bottom right diagonal the first Sq - Sk queries see nothing; from the top left, all do.
#[test]
fn more_queries_than_keys() {
    for (queries, keys) in [(2, 1), (65, 1), (100, 37), (130, 129), (200, 64)] {
        let case = AttentionCase::new((1, 2, queries, keys, 64)).causal();
        let solved = case.solve::<f16>();
        assert_eq!(blind(&solved), 2 * (queries - keys));
        on_every_backend(|device| {
            let (o, lse) = solved.run(device).unwrap();
            for head in 0..2 {
                let first = head * queries;
                let nothing = first..first + queries - keys;
                assert!(lse[nothing.clone()].iter().all(|&lse| lse == f32::NEG_INFINITY));
                let nothing = nothing.start * 64..nothing.end * 64;
                assert!(o[nothing].iter().all(|&o| o == f16::ZERO));
            }
            solved.assert_right(device);
        });
        let top_left = AttentionCase { causal: Some(Causal::TopLeft), ..case };
        let solved = top_left.solve::<f16>();
        assert_eq!(blind(&solved), 0);
        on_every_backend(|device| solved.assert_right(device));
    }
}

/// Keys whose bias is -inf in whole blocks of keys, so that parts that see nothing are merged: with
/// one another, and with parts that see something.
#[test]
fn parts_that_see_nothing_are_merged() {
    // Beyond the first of several blocks, between two, and all of them.
    let hides: [fn(usize) -> bool; 4] =
        [|j| j >= 3, |j| j < 400, |j| (100..380).contains(&j), |_| true];
    on_every_backend(|device| {
        for hides in hides {
            let keys = 401;
            let case = AttentionCase::new((1, 1, 20, keys, 64));
            let q = device.upload(&vec![f16::ONE; 20 * 64], &[1, 1, 20, 64]).unwrap();
            let k = device.upload(&vec![f16::ZERO; keys * 64], &[1, 1, keys, 64]).unwrap();
            let v: Vec<f16> = (0..keys * 64).map(|n| f16::from_f64((n / 64) as f64)).collect();
            let v = device.upload(&v, &[1, 1, keys, 64]).unwrap();
            let hidden: Vec<u8> = (0..keys).map(|j| hides(j).into()).collect();
            let numbers: Vec<f32> =
                hidden.iter().map(|&h| if h != 0 { f32::NEG_INFINITY } else { 0.0 }).collect();
            let hidden = device.upload(&hidden, &[keys]).unwrap();
            let numbers = device.upload(&numbers, &[keys]).unwrap();
            let seen: Vec<f64> = (0..keys).filter(|&j| !hides(j)).map(|j| j as f64).collect();
            let (sum, count) = (seen.iter().sum::<f64>(), seen.len() as f64);
            let inputs = fused_attention::AttentionInputs::new(&q, &k, &v);
            for inputs in
                [inputs.mask(fused_attention::Mask::exclude(&hidden)), inputs.bias(&numbers)]
            {
                let output = case.options().forward(&inputs).unwrap();
                let mean = if seen.is_empty() { 0.0 } else { sum / count };
                for o in output.o.to_vec().unwrap() {
                    assert!((o.to_f64() - mean).abs() <= 1e-3 * mean, "{o}, not {mean}");
                }
                for lse in output.lse.to_vec().unwrap() {
                    let near = (f64::from(lse) - count.ln()).abs() < 1e-4;
                    assert!(near || f64::from(lse) == count.ln(), "{lse}, not ln {count}");
                }
            }
        }
    });
}

/// Finite numbers do not mask, however low.
#[test]
fn the_lowest_numbers_do_not_mask() {
    let lowest = f64::from(f32::MIN);
    let case = AttentionCase::new((1, 2, 33, 130, 64));
    let bias = AdditiveMask { hidden: 0.0, wide: true, ..AdditiveMask::new(&case.scores()) };
    for values in [
        // On every key of a row: the average. On some: those weigh nothing.
        Values::Constant(lowest),
        Values::Either(lowest, 0.0),
        Values::Constant(-60_000.0),
        Values::Either(-10_000.0, -10_001.0),
    ] {
        for hidden in [0.0, 0.3] {
            let bias = AdditiveMask { values, hidden, ..bias.clone() };
            let case = AttentionCase { bias: Some(bias), ..case.clone() };
            on_every_backend(|device| {
                case.assert_right::<f16>(device);
                case.assert_right::<bf16>(device);
            });
        }
    }
    // The lowest number of f16 itself.
    let bias = AdditiveMask { wide: false, values: Values::Constant(-65504.0), ..bias };
    let case = AttentionCase { bias: Some(bias), ..case };
    let solved = case.solve::<f16>();
    assert!(solved.expected.lse.iter().all(|lse| lse.is_finite()));
    on_every_backend(|device| solved.assert_right(device));
}
