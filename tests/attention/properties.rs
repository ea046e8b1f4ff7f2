//! Random problems of every sort, compared with the reference; a failure is shrunk to a small one.

use fused_attention::{Causal, Device, Element, Polarity, attention_tile_names};
use half::{bf16, f16};
use proptest::{prelude::*, sample::select, test_runner::TestCaseError};
use support::{
    attention_case::{AttentionCase, Edit, Operand},
    gpus,
    placement::Placement,
    random_problems::{cases, draw, emulator, placement},
    softmax_case::{AdditiveMask, Bank, ByteMask, Values},
};

/// Batch entries, K/V heads, query heads of each, queries, keys, head dimensions.
#[derive(Debug, Clone)]
struct Sizes {
    batch: usize,
    kv_heads: usize,
    sharing: usize,
    queries: usize,
    keys: usize,
    head_dim: usize,
    value_dim: usize,
}

/// Rows around the sizes of tiles.
fn rows(most: usize) -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 1usize..40,
        1 => Just(0usize),
        3 => select(vec![15usize, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129]),
        2 => 40usize..200,
    ]
    .prop_map(move |rows| rows.min(most))
}

fn head_dim() -> impl Strategy<Value = usize> {
    prop_oneof![
        3 => Just(64usize),
        2 => select(vec![32usize, 96, 128]),
        2 => (1usize..=16).prop_map(|eighths| 8 * eighths),
        1 => (17usize..=32).prop_map(|eighths| 8 * eighths),
    ]
}

/// `most` multiplications in all, about.
fn sizes(most: usize) -> impl Strategy<Value = Sizes> {
    let heads = (1usize..4, 1usize..4, prop_oneof![3 => 1usize..5, 1 => Just(16usize)]);
    let same = prop::bool::weighted(0.7);
    (heads, rows(1000), rows(1000), head_dim(), head_dim(), same).prop_map(
        move |((batch, kv_heads, sharing), queries, keys, head_dim, other_dim, same)| {
            let value_dim = if same { head_dim } else { other_dim };
            let mut sizes = Sizes { batch, kv_heads, sharing, queries, keys, head_dim, value_dim };
            let work = |s: &Sizes| {
                let pairs = s.batch * s.kv_heads * s.sharing * s.queries * s.keys;
                pairs * (s.head_dim + s.value_dim)
            };
            while work(&sizes) > most {
                let Sizes { batch, kv_heads, sharing, queries, keys, .. } = &mut sizes;
                match [batch, kv_heads, sharing].into_iter().max().filter(|count| **count > 1) {
                    Some(count) => *count -= 1,
                    None if *queries > *keys => *queries /= 2,
                    None => *keys /= 2,
                }
            }
            sizes
        },
    )
}

/// Offsets of sequences of up to so many rows.
fn offsets(batch: usize, most: usize) -> impl Strategy<Value = Vec<i32>> {
    let length = prop_oneof![1 => Just(0usize), 5 => 0..=most];
    (0i32..3, prop::collection::vec(length, batch)).prop_map(|(first, lengths)| {
        let mut offsets = vec![first];
        for length in lengths {
            offsets.push(offsets[offsets.len() - 1] + length as i32);
        }
        offsets
    })
}

fn values() -> impl Strategy<Value = Values> {
    prop_oneof![
        5 => Just(Values::Normal),
        1 => (0.01..4f64).prop_map(Values::Scaled),
        1 => Just(Values::Constant(0.0)),
        1 => Just(Values::Constant(1.5)),
    ]
}

fn scale() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        3 => Just(None),
        3 => (-0.5..0.5f64).prop_map(Some),
        1 => select(vec![0.0, -0.125, 1e-30]).prop_map(Some),
    ]
}

/// How the sides' rows are counted.
#[derive(Debug, Clone)]
struct Counts {
    query_lengths: Option<Vec<i32>>,
    key_lengths: Option<Vec<i32>>,
    query_offsets: Option<Vec<i32>>,
    key_offsets: Option<Vec<i32>>,
    on_device: bool,
}

fn counts(sizes: &Sizes) -> impl Strategy<Value = Counts> + use<> {
    let Sizes { batch, queries, keys, .. } = *sizes;
    let lengths = |most: usize| prop::collection::vec(0..=most as i32, batch);
    let offsets = |most| prop::option::weighted(0.3, offsets(batch, most));
    (
        prop::option::weighted(0.25, lengths(queries)),
        prop::option::weighted(0.35, lengths(keys)),
        offsets(queries),
        offsets(keys),
        any::<bool>(),
    )
        .prop_map(|(query_lengths, key_lengths, query_offsets, key_offsets, on_device)| {
            let mut counts =
                Counts { query_lengths, key_lengths, query_offsets, key_offsets, on_device };
            // The host refuses lengths beyond the longest sequence.
            let clamp = |lengths: &mut Option<Vec<i32>>, offsets: &Option<Vec<i32>>| {
                if let (Some(lengths), Some(offsets)) = (lengths, offsets) {
                    let longest = offsets.windows(2).map(|pair| pair[1] - pair[0]).max();
                    lengths.iter_mut().for_each(|l| *l = (*l).min(longest.unwrap_or(0)));
                }
            };
            clamp(&mut counts.query_lengths, &counts.query_offsets);
            clamp(&mut counts.key_lengths, &counts.key_offsets);
            counts
        })
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
        let size = |(dim, &size): (usize, &usize)| if self.ones >> dim & 1 == 1 { 1 } else { size };
        of[self.missing..].iter().enumerate().map(size).collect()
    }
}

fn mask_form() -> impl Strategy<Value = MaskForm> {
    (
        prop_oneof![Just(0u8), any::<u8>()],
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

fn bias_values() -> impl Strategy<Value = Values> {
    prop_oneof![
        4 => Just(Values::Normal),
        1 => Just(Values::Scaled(8.0)),
        1 => Just(Values::Constant(f64::from(f32::MIN))),
        1 => Just(Values::Either(0.0, -60_000.0)),
    ]
}

/// Problems of every sort of about `most` multiplications, on the tile that is chosen.
pub(super) fn problem(most: usize) -> impl Strategy<Value = AttentionCase> {
    sizes(most)
        .prop_flat_map(|sizes| {
            let counts = counts(&sizes);
            (Just(sizes), counts, features())
        })
        .prop_map(|(sizes, counts, change)| {
            let Sizes { batch, kv_heads, sharing, queries, keys, head_dim, value_dim } = sizes;
            let case = AttentionCase {
                kv_heads,
                value_dim,
                query_lengths: counts.query_lengths,
                key_lengths: counts.key_lengths,
                query_offsets: counts.query_offsets,
                key_offsets: counts.key_offsets,
                counts_on_device: counts.on_device,
                ..AttentionCase::new((batch, kv_heads * sharing, queries, keys, head_dim))
            };
            change.apply(case)
        })
}

/// All else that a problem may have.
#[derive(Debug, Clone)]
struct Features {
    placements: (Placement, Placement, Placement, Placement),
    values: Values,
    nan: Option<(bool, usize)>,
    scale: (Option<f64>, bool),
    softcap: Option<f64>,
    range: (Option<Causal>, Causal, Option<(i64, i64)>),
    bytes: Option<(MaskForm, bool)>,
    bias: Option<(MaskForm, bool, Values)>,
    bank: Option<usize>,
    slopes: Option<u8>,
    dropout: Option<(f64, u64, u32)>,
    seed_on_device: bool,
    seed: u64,
}

fn features() -> impl Strategy<Value = Features> {
    let alignment = || select(vec![Causal::BottomRight, Causal::TopLeft]);
    let tensor = || prop_oneof![3 => Just(Placement::Contiguous), 1 => Just(Placement::RowsFirst), 2 => placement()];
    let data = (
        (tensor(), tensor(), tensor(), tensor()),
        values(),
        prop::option::weighted(0.1, (any::<bool>(), any::<usize>())),
        (scale(), any::<bool>()),
        prop::option::weighted(0.25, 0.5..30f64),
    );
    let range = (
        prop::option::of(alignment()),
        alignment(),
        prop::option::weighted(0.3, (-1i64..80, -1i64..80)),
    );
    let masks = (
        prop::option::weighted(0.3, (mask_form(), any::<bool>())),
        prop::option::weighted(0.3, (mask_form(), any::<bool>(), bias_values())),
        prop::option::of(1usize..4),
        prop::option::weighted(0.25, any::<u8>()),
    );
    let dropout = prop::option::weighted(0.3, (0.0..0.99f64, any::<u64>(), any::<u32>()));
    (data, range, masks, dropout, any::<bool>(), any::<u64>()).prop_map(
        |(data, range, masks, dropout, seed_on_device, seed)| {
            let (placements, values, nan, scale, softcap) = data;
            let (bytes, bias, bank, slopes) = masks;
            Features {
                placements,
                values,
                nan,
                scale,
                softcap,
                range,
                bytes,
                bias,
                bank,
                slopes,
                dropout,
                seed_on_device,
                seed,
            }
        },
    )
}

impl Features {
    fn apply(self, mut case: AttentionCase) -> AttentionCase {
        (case.q, case.k, case.v, case.o) = self.placements;
        (case.scale, case.scale_on_device) = self.scale;
        (case.causal, case.diagonal, case.window) = self.range;
        case.values = self.values;
        case.softcap = self.softcap;
        case.dropout = self.dropout;
        case.seed_on_device = self.seed_on_device;
        case.seed = self.seed;
        let scores = case.scores();
        case.bytes = self.bytes.map(|(form, keep)| ByteMask {
            shape: form.shape(&scores),
            polarity: if keep { Polarity::Keep } else { Polarity::Exclude },
            hidden: form.hidden,
            hidden_rows: form.hidden_rows,
            expanded: form.expanded,
            placement: form.placement,
        });
        case.bias = self.bias.map(|(form, wide, values)| AdditiveMask {
            shape: form.shape(&scores),
            wide,
            values,
            hidden: form.hidden,
            hidden_rows: form.hidden_rows,
            expanded: form.expanded,
            placement: form.placement,
        });
        let masked = case.bytes.is_some() || case.bias.is_some();
        case.bank = self.bank.filter(|_| masked).map(Bank::random);
        case.slopes = self.slopes.map(|form| match form % 3 {
            0 => vec![case.heads],
            1 => vec![case.sequences(), case.heads],
            _ => vec![case.sequences(), 1],
        });
        // NaN in a query, or in a key; what it does to rows that hide the key is nobody's promise
        // for values.
        if let Some((in_query, element)) = self.nan {
            let (operand, shape) = match in_query {
                true => (Operand::Q, case.query_shape(case.head_dim)),
                false => (Operand::K, case.key_shape(case.head_dim)),
            };
            let count: usize = shape.iter().product();
            if count > 0 {
                let element = element % count;
                case.edits.push(Edit { operand, element, value: f64::NAN });
            }
        }
        case
    }
}

fn check<T: Element>(case: &AttentionCase, device: &Device) -> Result<(), TestCaseError> {
    let failed = |error| TestCaseError::fail(format!("{} on {device}: {error}", T::DTYPE));
    case.solve_for::<T>(device).check(device).map_err(failed)
}

fn random_problems<T: Element>() {
    draw(cases(false), &problem(1 << 22), |case| check::<T>(&case, &emulator(case.seed)));
    for gpu in gpus() {
        draw(cases(true), &problem(1 << 27), |case| check::<T>(&case, &gpu));
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

/// A forced tile is refused with its reason, or right: it never falls back to another.
#[test]
fn forced_tiles_run_or_say_why_not() {
    let device = Device::emulator();
    for head_dim in [32, 64, 128, 256] {
        for tile in attention_tile_names() {
            let case = AttentionCase::new((1, 1, 20, 20, head_dim));
            let case = AttentionCase { tile: Some(tile), ..case };
            if let Err(text) = case.solve::<f16>().check(&device) {
                assert!(text.contains("no eligible tile"), "{text}");
                assert!(text.contains(&format!("{tile}: ")), "{text}");
            }
        }
    }
}
