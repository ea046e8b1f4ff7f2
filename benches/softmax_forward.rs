//! Softmax forward over row lengths and element types, for criterion; times are the GPU's own.
//!
//! Throughput counts x and y once each. The group `copy` is a device-to-device copy of as many
//! bytes, the most that such a kernel can reach.

use bench_support::{Gpu, normal};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fused_attention::{Accumulate, Mask, ScaledMaskedSoftmax, SoftmaxInputs};
use half::{bf16, f16};

/// Elements of x.
const ELEMENTS: usize = 1 << 28;

const LENGTHS: [usize; 6] = [128, 512, 1024, 4096, 16384, 65536];

fn softmax<T: Accumulate>(criterion: &mut Criterion, gpu: &Gpu) {
    let mut group = criterion.benchmark_group(format!("softmax_forward/{}", T::DTYPE));
    group.throughput(Throughput::Bytes((2 * ELEMENTS * size_of::<T>()) as u64));
    let values: Vec<T> = normal(ELEMENTS);
    let flat = gpu.device.upload(&values, &[ELEMENTS]).expect("memory");
    let output = gpu.device.empty::<T>(&[ELEMENTS]).expect("memory");
    let softmax = ScaledMaskedSoftmax::new(0.125);
    for length in LENGTHS {
        let shape = [ELEMENTS / length, length];
        let (x, y) = (flat.reshape(&shape).unwrap(), output.reshape(&shape).unwrap());
        group.bench_function(BenchmarkId::from_parameter(length), |bencher| {
            bencher.iter_custom(|iterations| {
                gpu.time(|| {
                    for _ in 0..iterations {
                        let inputs = SoftmaxInputs::new(&x).mask(Mask::none());
                        softmax.forward_into(&gpu.stream, inputs, &y, None).unwrap();
                    }
                })
            });
        });
    }
    group.bench_function("copy", |bencher| {
        bencher.iter_custom(|iterations| {
            gpu.time(|| {
                for _ in 0..iterations {
                    // SAFETY: two allocations of this size.
                    unsafe {
                        gpu.copy(output.pointer(), flat.pointer(), ELEMENTS * size_of::<T>());
                    }
                }
            })
        });
    });
    group.finish();
}

fn all(criterion: &mut Criterion) {
    let Some(gpu) = Gpu::open() else { return };
    softmax::<f16>(criterion, &gpu);
    softmax::<bf16>(criterion, &gpu);
    softmax::<f32>(criterion, &gpu);
}

criterion_group!(benches, all);
criterion_main!(benches);
