use bench_support::{Gpu, Result};
use fused_attention::ScaledMaskedSoftmax;
use half::bf16;
fn main() -> Result<()> {
    let Some(gpu) = Gpu::open() else { return Ok(()) };
    let columns: usize = std::env::var("COLS").unwrap().parse().unwrap();
    for mib in [4usize, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256] {
        let rows = (mib << 20) / 2 / columns;
        let data: Vec<bf16> =
            (0..rows * columns).map(|i| bf16::from_f32((i * 7919 % 1000) as f32 * 0.003)).collect();
        let a = gpu.device.upload(&data, &[rows, columns])?;
        let b = gpu.device.zeros::<bf16>(&[rows, columns])?;
        let c = gpu.device.zeros::<bf16>(&[rows, columns])?;
        let softmax = ScaledMaskedSoftmax::new(1.0);
        let mut times = Vec::new();
        for round in 0..12 {
            let n = 20;
            let t = gpu.time(|| {
                for _ in 0..n {
                    softmax
                        .forward_into(
                            &gpu.stream,
                            fused_attention::SoftmaxInputs::new(&a),
                            &b,
                            None,
                        )
                        .unwrap();
                    softmax
                        .forward_into(
                            &gpu.stream,
                            fused_attention::SoftmaxInputs::new(&b),
                            &c,
                            None,
                        )
                        .unwrap();
                }
            });
            if round > 1 {
                times.push(t.as_secs_f64() * 1e6 / (2 * n) as f64);
            }
        }
        times.sort_by(f64::total_cmp);
        print!("{mib}MiB {:.1}us  ", times[times.len() / 2]);
    }
    println!();
    Ok(())
}
