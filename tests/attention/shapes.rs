//! Sizes of everything: rows that fill no tile, heads that share, head dimensions.

use fused_attention::{Attention, AttentionInputs, Device, Element};
use half::{bf16, f16};
use support::{attention_case::AttentionCase, gpus, is_gpu, on_every_backend};

const ROWS: [(usize, usize); 10] = [
    (1, 1),
    (64, 128),
    (239, 1),
    (799, 3),
    (113, 203),
    (108, 256),
    (640, 128),
    (1023, 1024),
    (1024, 1023),
    (4096, 4096),
];

#[test]
fn rows_that_fill_no_tile() {
    on_every_backend(|device| {
        for (queries, keys) in ROWS {
            if queries * keys > 30_000 && !is_gpu(device) {
                continue;
            }
            for kv_heads in [6, 2, 1] {
                let case = AttentionCase::new((1, 6, queries, keys, 64));
                let case = AttentionCase { kv_heads, ..case };
                case.assert_right::<f16>(device);
                case.causal().assert_right::<bf16>(device);
            }
        }
    });
    for device in gpus() {
        let case = AttentionCase { kv_heads: 2, ..AttentionCase::new((1, 6, 4224, 4224, 128)) };
        case.assert_right::<bf16>(&device);
        case.causal().assert_right::<f16>(&device);
    }
}

#[test]
fn heads_that_share() {
    on_every_backend(|device| {
        for sharing in [1, 3, 4, 8, 16, 71] {
            for queries in [1, 2, 9, 70] {
                if sharing * queries > 300 && !is_gpu(device) {
                    continue;
                }
                for kv_heads in [1, 2] {
                    let case = AttentionCase::new((2, kv_heads * sharing, queries, 90, 64));
                    let case = AttentionCase { kv_heads, ..case };
                    case.assert_right::<f16>(device);
                    case.clone().causal().assert_right::<bf16>(device);
                    // What differs between the heads that share a tile.
                    let slopes = Some(vec![kv_heads * sharing]);
                    let dropout = Some((0.25, 3, 0));
                    AttentionCase { slopes, dropout, ..case }.assert_right::<f16>(device);
                }
            }
        }
    });
}

fn head_dims<T: Element>(device: &Device) {
    for head_dim in (8..=256).step_by(8) {
        let case = AttentionCase::new((1, 1, 40, 70, head_dim)).causal();
        case.assert_right::<T>(device);
        if head_dim % 32 == 0 {
            for value_dim in [8, 64, 136, 256] {
                AttentionCase { value_dim, ..case.clone() }.assert_right::<T>(device);
            }
        }
    }
    // That of DeepSeek's models.
    let case = AttentionCase { value_dim: 128, ..AttentionCase::new((1, 2, 33, 140, 192)) };
    case.assert_right::<T>(device);
    case.causal().assert_right::<T>(device);
}

#[test]
fn head_dims_f16() {
    on_every_backend(head_dims::<f16>);
}

#[test]
fn head_dims_bf16() {
    on_every_backend(head_dims::<bf16>);
}

#[test]
fn head_dims_f32() {
    on_every_backend(head_dims::<f32>);
}

/// No batch entries, no heads, no queries: nothing. No keys: zeros.
#[test]
fn empty_tensors() {
    on_every_backend(|device| {
        for shape in [(0, 2, 5, 6, 64), (2, 0, 5, 6, 64), (2, 2, 0, 6, 64), (2, 2, 5, 0, 64)] {
            let case = AttentionCase::new(shape);
            case.assert_right::<f16>(device);
            AttentionCase { slopes: Some(vec![1]), ..case }.causal().assert_right::<f16>(device);
        }
    });
}

/// A row more than 16 bits count, and more planes than a grid's other dimensions have.
#[test]
fn more_than_16_bits_count() {
    for device in gpus() {
        AttentionCase::new((1, 1, 40, 65_537, 64)).assert_right::<bf16>(&device);
        AttentionCase::new((1, 1, 65_537, 40, 64)).assert_right::<bf16>(&device);
        AttentionCase::new((700, 100, 9, 20, 8)).causal().assert_right::<f16>(&device);
        AttentionCase::new((70_000, 1, 9, 20, 8)).assert_right::<f16>(&device);
        AttentionCase::new((1, 70_000, 9, 20, 8)).assert_right::<f16>(&device);
    }
    // One launch, whose blocks are all in one dimension.
    on_every_backend(|device| {
        let q = device.zeros::<f16>(&[1, 1, 1, 64]).unwrap();
        let many = q.expand(&[300, 300, 1, 64]).unwrap();
        let o = device.zeros::<f16>(&[300, 300, 1, 64]).unwrap();
        let inputs = AttentionInputs::new(&many, &many, &many);
        let explanation = Attention::new().explain(&inputs, &o).unwrap();
        assert_eq!(explanation.launches.len(), 1);
        let grid = explanation.launches[0].grid;
        assert_eq!((grid.x, grid.y, grid.z), (90_000, 1, 1));
    });
}
