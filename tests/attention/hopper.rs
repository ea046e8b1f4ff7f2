//! The tiles for Hopper, each on problems of its own: of several tiles a block, that fill no tile, with
//! shared heads, windows, and every layout that tensor maps take.

use cuda_emulator::Emulator;
use fused_attention::{
    Attention, AttentionInputs, Device, Element, Polarity, attention_tile_names,
};
use half::{bf16, f16};
use support::{
    attention_case::{AttentionCase, Edit, Operand},
    backends, is_gpu,
    placement::Placement,
    softmax_case::{AdditiveMask, Bank, ByteMask},
};

pub(super) fn tiles() -> impl Iterator<Item = &'static str> {
    attention_tile_names().filter(|tile| tile.starts_with("hopper"))
}

/// Those for masks, biases and all other features, and for nothing else.
pub(super) fn takes_masks(tile: &&str) -> bool {
    tile.ends_with("_masked")
}

/// The widest head dimensions of keys and values that a tile of this name holds.
pub(super) fn head_dims(tile: &str) -> (usize, usize) {
    let mut numbers = tile.split('_').filter_map(|part| part[1..].parse().ok());
    let head_dim = numbers.next().expect("tiles are named by head dimensions");
    (head_dim, numbers.next().unwrap_or(head_dim))
}

/// Every backend that can run them, and with the emulator one that shuffles, delays and looks for races.
pub(super) fn devices() -> Vec<Device> {
    let mut devices = backends();
    devices.retain(|device| device.compute_capability() == (9, 0));
    if !devices.iter().all(is_gpu) {
        devices.push(Device::emulator_with(Emulator::adversarial(1)));
    }
    devices
}

/// A problem for a tile, of its head dimensions and so many batch entries, heads, K/V heads, queries and
/// keys.
pub(super) fn of_tile(
    tile: &'static str,
    (batch, heads, kv_heads, queries, keys): (usize, usize, usize, usize, usize),
) -> AttentionCase {
    let (head_dim, value_dim) = head_dims(tile);
    AttentionCase {
        tile: Some(tile),
        kv_heads,
        value_dim,
        ..AttentionCase::new((batch, heads, queries, keys, head_dim))
    }
}

fn problems(tile: &'static str) -> Vec<AttentionCase> {
    let (head_dim, value_dim) = head_dims(tile);
    let case = |sizes| of_tile(tile, sizes);
    let window = AttentionCase { window: Some((70, 5)), ..case((1, 1, 1, 200, 330)) };
    let layout = AttentionCase {
        q: Placement::Permuted,
        k: Placement::Packed,
        v: Placement::Sliced(8),
        o: Placement::RowsFirst,
        ..case((2, 1, 1, 80, 100))
    };
    let narrow = AttentionCase {
        head_dim: head_dim - 24,
        value_dim: value_dim - 8,
        scale: Some(-0.7),
        ..case((1, 1, 1, 65, 300))
    };
    vec![
        case((1, 6, 2, 140, 270)),
        case((1, 5, 5, 140, 140)).causal(),
        case((1, 1, 1, 300, 60)).causal(),
        window,
        layout,
        narrow,
    ]
}

/// Scores with something of their own, over several blocks of keys and tiles.
fn masked_problems(tile: &'static str) -> Vec<AttentionCase> {
    let case = |sizes| of_tile(tile, sizes);
    let (aligned, odd) = (case((1, 3, 1, 140, 296)), case((2, 2, 2, 130, 163)));
    let bytes = |case: &AttentionCase| Some(ByteMask::new(&case.scores()[1..]));
    let bias = |case: &AttentionCase, wide| {
        Some(AdditiveMask { wide, ..AdditiveMask::new(&case.scores()[1..]) })
    };
    let keep =
        ByteMask { polarity: Polarity::Keep, hidden_rows: 0.3, ..ByteMask::new(&[140, 296]) };
    let mut cases = vec![
        AttentionCase { bytes: Some(keep), ..aligned.clone() },
        AttentionCase { bytes: bytes(&odd), ..odd.clone() }.causal(),
        AttentionCase { bias: bias(&aligned, false), ..aligned.clone() },
        AttentionCase { bias: bias(&aligned, true), ..aligned.clone() }.causal(),
        AttentionCase { bias: bias(&odd, false), ..odd.clone() },
        AttentionCase { bias: bias(&odd, true), window: Some((70, 5)), ..odd.clone() },
        AttentionCase { bytes: bytes(&aligned), bias: bias(&aligned, false), ..aligned.clone() },
        AttentionCase { bias: Some(AdditiveMask::new(&[140, 1])), ..aligned.clone() },
        AttentionCase { slopes: Some(vec![3]), scale: Some(-0.2), ..aligned.clone() }.causal(),
        AttentionCase { softcap: Some(1.5), scale: Some(0.7), ..aligned.clone() },
        AttentionCase { dropout: Some((0.3, 5, 6)), ..aligned.clone() },
        AttentionCase { dropout: Some((0.6, 7, 8)), seed_on_device: true, ..odd.clone() }.causal(),
    ];
    // An index that the bank does not have: NaN in its batch entry.
    let bank = Some(Bank { index: Some(vec![1, 3]), ..Bank::random(3) });
    cases.push(AttentionCase {
        bytes: bytes(&odd),
        bias: bias(&odd, true),
        bank,
        counts_on_device: true,
        slopes: Some(vec![2]),
        softcap: Some(9.0),
        dropout: Some((0.1, 1, 2)),
        ..odd
    });
    cases
}

fn every_tile<T: Element>() {
    let devices = devices();
    for tile in tiles() {
        for case in if takes_masks(&tile) { masked_problems(tile) } else { problems(tile) } {
            let solved = case.solve::<T>();
            for device in &devices {
                solved.assert_right(device);
            }
        }
    }
}

#[test]
fn every_tile_f16() {
    every_tile::<f16>();
}

#[test]
fn every_tile_bf16() {
    every_tile::<bf16>();
}

/// Rows all of whose scores are far below 0, or so in the blocks of keys that come first; and such whose
/// later blocks are far above those before, or below.
#[test]
fn scores_below_zero() {
    let devices = devices();
    let (queries, keys) = (70, 500);
    for tile in tiles() {
        let head_dim = head_dims(tile).0;
        let edit = |operand, row, value| Edit { operand, element: head_dim * row, value };
        // Of keys from the middle on, which come first, and of those before.
        for (first, then) in [(20.0, 20.0), (20.0, 10.0), (10.0, 20.0), (20.0, -20.0)] {
            let of_key = |key| edit(Operand::K, key, if key >= keys / 2 { first } else { then });
            let of_queries = (0..queries).map(|query| edit(Operand::Q, query, -20.0));
            let bytes = ByteMask { hidden: 0.2, ..ByteMask::new(&[queries, keys]) };
            let case = AttentionCase {
                edits: of_queries.chain((0..keys).map(of_key)).collect(),
                bytes: takes_masks(&tile).then_some(bytes),
                ..of_tile(tile, (1, 1, 1, queries, keys))
            };
            let solved = case.solve::<bf16>();
            for device in &devices {
                solved.assert_right(device);
            }
        }
    }
}

/// Which probabilities are kept is the same on all tiles: with equal scores, and a value of its own for
/// each key, the output tells.
#[test]
fn dropout_is_that_of_other_kernels() {
    let device = Device::emulator();
    for tile in tiles().filter(takes_masks) {
        let (queries, dim) = (150, head_dims(tile).0);
        let zeros = |rows: usize| device.zeros::<f16>(&[2, 1, rows, dim]).unwrap();
        let (q, k) = (zeros(queries), zeros(dim));
        let unit = |n: usize| if n % dim == n / dim % dim { f16::ONE } else { f16::ZERO };
        let v: Vec<_> = (0..2 * dim * dim).map(unit).collect();
        let v = device.upload(&v, &[2, 1, dim, dim]).unwrap();
        let inputs = AttentionInputs::new(&q, &k, &v).dropout_seed(11, 12);
        let kept = |tile| {
            let attention = Attention::new().dropout(0.4).with_tile(tile).unwrap();
            let o = attention.forward(&inputs).unwrap().o.to_vec().unwrap();
            o.into_iter().map(|o| o != f16::ZERO).collect::<Vec<_>>()
        };
        let found = kept(tile);
        assert!(
            found == kept(&tile.replace("hopper", "portable").replace("_masked", "")),
            "{tile}"
        );
        let share = found.iter().filter(|&&kept| kept).count() as f64 / found.len() as f64;
        assert!((share - 0.6).abs() < 0.02, "{tile}: {share}");
    }
}

/// Problems with masks, biases or dropout take them by themselves.
#[test]
fn masks_take_them() {
    let device = Device::emulator();
    let case = AttentionCase::new((1, 2, 200, 104, 80));
    let tile = |case: AttentionCase| case.solve::<bf16>().explain(&device).unwrap().tile;
    assert_eq!(tile(case.clone()), "hopper_d128");
    for case in [
        AttentionCase { bytes: Some(ByteMask::new(&[200, 104])), ..case.clone() },
        AttentionCase { bias: Some(AdditiveMask::new(&[104])), ..case.clone() },
        AttentionCase { slopes: Some(vec![2]), ..case.clone() },
        AttentionCase { softcap: Some(9.0), ..case.clone() },
        AttentionCase { dropout: Some((0.5, 1, 2)), ..case.clone() },
    ] {
        assert_eq!(tile(case.clone()), "hopper_d128_masked");
        assert_eq!(
            tile(AttentionCase { head_dim: 64, value_dim: 64, ..case.clone() }),
            "hopper_d64_masked"
        );
        assert_eq!(tile(AttentionCase { value_dim: 200, ..case.clone() }), "hopper_d256_masked");
        assert!(tile(AttentionCase { queries: 64, bytes: None, ..case }).starts_with("portable"));
    }
}

/// Why a tile for Hopper is not taken.
#[test]
fn what_they_do_not_take_is_told() {
    let device = Device::emulator();
    let reason = |change: &dyn Fn(&mut AttentionCase)| {
        let mut case = AttentionCase::new((1, 2, 200, 100, 128));
        change(&mut case);
        let explanation = case.solve::<f16>().explain(&device).unwrap();
        let found = explanation.passed_over.iter().find(|(tile, _)| *tile == "hopper_d128");
        found.map(|(_, reason)| reason.clone()).unwrap_or_default()
    };
    assert_eq!(reason(&|_| ()), "");
    assert_eq!(reason(&|case| case.key_lengths = Some(vec![9])), "");
    let offsets = Some(vec![0, 200]);
    assert_eq!(reason(&|case| case.query_offsets = offsets.clone()), "");
    assert!(reason(&|case| case.softcap = Some(9.0)).contains("no kernel"));
    assert!(reason(&|case| case.q = Placement::Offset(1)).contains("no kernel"));
    let mut case = AttentionCase::new((1, 2, 200, 100, 128));
    (case.softcap, case.q) = (Some(9.0), Placement::Offset(1));
    let explanation = case.solve::<f16>().explain(&device).unwrap().to_string();
    assert!(explanation.contains("has no tensor map of q"), "{explanation}");
    assert!(reason(&|case| case.queries = 64).contains("only from 65 queries on"));
    assert!(reason(&|case| case.head_dim = 136).contains("holds head dimensions"));
}

/// A row that is repeated by a stride of 0 has no tensor map.
#[test]
fn repeated_rows_take_other_kernels() {
    let device = Device::emulator();
    let x = device.zeros::<f16>(&[1, 2, 100, 64]).unwrap();
    let row = device.zeros::<f16>(&[1, 1, 1, 64]).unwrap();
    let repeated = row.expand(&[1, 2, 100, 64]).unwrap();
    let explain = |k| Attention::new().explain(&AttentionInputs::new(&x, k, &x), &x).unwrap();
    assert!(explain(&x).tile.starts_with("hopper"));
    let explanation = explain(&repeated);
    assert!(explanation.tile.starts_with("portable"));
    assert!(explanation.to_string().contains("has no tensor map of k: a stride is 0"));
}

/// What kernels a tile has, and has not.
#[test]
fn what_a_tile_is_for_is_told() {
    let case = AttentionCase::new((1, 1, 20, 100, 64));
    let masked = AttentionCase { bytes: Some(ByteMask::new(&[20, 100])), ..case.clone() };
    let softcap = AttentionCase { softcap: Some(20.0), ..AttentionCase::new((1, 1, 100, 100, 64)) };
    for device in devices() {
        let passed_over = |case: &AttentionCase| {
            case.solve::<bf16>().explain(&device).expect("there is a tile").passed_over
        };
        let told = |case: &AttentionCase, tile: &str| {
            let passed_over = passed_over(case);
            let reason = passed_over.iter().find(|(name, _)| *name == tile);
            reason.map(|(_, reason)| reason.clone()).unwrap_or_default()
        };
        let alone = "has kernels for masks, biases, softcap and dropout alone";
        assert_eq!(told(&case, "hopper_d64_masked"), alone);
        let none = "has no kernel for masks, biases, softcap or dropout";
        assert_eq!(told(&masked, "hopper_d64"), none);
        // Of the tile that is taken there is no plain entry to be told of.
        assert!(passed_over(&softcap).iter().all(|(name, _)| !name.contains("plain entry")));
        assert_eq!(told(&masked, "its plain entry"), "there is a boolean mask");
    }
}
