//! Times by CUDA events, as a measurement of criterion's.

use crate::Gpu;
use criterion::{
    Throughput,
    measurement::{Measurement, ValueFormatter, WallTime},
};
use std::time::Duration;

/// The time between two CUDA events around all iterations of a sample: what the GPU spends, without
/// what the host does meanwhile.
pub struct CudaEvents<'a>(pub &'a Gpu);

impl Measurement for CudaEvents<'_> {
    type Intermediate = ();
    type Value = Duration;

    fn start(&self) {
        self.0.begin();
    }

    fn end(&self, (): ()) -> Duration {
        self.0.end()
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_secs_f64() * 1e9
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &Nanoseconds
    }
}

/// Nanoseconds, printed as criterion prints those of the wall clock, and throughput in decimal
/// units, as memory's speed is given.
struct Nanoseconds;

impl ValueFormatter for Nanoseconds {
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        WallTime.formatter().scale_values(typical, values)
    }

    fn scale_throughputs(
        &self,
        typical: f64,
        throughput: &Throughput,
        values: &mut [f64],
    ) -> &'static str {
        WallTime.formatter().scale_throughputs(typical, throughput, values)
    }

    fn scale_for_machines(&self, values: &mut [f64]) -> &'static str {
        WallTime.formatter().scale_for_machines(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_nanoseconds_and_throughput_is_decimal() {
        assert_eq!(Nanoseconds.format_value(1500.0).trim(), "1.5000 µs");
        let gigabyte = Throughput::BytesDecimal(1_000_000_000);
        assert_eq!(Nanoseconds.format_throughput(&gigabyte, 1e9).trim(), "1.0000 GB/s");
    }
}
