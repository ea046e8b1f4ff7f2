//! Softmax over row lengths, element types and masks, for criterion; times are the GPU's own.
//!
//! Throughput counts what must be moved, as the records do. In each group, `copy` is a
//! device-to-device copy of 512 MiB, the most that such a kernel can reach.

use bench_support::{
    Buffers, COLUMNS, Case, CudaEvents, Direction, ElementType, Gpu, MASKED_COLUMNS, MaskKind,
    Problem,
};
use clap::ValueEnum;
use criterion::{BenchmarkId, Criterion, Throughput};
use fused_attention::Accumulate;
use half::{bf16, f16};
use std::time::Duration;

/// Bytes of x, about.
const BYTES: usize = 1 << 29;

fn main() {
    let Some(gpu) = Gpu::open() else { return };
    let mut criterion = Criterion::default()
        .with_measurement(CudaEvents(&gpu))
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300))
        .configure_from_args();
    for direction in [Direction::Forward, Direction::Backward] {
        group::<f16>(&mut criterion, &gpu, direction, ElementType::F16, MaskKind::None);
        for mask in MaskKind::value_variants() {
            group::<bf16>(&mut criterion, &gpu, direction, ElementType::Bf16, *mask);
        }
        group::<f32>(&mut criterion, &gpu, direction, ElementType::F32, MaskKind::None);
    }
    criterion.final_summary();
}

fn group<T: Accumulate>(
    criterion: &mut Criterion<CudaEvents<'_>>,
    gpu: &Gpu,
    direction: Direction,
    element: ElementType,
    mask: MaskKind,
) {
    let mut group = criterion.benchmark_group(format!("softmax/{direction}/{element}/{mask}"));
    let columns: &[usize] = if mask == MaskKind::None { &COLUMNS } else { &MASKED_COLUMNS };
    let problems = columns.iter().map(|&columns| {
        Problem::of_columns(direction, element, mask, columns, BYTES / size_of::<T>())
    });
    // A causal mask over many keys has as many queries.
    let problems: Vec<_> = problems.filter(|problem| problem.bytes() <= 8 * BYTES).collect();
    let buffers = Buffers::<T>::for_problems(&gpu.device, &problems).expect("memory");
    for &problem in &problems {
        let case = Case::new(&buffers, problem).expect("the buffers are large enough");
        group.throughput(Throughput::BytesDecimal(problem.bytes() as u64));
        group.bench_function(BenchmarkId::from_parameter(problem.columns()), |bencher| {
            bencher.iter(|| case.run(&case.softmax, &gpu.stream).expect("a problem that runs"));
        });
    }
    let case = Case::new(&buffers, problems[0]).expect("the buffers are large enough");
    let (to, from, bytes) = case.copied();
    group.throughput(Throughput::BytesDecimal(2 * bytes as u64));
    group.bench_function("copy", |bencher| {
        // SAFETY: two allocations of at least this size.
        bencher.iter(|| unsafe { gpu.copy(to, from, bytes) });
    });
    group.finish();
}
