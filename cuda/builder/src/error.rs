//! What can be wrong with a build.

use cuda_ptx::Arch;
use std::{io, path::PathBuf};

/// Why a crate of kernels was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No compiler can build `core` for the device.
    #[error(
        "no Rust compiler for the device: {in_use} has no library source, and there is no \
         compiler at {folder}"
    )]
    NoDeviceRust {
        /// The version of the toolchain in use.
        in_use: String,
        /// Where an unpacked one would be.
        folder: PathBuf,
    },
    /// A folder named as one with a compiler holds none.
    #[error("{folder} holds neither bin/rustc nor usr/bin/rustc")]
    NotADeviceRust {
        /// The folder.
        folder: PathBuf,
    },
    /// A program could not be started or a file not be read or written.
    #[error("{action}")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A program failed.
    #[error("{program} failed:\n{output}")]
    Failed {
        /// The program and what it was to do.
        program: String,
        /// What it wrote to its error stream.
        output: String,
    },
    /// The crate's manifest does not say what it builds.
    #[error("{manifest} names no package")]
    NoPackage {
        /// The manifest's path.
        manifest: PathBuf,
    },
    /// What the compiler made is not fit to be loaded.
    #[error("{crate_name} for {arch}")]
    Entry {
        /// The crate that was built.
        crate_name: String,
        /// The architecture it was built for.
        arch: Arch,
        /// What is wrong.
        source: EntryError,
    },
}

/// Why an entry of a module cannot stand alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// The entry calls a function.
    #[error("kernel {entry} calls {callee}: kernels hold no calls{}", hint(.callee))]
    Call {
        /// The entry.
        entry: String,
        /// The function, demangled.
        callee: String,
    },
    /// The entry names an LLVM intrinsic that the compiler does not know.
    #[error("kernel {entry} uses {intrinsic}, which is no LLVM intrinsic: misspelt?")]
    UnknownIntrinsic {
        /// The entry.
        entry: String,
        /// The name.
        intrinsic: String,
    },
    /// The entry uses data of the module.
    #[error("kernel {entry} uses {data}: kernels hold no strings, tables or statics")]
    Data {
        /// The entry.
        entry: String,
        /// The data's name, demangled.
        data: String,
    },
    /// Nothing says the entry's launch bounds.
    #[error("entry {entry} has no launch bounds: is it declared by #[kernel]?")]
    NoMarker {
        /// The entry.
        entry: String,
    },
    /// There is no entry of the marker's name.
    #[error("kernel {entry} was announced, but the module has no such entry")]
    NoEntry {
        /// The marker's name.
        entry: String,
    },
    /// A marker does not read `// kernel NAME threads=T blocks_per_sm=B`.
    #[error("not understood: {line:?}, expected `// kernel NAME threads=T blocks_per_sm=B`")]
    Marker {
        /// The line.
        line: String,
    },
    /// Two markers name the same entry.
    #[error("kernel {entry} is declared twice")]
    Twice {
        /// The entry.
        entry: String,
    },
}

fn hint(callee: &str) -> &'static str {
    if callee.contains("panic") {
        " (it can panic: an index, a division by a variable, an overflow?)"
    } else {
        ""
    }
}
