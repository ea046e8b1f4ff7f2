//! Plans are kept between calls, and never taken for another problem; a call allocates nothing.

use fused_attention::{Attention, AttentionInputs, Causal, attention_tile_names};
use half::f16;
use support::{
    allocations::allocations,
    attention_case::AttentionCase,
    gpus, on_every_backend,
    placement::Placement,
    softmax_case::{AdditiveMask, ByteMask},
};

/// Problems that differ in one thing only, one after the other and again.
#[test]
fn neighbouring_problems_do_not_mix() {
    let plain = AttentionCase::new((2, 4, 20, 70, 64));
    let scores = plain.scores();
    let bytes = |shape: &[usize]| Some(ByteMask::new(shape));
    let bias = |shape: &[usize]| Some(AdditiveMask::new(shape));
    let cases = [
        plain.clone(),
        AttentionCase { scale: Some(0.5), ..plain.clone() },
        AttentionCase { scale_on_device: true, ..plain.clone() },
        AttentionCase { softcap: Some(2.0), ..plain.clone() },
        AttentionCase { causal: Some(Causal::TopLeft), ..plain.clone() },
        AttentionCase { causal: Some(Causal::BottomRight), ..plain.clone() },
        AttentionCase { window: Some((3, 2)), ..plain.clone() },
        AttentionCase { window: Some((3, 2)), diagonal: Causal::TopLeft, ..plain.clone() },
        AttentionCase { bytes: bytes(&scores), ..plain.clone() },
        AttentionCase { bytes: bytes(&scores[2..]), ..plain.clone() },
        AttentionCase { bias: bias(&scores), ..plain.clone() },
        AttentionCase { bias: bias(&scores[2..]), ..plain.clone() },
        AttentionCase { slopes: Some(vec![4]), ..plain.clone() },
        AttentionCase { slopes: Some(vec![2, 1]), ..plain.clone() },
        AttentionCase { dropout: Some((0.5, 1, 1)), ..plain.clone() },
        AttentionCase { dropout: Some((0.5, 1, 2)), ..plain.clone() },
        AttentionCase { dropout: Some((0.5, 2, 1)), ..plain.clone() },
        AttentionCase { dropout: Some((0.25, 2, 1)), ..plain.clone() },
        AttentionCase { key_lengths: Some(vec![3, 60]), ..plain.clone() },
        AttentionCase { query_lengths: Some(vec![3, 20]), ..plain.clone() },
        AttentionCase { key_offsets: Some(vec![0, 30, 60]), ..plain.clone() },
        AttentionCase { query_offsets: Some(vec![0, 30, 60]), ..plain.clone() },
        AttentionCase { q: Placement::Offset(1), ..plain.clone() },
        AttentionCase { q: Placement::Offset(8), ..plain.clone() },
        AttentionCase { o: Placement::Offset(1), ..plain.clone() },
        AttentionCase { kv_heads: 2, ..plain.clone() },
        AttentionCase { batch: 4, heads: 2, kv_heads: 2, ..plain },
    ];
    on_every_backend(|device| {
        for _ in 0..2 {
            for case in &cases {
                case.assert_right::<f16>(device);
            }
        }
    });
}

/// Many threads at once.
#[test]
fn threads_share_plans() {
    on_every_backend(|device| {
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                scope.spawn(move || {
                    for i in 0..6 {
                        let keys = 20 + (i + 2 * thread as usize) % 7;
                        let case = AttentionCase::new((1, 1, 9, keys, 64));
                        AttentionCase { seed: thread, ..case }.assert_right::<f16>(device);
                    }
                });
            }
        });
    });
}

#[test]
fn options_compare() {
    let attention = Attention::new();
    assert_eq!(attention, Attention::default());
    assert_eq!(attention.scale(0.5), Attention::new().scale(0.5));
    let different = [
        attention,
        attention.scale(0.5),
        attention.softcap(0.5),
        attention.dropout(0.5),
        attention.causal(Causal::TopLeft),
        attention.causal(Causal::BottomRight),
        attention.window(1, 2),
        attention.window(1, 2).diagonal(Causal::TopLeft),
    ];
    for (i, a) in different.iter().enumerate() {
        assert!(different[..i].iter().all(|b| a != b), "{a:?}");
    }
}

#[test]
fn explanations() {
    on_every_backend(|device| {
        let x = device.zeros::<f16>(&[1, 2, 300, 64]).unwrap();
        let inputs = AttentionInputs::new(&x, &x, &x);
        let explanation = Attention::new().explain(&inputs, &x).unwrap();
        let text = explanation.to_string();
        assert!(text.starts_with(explanation.kernel), "{text}");
        assert!(text.contains(explanation.reason) && text.contains("grid"), "{text}");
        assert!(!explanation.is_tuned);
        // Every tile before the one that is taken has its reason.
        let taken = attention_tile_names().position(|name| name == explanation.tile).unwrap();
        assert_eq!(explanation.passed_over.len(), taken);
        // No memory beside the tensors.
        assert_eq!(Attention::new().workspace_bytes(&inputs, &x).unwrap(), 0);
    });
}

/// Once planned, a call allocates nothing on the host.
#[test]
fn a_call_allocates_nothing() {
    for device in gpus() {
        let x = device.zeros::<f16>(&[1, 2, 300, 64]).unwrap();
        let o = device.zeros::<f16>(&[1, 2, 300, 64]).unwrap();
        let lse = device.zeros::<f32>(&[1, 2, 300]).unwrap();
        let slopes = device.zeros::<f32>(&[2]).unwrap();
        let attention = Attention::new().causal(Causal::BottomRight).dropout(0.1);
        let inputs = AttentionInputs::new(&x, &x, &x).alibi(&slopes).dropout_seed(1, 2);
        let stream = device.default_stream();
        let call = || attention.forward_into(&stream, &inputs, &o, Some(&lse)).unwrap();
        call();
        let count = allocations(|| (0..10).for_each(|_| call()));
        assert_eq!(count, 0);
    }
}
