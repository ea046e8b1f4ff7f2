//! The tiles for Hopper, each on problems of its own: of several tiles a block, that fill no tile, with
//! shared heads, windows, and every layout that tensor maps take.

use cuda_emulator::Emulator;
use fused_attention::{Attention, AttentionInputs, Device, Element, attention_tile_names};
use half::{bf16, f16};
use support::{attention_case::AttentionCase, backends, is_gpu, placement::Placement};

pub(super) fn tiles() -> impl Iterator<Item = &'static str> {
    attention_tile_names().filter(|tile| tile.starts_with("hopper"))
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

fn problems(tile: &'static str) -> Vec<AttentionCase> {
    let (head_dim, value_dim) = head_dims(tile);
    let case = |(batch, heads, kv_heads, queries, keys)| AttentionCase {
        tile: Some(tile),
        kv_heads,
        value_dim,
        ..AttentionCase::new((batch, heads, queries, keys, head_dim))
    };
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

fn every_tile<T: Element>() {
    let devices = devices();
    for tile in tiles() {
        for case in problems(tile) {
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
