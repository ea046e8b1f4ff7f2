//! Dropout: the same seed and offset, the same probabilities.

use fused_attention::{Attention, AttentionInputs};
use half::{bf16, f16};
use support::{
    attention_case::AttentionCase,
    on_every_backend,
    random::Random,
    softmax_case::{AdditiveMask, Bank, Values},
};

#[test]
fn compared_with_the_reference() {
    let case = AttentionCase::new((2, 3, 70, 130, 64));
    on_every_backend(|device| {
        for probability in [0.0, 0.001, 0.1, 0.5, 0.9, 0.999] {
            for seed_on_device in [false, true] {
                let dropout = Some((probability, u64::MAX - 5, 1 << 31));
                let case = AttentionCase { dropout, seed_on_device, ..case.clone() };
                case.assert_right::<f16>(device);
                case.causal().assert_right::<bf16>(device);
            }
        }
        // Heads that share K and V, and sequences, count on.
        let dropout = Some((0.4, 3, 4));
        let case = AttentionCase { dropout, ..case.clone() };
        AttentionCase { kv_heads: 1, queries: 5, ..case.clone() }.assert_right::<f16>(device);
        let offsets = Some(vec![0, 5, 5, 70]);
        AttentionCase { query_offsets: offsets.clone(), key_offsets: offsets, ..case }
            .assert_right::<f16>(device);
    });
}

/// Which probabilities are kept: with values of 1 the output is their sum.
fn kept(inputs: &AttentionInputs<'_, f16>, probability: f64) -> Vec<f64> {
    let output = Attention::new().dropout(probability).forward(inputs).unwrap();
    output.o.to_vec().unwrap().iter().map(|o| o.to_f64()).collect()
}

#[test]
fn the_seed_decides() {
    let (heads, queries, keys) = (2, 33, 64);
    on_every_backend(|device| {
        let mut random = Random::new(4);
        let mut normal = |rows: usize| {
            let numbers: Vec<f16> =
                (0..heads * rows * 64).map(|_| f16::from_f64(random.normal())).collect();
            device.upload(&numbers, &[1, heads, rows, 64]).unwrap()
        };
        let (q, k, v) = (normal(queries), normal(keys), normal(keys));
        let inputs = AttentionInputs::new(&q, &k, &v);
        let first = kept(&inputs.dropout_seed(1, 2), 0.5);
        assert_eq!(first, kept(&inputs.dropout_seed(1, 2), 0.5));
        for (seed, offset) in [(1, 3), (2, 2), (1 | 1 << 32, 2), (0, 0)] {
            assert_ne!(first, kept(&inputs.dropout_seed(seed, offset), 0.5));
        }
        let (seed, offset) = (device.upload(&[1i64], &[1]), device.upload(&[2i64], &[1]));
        let (seed, offset) = (seed.unwrap(), offset.unwrap());
        let inputs = inputs.dropout_seed_on_device(&seed, &offset);
        assert_eq!(first, kept(&inputs, 0.5));
        seed.copy_from(&[2]).unwrap();
        assert_ne!(first, kept(&inputs, 0.5));
    });
}

#[test]
fn the_share_that_is_kept() {
    let (heads, queries, keys) = (4, 100, 512);
    on_every_backend(|device| {
        // Equal scores, and values of 1: the output is the share that is kept over what it should be.
        let zeros = |rows: usize| device.zeros::<f16>(&[1, heads, rows, 8]).unwrap();
        let ones = vec![f16::ONE; heads * keys * 8];
        let v = device.upload(&ones, &[1, heads, keys, 8]).unwrap();
        let (q, k) = (zeros(queries), zeros(keys));
        let inputs = AttentionInputs::new(&q, &k, &v).dropout_seed(9, 0);
        for probability in [0.1, 0.5, 0.8] {
            let sums = kept(&inputs, probability);
            let mean = sums.iter().sum::<f64>() / sums.len() as f64;
            let share = mean * (1.0 - probability);
            assert!((share - (1.0 - probability)).abs() < 0.01, "{share}, p = {probability}");
        }
    });
}

/// What is kept lies far below the row's maximum: scores must be as accurate as their own rounding.
#[test]
fn small_probabilities_are_kept() {
    let case = AttentionCase {
        kv_heads: 2,
        values: Values::Scaled(2.186260677088292),
        scale: Some(0.20093790565026032),
        key_offsets: Some(vec![0, 11]),
        bias: Some(AdditiveMask::new(&[11])),
        bank: Some(Bank { size: 3, index: None, on_device: false }),
        slopes: Some(vec![8]),
        dropout: Some((0.7728739617399863, 7232174010446669452, 415176544)),
        seed: 5926488088793211636,
        ..AttentionCase::new((1, 8, 36, 99, 64))
    };
    on_every_backend(|device| case.solve::<f32>().assert_right(device));
}
