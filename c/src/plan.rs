//! Planning a call ahead.

use crate::{status::Failure, text};
use fused_attention::{Device, Explanation};
use std::ffi::c_char;

/// Loads the kernel that was chosen, and writes why.
///
/// # Safety
/// As for [`text::write`].
pub(crate) unsafe fn plan(
    device: &Device,
    explanation: &Explanation,
    to: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Result<(), Failure> {
    device.prepare(&[explanation.kernel])?;
    // SAFETY: promised.
    unsafe { text::write(&explanation.to_string(), to, capacity, length) };
    Ok(())
}
