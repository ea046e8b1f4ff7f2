//! Lengths and packed sequences: what is beyond them never counts.

use fused_attention::{Attention, AttentionInputs, RowLengths, Tensor};
use half::{bf16, f16};
use support::{
    attention_case::{AttentionCase, Edit, Operand},
    gpus, on_every_backend,
};

/// NaN and infinity in every element of a batch entry's K and V beyond its length.
fn poisoned(case: AttentionCase, lengths: &[i32]) -> AttentionCase {
    let mut edits = Vec::new();
    let edit = |operand, row: usize, dim: usize, edits: &mut Vec<Edit>| {
        edits.extend((0..dim).map(|d| Edit {
            operand,
            element: row * dim + d,
            value: if d % 2 == 0 { f64::NAN } else { f64::INFINITY },
        }));
    };
    for (batch, &length) in lengths.iter().enumerate() {
        for head in 0..case.kv_heads {
            for row in length as usize..case.keys {
                let row = (batch * case.kv_heads + head) * case.keys + row;
                edit(Operand::K, row, case.head_dim, &mut edits);
                edit(Operand::V, row, case.value_dim, &mut edits);
            }
        }
    }
    AttentionCase { edits, key_lengths: Some(lengths.to_vec()), ..case }
}

#[test]
fn garbage_in_unused_slots_does_not_count() {
    on_every_backend(|device| {
        for (keys, lengths) in [(3, &[1, 3][..]), (128, &[32, 64, 96, 48]), (200, &[0, 1, 65, 199])]
        {
            for queries in [1, 5, 70] {
                let case = AttentionCase::new((lengths.len(), 2, queries, keys, 64));
                let case = poisoned(case, lengths);
                case.assert_right::<f16>(device);
                let on_device = AttentionCase { counts_on_device: true, ..case.clone() };
                on_device.causal().assert_right::<bf16>(device);
                AttentionCase { kv_heads: 2, heads: 4, slopes: Some(vec![4]), ..case }
                    .assert_right::<f16>(device);
            }
        }
    });
}

/// NaN in queries beyond their length, and queries beyond it, which give 0.
#[test]
fn lengths_of_queries() {
    on_every_backend(|device| {
        let lengths = [0, 33, 70];
        let case = AttentionCase::new((3, 2, 70, 90, 64));
        let edits = (0..2 * 70).filter(|row| row % 70 >= 33).map(|row| Edit {
            operand: Operand::Q,
            element: (2 * 70 + row) * 64,
            value: f64::NAN,
        });
        let edits: Vec<Edit> = edits.collect();
        let case = AttentionCase { query_lengths: Some(lengths.to_vec()), edits, ..case };
        case.assert_right::<f16>(device);
        case.clone().causal().assert_right::<f16>(device);
        let key_lengths = Some(vec![90, 0, 45]);
        let case = AttentionCase { key_lengths, counts_on_device: true, ..case }.causal();
        case.assert_right::<f16>(device);
        AttentionCase { kv_heads: 1, ..case }.assert_right::<bf16>(device);
    });
}

/// Lengths that the host does not see and that are beyond the rows count as the rows, and those
/// below 0 as 0.
#[test]
fn lengths_outside_of_the_rows() {
    on_every_backend(|device| {
        let case = AttentionCase {
            key_lengths: Some(vec![i32::MAX, -1, 31]),
            query_lengths: Some(vec![21, i32::MAX, i32::MIN]),
            counts_on_device: true,
            ..AttentionCase::new((3, 1, 20, 30, 64))
        };
        case.assert_right::<f16>(device);
        case.causal().assert_right::<f16>(device);
    });
}

#[test]
fn packed_sequences() {
    let long = [0, 1023, 1023, 1100];
    let packings: [(&[i32], &[i32]); 6] = [
        // Empty ones among them.
        (&[0, 76, 110, 256], &[0, 1, 2, 3]),
        (&[0, 0, 0, 70], &[0, 1, 1, 130]),
        (&[5, 17, 17, 40], &[3, 3, 100, 101]),
        (&[0, 64, 128], &[0, 128, 256]),
        (&[0, 0], &[0, 0]),
        (&[7, 8], &[0, 70]),
    ];
    on_every_backend(|device| {
        for (queries, keys) in packings {
            for counts_on_device in [false, true] {
                let case = AttentionCase {
                    query_offsets: Some(queries.to_vec()),
                    key_offsets: Some(keys.to_vec()),
                    counts_on_device,
                    ..AttentionCase::new((1, 2, 0, 0, 64))
                };
                case.assert_right::<f16>(device);
                case.clone().causal().assert_right::<bf16>(device);
                let case = AttentionCase { heads: 4, slopes: Some(vec![4]), ..case };
                AttentionCase { window: Some((20, 4)), ..case }.assert_right::<f16>(device);
            }
        }
        // Only one side is packed.
        let case = AttentionCase::new((3, 2, 50, 60, 64)).causal();
        let queries = AttentionCase { query_offsets: Some(vec![0, 9, 9, 80]), ..case.clone() };
        queries.assert_right::<f16>(device);
        AttentionCase { key_lengths: Some(vec![60, 0, 11]), ..queries }.assert_right::<f16>(device);
        AttentionCase { key_offsets: Some(vec![2, 9, 9, 80]), ..case }.assert_right::<f16>(device);
    });
    for device in gpus() {
        // Query lengths [0, 0, 1023], key lengths [0, 1, 2045].
        for (queries, keys) in [([0, 0, 0, 1023], [0, 0, 1, 2046]), (long, long)] {
            let case = AttentionCase {
                query_offsets: Some(queries.to_vec()),
                key_offsets: Some(keys.to_vec()),
                ..AttentionCase::new((1, 4, 0, 0, 128))
            };
            case.assert_right::<bf16>(&device);
            case.causal().assert_right::<bf16>(&device);
        }
    }
}

/// Packed sequences with lengths of their own: the rows behind give 0.
#[test]
fn packed_sequences_with_lengths() {
    on_every_backend(|device| {
        let case = AttentionCase {
            query_offsets: Some(vec![0, 30, 60, 70]),
            key_offsets: Some(vec![0, 80, 80, 120]),
            query_lengths: Some(vec![0, 30, 3]),
            key_lengths: Some(vec![11, 0, 40]),
            ..AttentionCase::new((1, 2, 0, 0, 64))
        };
        case.assert_right::<f16>(device);
        case.causal().assert_right::<f16>(device);
    });
}

/// More sequences than a grid's second and third dimensions have.
#[test]
fn many_sequences() {
    on_every_backend(|device| {
        let count = if support::is_gpu(device) { 80_000 } else { 70 };
        let offsets = Some((0..=count).map(|i| 16 * i).collect());
        let case = AttentionCase {
            query_offsets: offsets.clone(),
            key_offsets: offsets,
            ..AttentionCase::new((1, 1, 0, 0, 16))
        };
        case.assert_right::<f16>(device);
        case.causal().assert_right::<bf16>(device);
    });
}

/// The same lengths in three forms: alone, with lengths, packed; by one tile, so to the bit.
#[test]
fn packing_changes_nothing() {
    on_every_backend(|device| {
        let lengths = [33usize, 70, 5];
        let number = |n: usize| f16::from_f64((n * 7919 % 401) as f64 / 200.0 - 1.0);
        let upload = |count: usize, shape: &[usize]| {
            device.upload(&(0..count).map(number).collect::<Vec<_>>(), shape).unwrap()
        };
        let total: usize = lengths.iter().sum();
        let packed = upload(total * 64, &[1, total, 64]);
        let offsets = [0, 33, 103, 108];
        let offsets = fused_attention::PackedSequences::new(device, &offsets).unwrap();
        let attention = Attention::new().window(20, 0).with_tile("portable_d64").unwrap();
        let inputs = AttentionInputs::new(&packed, &packed, &packed);
        let inputs = inputs.query_sequences(&offsets).key_sequences(&offsets);
        let together = attention.forward(&inputs).unwrap();
        let (mut first, bits) = (0, |tensor: &Tensor<f16>| tensor.to_vec().unwrap());
        for length in lengths {
            let part = |tensor: &Tensor<f16>| {
                tensor.narrow(1, first, length).unwrap().reshape(&[1, 1, length, 64]).unwrap()
            };
            let x = part(&packed);
            let alone = attention.forward(&AttentionInputs::new(&x, &x, &x)).unwrap();
            assert_eq!(bits(&alone.o), bits(&part(&together.o)));
            // In a batch entry that is longer.
            let count = 80 * 64;
            let mut numbers = x.to_vec().unwrap();
            numbers.resize(count, f16::NAN);
            let padded = device.upload(&numbers, &[1, 1, 80, 64]).unwrap();
            let lengths = RowLengths::per_batch(device, &[length as i32]).unwrap();
            let inputs = AttentionInputs::new(&padded, &padded, &padded);
            let inputs = inputs.lengths(&lengths).query_lengths(&lengths);
            let output = attention.forward(&inputs).unwrap();
            let inside = output.o.narrow(2, 0, length).unwrap();
            assert_eq!(bits(&inside), bits(&alone.o));
            let beyond = output.o.narrow(2, length, 80 - length).unwrap();
            assert!(bits(&beyond).iter().all(|o| o.to_f64() == 0.0));
            first += length;
        }
    });
}
