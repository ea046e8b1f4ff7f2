//! Random problems of every sort, compared with the reference; a failure is shrunk to a small one.

use fused_attention::{Accumulate, Causal, Device, Error, Per, Polarity, tile_names};
use half::{bf16, f16};
use proptest::{prelude::*, sample::select, test_runner::TestCaseError};
use support::{
    gpus,
    placement::Placement,
    random_problems::{cases, draw, emulator, placement},
    softmax_case::{AdditiveMask, Bank, ByteMask, Lengths, SoftmaxCase, Values},
};

/// x's shape: up to six dimensions, few rows, columns around the sizes of vectors and warps.
fn shape() -> impl Strategy<Value = Vec<usize>> {
    let columns = prop_oneof![
        4 => 1usize..40,
        4 => (1usize..40).prop_map(|vectors| 8 * vectors),
        2 => 1usize..700,
        1 => 700usize..9000,
        1 => (90usize..1200).prop_map(|vectors| 8 * vectors),
    ];
    (prop::collection::vec(1usize..5, 0..=5), columns).prop_map(|(mut shape, columns)| {
        while shape.iter().product::<usize>() * columns > 20_000 {
            let largest = (0..shape.len()).max_by_key(|&dim| shape[dim]);
            shape[largest.expect("rows")] = 1;
        }
        shape.push(columns);
        shape
    })
}

fn values() -> impl Strategy<Value = Values> {
    prop_oneof![
        4 => Just(Values::Normal),
        1 => (0.01..300f64).prop_map(Values::Scaled),
        1 => (-30_000..30_000i32).prop_map(|value| Values::Constant(value.into())),
        1 => Just(Values::Between(-60_000.0, -10_000.0)),
        1 => Just(Values::Either(-65504.0, 65504.0)),
    ]
}

/// A few elements that are not finite, somewhere.
pub(super) fn edits() -> impl Strategy<Value = Vec<(usize, f64)>> {
    let value = select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec((any::<usize>(), value), 1..4)]
}

fn scale() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -2.0..2f64,
        1 => select(vec![1.0, 0.0, -1.0, 0.125, 1e4, -1e4, 1e-30]),
    ]
}

/// Which dimensions of a mask are of size 1, how many are missing in front, and how it lies.
#[derive(Debug, Clone)]
struct MaskForm {
    ones: u8,
    missing: usize,
    expanded: bool,
    placement: Placement,
    hidden: f64,
    hidden_rows: f64,
}

impl MaskForm {
    fn shape(&self, of: &[usize]) -> Vec<usize> {
        let own = &of[self.missing.min(of.len())..];
        let size = |(dim, &size): (usize, &usize)| if self.ones >> dim & 1 == 1 { 1 } else { size };
        own.iter().enumerate().map(size).collect()
    }
}

fn mask_form() -> impl Strategy<Value = MaskForm> {
    let ones = prop_oneof![Just(0u8), any::<u8>()];
    (
        ones,
        0usize..4,
        any::<bool>(),
        placement(),
        select(vec![0.3, 0.0, 0.9]),
        select(vec![0.0, 0.3]),
    )
        .prop_map(|(ones, missing, expanded, placement, hidden, hidden_rows)| MaskForm {
            ones,
            missing,
            expanded,
            placement,
            hidden,
            hidden_rows,
        })
}

fn lengths() -> impl Strategy<Value = Lengths> {
    (any::<bool>(), any::<bool>()).prop_map(|(per_row, on_device)| {
        let per = if per_row { Per::Row } else { Per::Batch };
        Lengths { on_device, ..Lengths::random(per) }
    })
}

/// Problems of every sort, on the tile that is chosen or one of these.
pub(super) fn problem(tiles: Vec<&'static str>) -> impl Strategy<Value = SoftmaxCase> {
    let alignment = || select(vec![Causal::BottomRight, Causal::TopLeft]);
    let data = (shape(), placement(), placement(), values(), edits());
    let scale = (scale(), any::<bool>(), any::<u64>());
    let range = (
        prop::option::of(alignment()),
        alignment(),
        prop::option::of((-1i64..40, -1i64..40)),
        prop::option::of(lengths()),
    );
    let masks = (
        prop::option::of((mask_form(), any::<bool>())),
        prop::option::of((mask_form(), any::<bool>(), values())),
        prop::option::of(1usize..4),
    );
    let tile = prop_oneof![3 => Just(None), 2 => select(tiles).prop_map(Some)];
    (data, scale, range, masks, tile).prop_map(|(data, scale, range, masks, tile)| {
        let (shape, x, y, values, mut edits) = data;
        let (scale, scale_on_device, seed) = scale;
        let count: usize = shape.iter().product();
        edits.iter_mut().for_each(|(i, _)| *i %= count);
        let (causal, diagonal, window, lengths) = range;
        let bytes = masks.0.map(|(form, keep)| ByteMask {
            shape: form.shape(&shape),
            polarity: if keep { Polarity::Keep } else { Polarity::Exclude },
            hidden: form.hidden,
            hidden_rows: form.hidden_rows,
            expanded: form.expanded,
            placement: form.placement,
        });
        let additive = masks.1.map(|(form, wide, added)| AdditiveMask {
            shape: form.shape(&shape),
            wide,
            // Large products and large masks would cancel.
            values: if values == Values::Normal { added } else { Values::Normal },
            hidden: form.hidden,
            hidden_rows: form.hidden_rows,
            expanded: form.expanded,
            placement: form.placement,
        });
        // Else products round by more than what the mask adds.
        let scale = match (&additive, values) {
            (None, _) => scale,
            (Some(_), Values::Normal | Values::Scaled(_)) => scale.clamp(-2.0, 2.0),
            (Some(_), _) => scale.clamp(-0.5, 0.5),
        };
        let masked = bytes.is_some() || additive.is_some();
        let bank = masks.2.filter(|_| masked).map(Bank::random);
        SoftmaxCase {
            x,
            y,
            values,
            edits,
            scale,
            scale_on_device,
            causal,
            diagonal,
            window,
            bytes,
            additive,
            lengths,
            bank,
            tile,
            seed,
            ..SoftmaxCase::new(&shape)
        }
    })
}

fn check<T: Accumulate>(case: &SoftmaxCase, device: &Device) -> Result<(), TestCaseError> {
    match case.solve::<T>().check(device) {
        // A tile that the problem was forced on may not be able to run it.
        Err(error) if case.tile.is_some() && error.contains("no eligible tile") => Ok(()),
        Err(error) => Err(TestCaseError::fail(format!("{} on {device}: {error}", T::DTYPE))),
        Ok(()) => Ok(()),
    }
}

fn random_problems<T: Accumulate>() {
    let problems = problem(tile_names().collect());
    draw(cases(false), &problems, |case| check::<T>(&case, &emulator(case.seed)));
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

/// A forced tile is refused with its reason, or right: it never falls back to another.
#[test]
fn forced_tiles_run_or_say_why_not() {
    let device = Device::emulator();
    for columns in [5, 64, 600, 3000] {
        for tile in tile_names() {
            let case = SoftmaxCase { tile: Some(tile), ..SoftmaxCase::new(&[2, columns]) };
            if let Err(text) = case.solve::<f32>().check(&device) {
                assert!(text.contains("no eligible tile"), "{text}");
                assert!(text.contains(&format!("{tile}: ")), "{text}");
            }
        }
    }
    let x = device.zeros::<f32>(&[1, 5]).unwrap();
    let softmax = fused_attention::ScaledMaskedSoftmax::new(1.0).with_tile("warp4").unwrap();
    let error = softmax.forward(&x, fused_attention::Mask::none()).unwrap_err();
    assert!(matches!(error, Error::NoEligibleTile { .. }), "{error:?}");
}
