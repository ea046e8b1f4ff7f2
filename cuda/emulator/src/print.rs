//! Printing from kernels.

use std::fmt;

/// Writes `text` to standard output, as `vprintf` does.
pub fn print(text: fmt::Arguments<'_>) {
    print!("{text}");
}
