//! Calls captured in CUDA graphs.

use crate::host::streams::{capture, ok};
use cust::sys;
use fused_attention::{Attention, AttentionInputs, Causal, Stream, Tensor};
use half::f16;
use support::{gpus, random::Random};

fn normal(count: usize, seed: u64) -> Vec<f16> {
    let mut random = Random::new(seed);
    (0..count).map(|_| f16::from_f64(random.normal())).collect()
}

/// A replay computes on what the tensors hold then: other inputs, another scale, another seed.
#[test]
fn a_replay_reads_what_is_there() {
    let shape = [2, 3, 70, 64];
    let count: usize = shape.iter().product();
    for device in gpus() {
        let [q, k, v] = [0, 1, 2].map(|seed| device.upload(&normal(count, seed), &shape).unwrap());
        let o: Tensor<f16> = device.zeros(&shape).unwrap();
        let lse: Tensor<f32> = device.zeros(&shape[..3]).unwrap();
        let scale = device.upload(&[0.1f32], &[1]).unwrap();
        let seed = device.upload(&[1i64], &[1]).unwrap();
        let offset = device.upload(&[0i64], &[1]).unwrap();
        let attention = Attention::new().causal(Causal::BottomRight).dropout(0.2);
        let inputs = AttentionInputs::new(&q, &k, &v).scale(&scale);
        let inputs = inputs.dropout_seed_on_device(&seed, &offset);
        let kernel = attention.explain(&inputs, &o).unwrap().kernel;
        device.prepare(&[kernel]).unwrap();
        let stream = Stream::non_blocking(&device).unwrap();
        let graph = capture(&stream, || {
            attention.forward_into(&stream, &inputs, &o, Some(&lse)).unwrap();
        });
        assert!(o.to_vec().unwrap().iter().all(|&o| o == f16::ZERO), "a capture runs nothing");
        let mut earlier = Vec::new();
        for step in 0..4 {
            match step {
                1 => scale.copy_from(&[0.2]).unwrap(),
                2 => offset.copy_from(&[4]).unwrap(),
                3 => q.copy_from(&normal(count, 9)).unwrap(),
                _ => {}
            }
            // SAFETY: a graph and a stream of the same context.
            ok(unsafe { sys::cuGraphLaunch(graph, stream.as_raw().cast()) });
            stream.synchronize().unwrap();
            let replayed = (o.to_vec().unwrap(), lse.to_vec().unwrap());
            let called = attention.forward(&inputs).unwrap();
            assert!(replayed.0 == called.o.to_vec().unwrap(), "step {step}");
            assert!(replayed.1 == called.lse.to_vec().unwrap(), "step {step}");
            assert!(!earlier.contains(&replayed.0), "step {step} changes nothing");
            earlier.push(replayed.0);
        }
        // SAFETY: instantiated by `capture`.
        ok(unsafe { sys::cuGraphExecDestroy(graph) });
    }
}
