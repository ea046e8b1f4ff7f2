//! Long sequences on a GPU: nothing of the size of the scores is allocated, and rows are right.

use crate::{host::streams::with_primary_context, softmax::large::enough_memory};
use cust::sys;
use fused_attention::{
    Attention, AttentionInputs, Causal, Device, Tensor,
    reference::{
        attention::{AttentionProblem, Rows},
        tolerance::{Unfused, check_lse, check_output},
    },
};
use half::bf16;
use support::{gpus, random::Random};

const DIM: usize = 128;

/// Rows of normal numbers, which repeat after a prime number of elements.
fn normal(rows: usize, seed: u64) -> Vec<bf16> {
    const PERIOD: usize = 1_000_003;
    let mut random = Random::new(seed);
    let distinct: Vec<_> = (0..PERIOD).map(|_| bf16::from_f64(random.normal())).collect();
    (0..rows * DIM).map(|n| distinct[n % PERIOD]).collect()
}

/// Free memory of the device.
fn free_bytes(device: &Device) -> usize {
    let (mut free, mut total) = (0, 0);
    with_primary_context(device, || {
        // SAFETY: writes two numbers.
        let status = unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) };
        assert_eq!(status, sys::CUresult::CUDA_SUCCESS);
    });
    free
}

/// One head of a long sequence, and sampled queries compared with the reference.
fn long_sequence(device: &Device, length: usize, causal: bool) {
    let host = [1, 2, 3].map(|seed| normal(length, seed));
    let upload = |numbers: &Vec<bf16>| device.upload(numbers, &[1, 1, length, DIM]);
    let tensors = [&host[0], &host[1], &host[2]].map(|numbers| enough_memory(upload(numbers)));
    let [Some(q), Some(k), Some(v)] = &tensors else { return };
    let o: Tensor<bf16> = device.zeros(&[1, 1, length, DIM]).unwrap();
    let lse: Tensor<f32> = device.zeros(&[1, 1, length]).unwrap();
    let mut attention = Attention::new();
    if causal {
        attention = attention.causal(Causal::BottomRight);
    }
    let inputs = AttentionInputs::new(q, k, v);
    attention.forward_into(&device.default_stream(), &inputs, &o, Some(&lse)).unwrap();
    let numbers =
        host.each_ref().map(|tensor| tensor.iter().map(|x| x.to_f64()).collect::<Vec<_>>());
    let rows = |numbers| Rows::contiguous(numbers, 1, length, DIM);
    let problem = AttentionProblem {
        scale: (1.0 / (DIM as f64).sqrt() as f32).into(),
        causal: causal.then_some(Causal::BottomRight),
        ..AttentionProblem::new(
            rows(&numbers[0]),
            rows(&numbers[1]),
            rows(&numbers[2]),
            length,
            length,
        )
    };
    let samples = [0, 1, 127, 128, length / 3, length / 2 + 77, length - 129, length - 1];
    for i in samples {
        let expected = problem.row(0, 0, i);
        let unfused: Unfused<bf16> = problem.row_unfused(0, 0, i);
        let found = o.narrow(2, i, 1).unwrap().to_vec().unwrap();
        let found_lse = lse.narrow(2, i, 1).unwrap().to_vec().unwrap();
        check_output(&found, &expected.o, &unfused, DIM)
            .map(drop)
            .and_then(|()| check_lse(&found_lse, &[expected.lse]))
            .unwrap_or_else(|error| panic!("length {length}, query {i}: {error}"));
    }
}

#[test]
fn sequences_of_2_to_17() {
    for device in gpus() {
        long_sequence(&device, 1 << 17, false);
        long_sequence(&device, 1 << 17, true);
    }
}

#[test]
fn a_sequence_of_2_to_20() {
    for device in gpus() {
        long_sequence(&device, 1 << 20, false);
        long_sequence(&device, 1 << 20, true);
    }
}

/// At 16384 tokens the scores of a head would take 512 MiB.
#[test]
fn no_scores_are_stored() {
    const LENGTH: usize = 16384;
    for device in gpus() {
        let shape = [1, 4, LENGTH, DIM];
        let Some(x) = enough_memory(device.zeros::<bf16>(&shape)) else { return };
        let o: Tensor<bf16> = device.zeros(&shape).unwrap();
        let inputs = AttentionInputs::new(&x, &x, &x);
        let attention = Attention::new();
        assert_eq!(attention.workspace_bytes(&inputs, &o).unwrap(), 0);
        let stream = device.default_stream();
        let call = || attention.forward_into(&stream, &inputs, &o, None).unwrap();
        // Loading the kernel takes memory, once.
        call();
        device.synchronize().unwrap();
        let mut least = usize::MAX;
        let before = free_bytes(&device);
        for _ in 0..20 {
            call();
            least = least.min(free_bytes(&device));
        }
        device.synchronize().unwrap();
        // Other tests may run at the same time; they do not all take as much at once.
        let used = before.saturating_sub(least);
        assert!(used < 256 << 20, "{used} bytes");
    }
}
