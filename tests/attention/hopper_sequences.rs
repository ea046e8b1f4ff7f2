//! Lengths and packed sequences on each tile for Hopper: neither rows of other sequences nor rows that
//! do not count show, whatever they hold.

use super::hopper::{devices, head_dims, of_tile, takes_masks, tiles};
use fused_attention::Element;
use half::{bf16, f16};
use std::{iter, ops::Range};
use support::{
    attention_case::{AttentionCase, Edit, Operand},
    is_gpu, on_every_backend,
    softmax_case::{AdditiveMask, ByteMask},
};

/// Rows of a side's tensor that count, of the batch entry or in all sequences.
fn counted(
    batch: usize,
    offsets: Option<&[i32]>,
    lengths: Option<&[i32]>,
    rows: usize,
) -> Vec<Vec<Range<usize>>> {
    let length = |b: usize, slot: usize| lengths.map_or(slot, |of| (of[b] as usize).min(slot));
    let Some(offsets) = offsets else {
        return (0..batch).map(|b| iter::once(0..length(b, rows)).collect()).collect();
    };
    let of_sequence = |(b, pair): (usize, &[i32])| {
        let (first, end) = (pair[0] as usize, pair[1] as usize);
        first..first + length(b, end - first)
    };
    vec![offsets.windows(2).enumerate().map(of_sequence).collect()]
}

/// NaN and infinity in all rows of q, k and v that do not count.
fn poisoned(case: AttentionCase) -> AttentionCase {
    let batch = case.sequences();
    let queries = (case.query_offsets.as_deref(), case.query_lengths.as_deref(), case.queries);
    let keys = (case.key_offsets.as_deref(), case.key_lengths.as_deref(), case.keys);
    let mut edits = Vec::new();
    for (operand, shape, (offsets, lengths, rows)) in [
        (Operand::Q, case.query_shape(case.head_dim), queries),
        (Operand::K, case.key_shape(case.head_dim), keys),
        (Operand::V, case.key_shape(case.value_dim), keys),
    ] {
        let [heads, rows_of_tensor, elements] = shape[shape.len() - 3..] else { unreachable!() };
        for (b, counted) in counted(batch, offsets, lengths, rows).iter().enumerate() {
            let counts = |row: usize| counted.iter().any(|range| range.contains(&row));
            for head in 0..heads {
                for row in (0..rows_of_tensor).filter(|&row| !counts(row)) {
                    let first = ((b * heads + head) * rows_of_tensor + row) * elements;
                    edits.extend((first..first + elements).map(|element| {
                        let value = if element % 2 == 0 { f64::NAN } else { f64::INFINITY };
                        Edit { operand, element, value }
                    }));
                }
            }
        }
    }
    assert!(!edits.is_empty());
    AttentionCase { edits, ..case }
}

/// Some with more tiles than blocks take at once, and sequences that have fewer rows than a tile, or none.
fn problems(tile: &'static str) -> Vec<AttentionCase> {
    let case = |sizes| of_tile(tile, sizes);
    let lengths = AttentionCase {
        query_lengths: Some(vec![150, 0, 66, 9]),
        key_lengths: Some(vec![299, 31, 129, 0]),
        ..case((4, 2, 1, 150, 300))
    };
    let packed = AttentionCase {
        query_offsets: Some(vec![3, 153, 153, 162, 290]),
        key_offsets: Some(vec![1, 132, 141, 150, 401]),
        ..case((1, 6, 2, 0, 0))
    };
    let both = AttentionCase {
        query_lengths: Some(vec![150, 0, 5, 100]),
        key_lengths: Some(vec![70, 9, 0, 128]),
        counts_on_device: true,
        ..packed.clone()
    };
    let query_side = AttentionCase {
        query_offsets: Some(vec![0, 70, 79]),
        key_lengths: Some(vec![100, 33]),
        window: Some((60, 9)),
        ..case((2, 1, 1, 0, 130))
    };
    let key_side = AttentionCase {
        key_offsets: Some(vec![5, 140, 150]),
        counts_on_device: true,
        ..case((2, 1, 1, 80, 0))
    };
    [lengths.clone(), packed.clone(), packed.causal(), lengths.causal(), both, query_side, key_side]
        .map(poisoned)
        .into()
}

/// The problem with a mask, if that is what its tile is for.
fn masked(case: AttentionCase) -> AttentionCase {
    // A byte that hides nothing.
    let shows = ByteMask { hidden: 0.0, ..ByteMask::new(&[1, 1]) };
    let bytes = case.tile.filter(takes_masks).map(|_| shows);
    AttentionCase { bytes, ..case }
}

/// The problem with what its tile is for, if that is not as little as possible: a mask, a mask and
/// dropout, or a bias, of rows that begin anywhere.
fn varied(case: AttentionCase, number: usize) -> AttentionCase {
    if !case.tile.as_ref().is_some_and(takes_masks) {
        return case;
    }
    let shape = [case.heads, case.most_queries(), case.most_keys()];
    let bytes = || Some(ByteMask::new(&shape));
    match number % 3 {
        0 => AttentionCase { bytes: bytes(), ..case },
        1 => AttentionCase { bytes: bytes(), dropout: Some((0.3, 5, 6)), ..case },
        _ => AttentionCase { bias: Some(AdditiveMask::new(&shape)), ..case },
    }
}

/// Every second problem from problem `first` on.
fn every_tile<T: Element>(first: usize) {
    let devices = devices();
    for tile in tiles() {
        for (number, case) in problems(tile).into_iter().enumerate().skip(first).step_by(2) {
            let solved = varied(case, number / 2).solve::<T>();
            assert!(solved.expected.o.iter().all(|o| o.is_finite()));
            for device in &devices {
                solved.assert_right(device);
            }
        }
    }
}

#[test]
fn every_tile_f16() {
    every_tile::<f16>(0);
}

#[test]
fn every_tile_bf16() {
    every_tile::<bf16>(1);
}

/// NaN in all values of a sequence: it shows there, and in no other.
#[test]
fn a_sequence_of_nan() {
    let devices = devices();
    for tile in tiles() {
        let (head_dim, value_dim) = head_dims(tile);
        let offsets = vec![0, 40, 80, 120];
        let edits = (40 * value_dim..80 * value_dim).map(|element| Edit {
            operand: Operand::V,
            element,
            value: f64::NAN,
        });
        let case = AttentionCase {
            tile: Some(tile),
            value_dim,
            edits: edits.collect(),
            query_offsets: Some(offsets.clone()),
            key_offsets: Some(offsets),
            ..AttentionCase::new((1, 1, 0, 0, head_dim))
        };
        let solved = masked(case).solve::<bf16>();
        let is_nan = |row: usize| solved.expected.o[row * value_dim].is_nan();
        assert!((0..120).all(|row| is_nan(row) == (40..80).contains(&row)));
        devices.iter().for_each(|device| solved.assert_right(device));
    }
}

/// So many tiles that each block takes several, and passes over some, on a GPU too.
#[test]
fn each_block_takes_several_tiles() {
    on_every_backend(|device| {
        let (sequences, heads) = if is_gpu(device) { (96, 24) } else { (12, 2) };
        let offsets = |step: i32| -> Vec<i32> {
            let length = |i: i32| if i % 5 == 3 { 0 } else { i * step % 290 + 1 };
            (0..=sequences).map(|end| (0..end).map(length).sum()).collect()
        };
        let packed = AttentionCase {
            kv_heads: heads / 2,
            query_offsets: Some(offsets(37)),
            key_offsets: Some(offsets(53)),
            counts_on_device: true,
            ..AttentionCase::new((1, heads, 0, 0, 64))
        };
        let bytes = Some(ByteMask::new(&[heads, 1, 150]));
        let batch = sequences as usize;
        let dense = AttentionCase { bytes, ..AttentionCase::new((batch, heads, 200, 150, 64)) };
        let dropped = AttentionCase { dropout: Some((0.3, 5, 6)), ..dense.clone() };
        for case in [packed.clone(), packed.causal(), dense.causal(), dropped] {
            let solved = case.solve_for::<bf16>(device);
            if device.compute_capability() == (9, 0) {
                let tile = solved.explain(device).expect("there is a tile").tile;
                assert!(tile.starts_with("hopper"), "{tile}");
            }
            solved.assert_right(device);
        }
    });
}

/// Blocks are as many as for batch entries where tensors have as many rows as sequences that are all as
/// long as the longest, and more elsewhere. Whether sequences are does not matter to what comes of it.
#[test]
fn sequences_of_one_length_are_scheduled_like_batch_entries() {
    for device in devices() {
        let heads = if is_gpu(&device) { 64 } else { 2 };
        let blocks = |offsets: Option<[i32; 4]>| {
            let offsets = offsets.map(Vec::from);
            let case = AttentionCase {
                query_offsets: offsets.clone(),
                key_offsets: offsets,
                ..AttentionCase::new((3, heads, 300, 300, 128))
            };
            let solved = case.causal().solve_for::<bf16>(&device);
            solved.assert_right(&device);
            let explanation = solved.explain(&device).expect("there is a tile");
            assert_eq!(explanation.tile, "hopper_d128");
            explanation.launches[0].grid.x
        };
        let dense = blocks(None);
        // There are two rows beyond the last sequence.
        assert_eq!(blocks(Some([0, 300, 600, 898])), dense);
        let uneven = blocks(Some([0, 298, 598, 897]));
        assert!(uneven > dense, "{uneven}, {dense}");
    }
}
