//! The time that a run takes.

use fused_attention::{Device, DeviceKind, Error};
use std::{
    fmt,
    time::{Duration, Instant},
};

/// The time of a run: the median of several measurements of one or more runs each.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// The median, for one run.
    pub median: Duration,
    /// How often was measured.
    pub measurements: u32,
    /// Runs in a measurement.
    pub runs: u32,
    /// Where it ran.
    pub device: DeviceKind,
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Timing { median, measurements, runs, device } = *self;
        let note = match device {
            DeviceKind::Emulator => "; emulated on the CPU, which says nothing about a GPU",
            _ => "",
        };
        let each = if runs == 1 { String::new() } else { format!(" of {runs} runs each") };
        write!(f, "{median:.1?} a run, the median of {measurements} measurements{each}{note}")
    }
}

/// Measures runs. A run on a GPU is over in microseconds, less than it takes to wait for it: there
/// many are enqueued for one measurement.
pub(crate) fn measure(
    device: &Device,
    run: impl Fn() -> Result<(), Error>,
) -> Result<Timing, Error> {
    let (measurements, runs) = match device.kind() {
        DeviceKind::Emulator => (3, 1),
        _ => (9, 100),
    };
    let mut times = Vec::new();
    for _ in 0..measurements {
        device.synchronize()?;
        let start = Instant::now();
        for _ in 0..runs {
            run()?;
        }
        device.synchronize()?;
        times.push(start.elapsed() / runs);
    }
    times.sort_unstable();
    let (median, device) = (times[times.len() / 2], device.kind());
    Ok(Timing { median, measurements, runs, device })
}
