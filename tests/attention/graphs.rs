//! Calls captured in CUDA graphs.

use crate::host::streams::{capture, ok};
use cust::sys;
use fused_attention::{
    Attention, AttentionInputs, Causal, Device, PackedSequences, Per, RowLengths, Stream, Tensor,
};
use half::f16;
use support::{gpus, random::Random};

fn normal(count: usize, seed: u64) -> Vec<f16> {
    let mut random = Random::new(seed);
    (0..count).map(|_| f16::from_f64(random.normal())).collect()
}

/// Captures a call, and changes what it reads before each replay: it gives what a call gives then.
fn assert_replays(
    device: &Device,
    attention: Attention,
    inputs: &AttentionInputs<'_, f16>,
    shape: &[usize],
    changes: &[&dyn Fn()],
) {
    let o: Tensor<f16> = device.zeros(shape).unwrap();
    let lse: Tensor<f32> = device.zeros(&shape[..shape.len() - 1]).unwrap();
    let kernel = attention.explain(inputs, &o).unwrap().kernel;
    device.prepare(&[kernel]).unwrap();
    let stream = Stream::non_blocking(device).unwrap();
    let graph = capture(&stream, || {
        attention.forward_into(&stream, inputs, &o, Some(&lse)).unwrap();
    });
    assert!(o.to_vec().unwrap().iter().all(|&o| o == f16::ZERO), "a capture runs nothing");
    let mut earlier = Vec::new();
    for (step, change) in changes.iter().enumerate() {
        change();
        // SAFETY: a graph and a stream of the same context.
        ok(unsafe { sys::cuGraphLaunch(graph, stream.as_raw().cast()) });
        stream.synchronize().unwrap();
        let replayed = (o.to_vec().unwrap(), lse.to_vec().unwrap());
        let called = attention.forward(inputs).unwrap();
        assert!(replayed.0 == called.o.to_vec().unwrap(), "step {step}");
        assert!(replayed.1 == called.lse.to_vec().unwrap(), "step {step}");
        assert!(!earlier.contains(&replayed.0), "step {step} changes nothing");
        earlier.push(replayed.0);
    }
    // SAFETY: instantiated by `capture`.
    ok(unsafe { sys::cuGraphExecDestroy(graph) });
}

/// A replay computes on what the tensors hold then: other inputs, another scale, another seed.
#[test]
fn a_replay_reads_what_is_there() {
    let shape = [2, 3, 70, 64];
    let count: usize = shape.iter().product();
    for device in gpus() {
        let [q, k, v] = [0, 1, 2].map(|seed| device.upload(&normal(count, seed), &shape).unwrap());
        let scale = device.upload(&[0.1f32], &[1]).unwrap();
        let seed = device.upload(&[1i64], &[1]).unwrap();
        let offset = device.upload(&[0i64], &[1]).unwrap();
        let attention = Attention::new().causal(Causal::BottomRight).dropout(0.2);
        let inputs = AttentionInputs::new(&q, &k, &v).scale(&scale);
        let inputs = inputs.dropout_seed_on_device(&seed, &offset);
        assert_replays(
            &device,
            attention,
            &inputs,
            &shape,
            &[
                &|| (),
                &|| scale.copy_from(&[0.2]).unwrap(),
                &|| offset.copy_from(&[4]).unwrap(),
                &|| q.copy_from(&normal(count, 9)).unwrap(),
            ],
        );
    }
}

/// And of sequences what offsets and lengths on the device say then.
#[test]
fn a_replay_takes_the_sequences_that_are_there() {
    let shape = [3, 300, 64];
    let count: usize = shape.iter().product();
    for device in gpus() {
        let [q, k, v] = [0, 1, 2].map(|seed| device.upload(&normal(count, seed), &shape).unwrap());
        let offsets = device.upload(&[0, 150, 300], &[3]).unwrap();
        let counts = device.upload(&[200, 200], &[2]).unwrap();
        // SAFETY: they ascend up to 300, and none is longer.
        let sequences = unsafe { PackedSequences::on_device(offsets.clone(), 250) };
        let lengths = RowLengths::on_device(counts.clone(), Per::Batch);
        let inputs = AttentionInputs::new(&q, &k, &v).lengths(&lengths);
        let inputs = inputs.query_sequences(&sequences).key_sequences(&sequences);
        assert_replays(
            &device,
            Attention::new(),
            &inputs,
            &shape,
            &[
                &|| (),
                &|| offsets.copy_from(&[0, 50, 300]).unwrap(),
                &|| counts.copy_from(&[0, 131]).unwrap(),
                &|| offsets.copy_from(&[0, 227, 300]).unwrap(),
            ],
        );
    }
}
