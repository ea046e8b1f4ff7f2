//! Builds a crate of GPU kernels to PTX, one self-contained file for each entry.
//!
//! ```no_run
//! use cuda_builder::{Arch, CudaBuilder};
//!
//! let built = CudaBuilder::new("kernels").arch(Arch::Sm70).copy_to("host/ptx/sm_70").build()?;
//! println!("{} entries, by {}", built.entries.len(), built.compiler);
//! # Ok::<(), cuda_builder::BuildError>(())
//! ```
//!
//! The steps, each a file here: find a compiler that can build `core` for `nvptx64-nvidia-cuda`
//! (`device_rust`), run it on the crate (`builder`), cut its one module into statements
//! (`module`), and make of each entry a module of its own, with its launch bounds (`entry`).

mod builder;
mod device_rust;
mod entry;
mod error;
mod module;

pub use builder::{Built, CudaBuilder};
pub use cuda_ptx::Arch;
pub use device_rust::{DEVICE_RUST_VARIABLE, DeviceRust, TOOLS_VARIABLE, tools_folder};
pub use error::{BuildError, EntryError};

use entry::Bounds;
use module::Module;
use std::collections::BTreeMap;

/// Cuts a module as the compiler wrote it into one self-contained module for each entry, by name.
///
/// Each keeps the header, the dynamic shared memory if it uses it, and the entry, with the launch
/// bounds of its marker comment (`// kernel NAME threads=T blocks_per_sm=B`, from `#[kernel]`).
/// Comments go, and registers and labels are numbered in the order in which they appear, so that
/// a change to one kernel leaves the others' text as it was.
///
/// # Errors
/// If an entry calls a function (so a kernel that can panic is refused), uses data of the module
/// (a string, say), holds an LLVM intrinsic that does not exist, or has no marker; or if a marker
/// has no entry.
pub fn split_entries(text: &str) -> Result<BTreeMap<String, String>, EntryError> {
    let module = Module::parse(text);
    let mut bounds = Bounds::of_markers(text)?;
    let mut entries = BTreeMap::new();
    for entry in &module.entries {
        let Some(bounds) = bounds.remove(&entry.name) else {
            return Err(EntryError::NoMarker { entry: entry.name.to_owned() });
        };
        entries.insert(entry.name.to_owned(), entry::render(&module, entry, bounds)?);
    }
    match bounds.into_keys().next() {
        Some(entry) => Err(EntryError::NoEntry { entry }),
        None => Ok(entries),
    }
}
