//! What `FUSED_ATTENTION_DEBUG` switches on.

use crate::{Dtype, Error, RawTensor, Result, backend::KernelRef, stream::Stream};
use cuda_launch::LaunchConfig;
use std::{fmt, sync::OnceLock, time::Instant};

/// The switches, read from the environment once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// Look for NaN in the main input and output of each call.
    pub nan: bool,
    /// Print plans, launches and times.
    pub trace: bool,
}

impl Switches {
    /// `nan`, `trace`, or both with a comma between them.
    fn parse(words: &str) -> Self {
        let has = |word: &str| words.split(',').any(|given| given.trim() == word);
        Switches { nan: has("nan"), trace: has("trace") }
    }
}

/// The switches of this process.
pub(crate) fn switches() -> Switches {
    static SWITCHES: OnceLock<Switches> = OnceLock::new();
    *SWITCHES.get_or_init(|| {
        std::env::var("FUSED_ATTENTION_DEBUG")
            .map_or_else(|_| Switches::default(), |v| Switches::parse(&v))
    })
}

/// Prints what an operation is about to do, if tracing is on.
pub(crate) fn trace_plan(operation: &str, plan: &dyn fmt::Display) {
    if switches().trace {
        eprintln!("{operation}: {plan}");
    }
}

/// Launches, with a span around it for subscribers of `tracing`, and prints the launch and its
/// time if tracing is on.
#[inline]
pub(crate) fn traced_launch(
    stream: &Stream,
    kernel: KernelRef,
    config: LaunchConfig,
    launch: impl FnOnce() -> Result<()>,
) -> Result<()> {
    #[cfg(feature = "tracing")]
    let _span = tracing::trace_span!(
        "launch",
        kernel = kernel.name,
        grid = %config.grid,
        block = %config.block,
        cluster = config.cluster,
        shared_bytes = config.shared_bytes,
    )
    .entered();
    if switches().trace { timed(stream, kernel, config, launch) } else { launch() }
}

#[cold]
fn timed(
    stream: &Stream,
    kernel: KernelRef,
    config: LaunchConfig,
    launch: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let LaunchConfig { grid, block, cluster, shared_bytes } = config;
    let line = format!(
        "{}: grid {grid}, block {block}, cluster {cluster}, {shared_bytes} bytes of shared memory",
        kernel.name
    );
    if stream.is_capturing()? {
        // A capture does not run anything, and must not wait.
        eprintln!("{line}, captured");
        return launch();
    }
    stream.synchronize()?;
    let start = Instant::now();
    launch()?;
    stream.synchronize()?;
    eprintln!("{line}, {:.1} us", start.elapsed().as_secs_f64() * 1e6);
    Ok(())
}

/// Fails at the first NaN of a tensor, if looking for them is on. Waits for the stream.
///
/// # Safety
/// The tensor's memory must be valid, and not written meanwhile by other streams.
pub(crate) unsafe fn check_nan(
    stream: &Stream,
    operation: &'static str,
    tensor: &'static str,
    raw: &RawTensor,
) -> Result<()> {
    if !switches().nan || stream.is_capturing()? {
        return Ok(());
    }
    // SAFETY: promised.
    match unsafe { first_nan(stream, raw) }? {
        Some(index) => Err(Error::NanFound { operation, tensor, index }),
        None => Ok(()),
    }
}

/// The index of the first NaN, in row-major order.
///
/// # Safety
/// The tensor's memory must be valid, and not written meanwhile by other streams.
unsafe fn first_nan(stream: &Stream, raw: &RawTensor) -> Result<Option<Vec<usize>>> {
    if !raw.dtype.is_float() || raw.is_empty() {
        return Ok(None);
    }
    let range = raw.bytes_touched()?;
    let mut bytes = vec![0u8; (range.end - range.start) as usize];
    stream.synchronize()?;
    // SAFETY: the range that the tensor's elements are in, and as many bytes on the host.
    unsafe {
        stream.device().backend().copy_to_host(bytes.as_mut_ptr(), range.start, bytes.len())?;
    }
    let (size, base) = (raw.dtype.size(), (raw.pointer - range.start) as i64);
    let (mut position, mut found) = (0usize, None);
    raw.layout().for_each_offset(|offset| {
        let at = (base + offset * size as i64) as usize;
        if found.is_none() && is_nan(raw.dtype, &bytes[at..at + size]) {
            found = Some(position);
        }
        position += 1;
    });
    Ok(found.map(|mut position| {
        let mut index = vec![0; raw.rank()];
        for (i, &size) in index.iter_mut().zip(&*raw.shape).rev() {
            (*i, position) = (position % size, position / size);
        }
        index
    }))
}

/// Whether the bytes of an element are a NaN: all exponent bits set, and some of the fraction.
fn is_nan(dtype: Dtype, bytes: &[u8]) -> bool {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let magnitude = u64::from_le_bytes(word) & (u64::MAX >> (65 - 8 * bytes.len() as u32));
    let infinity = match dtype {
        Dtype::F16 => 0x7c00,
        Dtype::Bf16 => 0x7f80,
        Dtype::F32 => 0x7f80_0000,
        Dtype::F64 => 0x7ff0_0000_0000_0000,
        Dtype::U8 | Dtype::I32 | Dtype::I64 => return false,
    };
    magnitude > infinity
}
