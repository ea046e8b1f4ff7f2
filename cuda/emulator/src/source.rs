//! From a machine instruction to the source, by debug information.

use crate::fault::SourceLocation;
use std::ffi::c_void;

/// The line of the kernel that `instruction` belongs to: the innermost that isn't of the standard
/// library.
pub(crate) fn of(instruction: usize) -> Option<SourceLocation> {
    let mut found = None;
    backtrace::resolve(instruction as *mut c_void, |symbol| {
        if let (None, Some(file), Some(line)) = (&found, symbol.filename(), symbol.lineno()) {
            let file = file.to_string_lossy().into_owned();
            if !file.starts_with("/rustc/") && !file.contains("/lib/rustlib/src/rust/") {
                found = Some(SourceLocation { file, line, column: symbol.colno().unwrap_or(0) });
            }
        }
    });
    found
}
