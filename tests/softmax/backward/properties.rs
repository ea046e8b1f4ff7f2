//! Random problems of every sort, compared with the reference; a failure is shrunk to a small one.

use super::super::properties::{edits, problem};
use fused_attention::{Accumulate, Device, backward_tile_names, reference::softmax::Saved};
use half::{bf16, f16};
use proptest::{prelude::*, sample::select, test_runner::TestCaseError};
use support::{
    gpus,
    random_problems::{cases, draw, emulator, placement},
    softmax_case::{BackwardCase, InPlace, SOURCES, Values},
};

fn backward_problem() -> impl Strategy<Value = BackwardCase> {
    let forward = problem(backward_tile_names().collect());
    let dp_values = prop_oneof![
        4 => Just(Values::Normal),
        1 => (0.01..30f64).prop_map(Values::Scaled),
        1 => Just(Values::Constant(1.0)),
        1 => Just(Values::Either(-3.0, 5.0)),
    ];
    let in_place = prop_oneof![
        3 => Just(None),
        1 => select(vec![Some(InPlace::Saved), Some(InPlace::Gradient)]),
    ];
    (forward, select(SOURCES.to_vec()), placement(), dp_values, edits(), in_place).prop_map(
        |(forward, saved, dp, dp_values, mut dp_edits, in_place)| {
            let count: usize = forward.shape.iter().product();
            for (i, value) in &mut dp_edits {
                *i %= count;
                // An infinite gradient makes infinities of small probabilities and NaN of those
                // that are 0, which small ones may be for rounding.
                *value = if saved == Saved::Scores { f64::NAN } else { *value };
            }
            BackwardCase { forward, saved, dp, dp_values, dp_edits, in_place }
        },
    )
}

fn check<T: Accumulate>(case: &BackwardCase, device: &Device) -> Result<(), TestCaseError> {
    match case.solve::<T>().check(device) {
        // A tile that the problem was forced on may not be able to run it.
        Err(error) if case.forward.tile.is_some() && error.contains("no eligible tile") => Ok(()),
        Err(error) => Err(TestCaseError::fail(format!("{} on {device}: {error}", T::DTYPE))),
        Ok(()) => Ok(()),
    }
}

fn random_problems<T: Accumulate>() {
    let problems = backward_problem();
    draw(cases(false), &problems, |case| check::<T>(&case, &emulator(case.forward.seed)));
    for gpu in gpus() {
        draw(cases(true), &problems, |case| check::<T>(&case, &gpu));
    }
}

#[test]
fn random_problems_f16() {
    random_problems::<f16>();
}

#[test]
fn random_problems_bf16() {
    random_problems::<bf16>();
}

#[test]
fn random_problems_f32() {
    random_problems::<f32>();
}

#[test]
fn random_problems_f64() {
    random_problems::<f64>();
}
