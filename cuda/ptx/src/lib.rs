//! PTX modules carried inside a program, and machine code of some.
//!
//! Kernels are built ahead of time, one PTX file for each entry, in a folder for each
//! architecture: `ptx/sm_70/softmax_warp.ptx`. Beside it, the same name with `.cubin` has its machine
//! code, for devices of that very architecture, which spares the driver compiling it. A crate that
//! carries such a folder packs it in its build script,
//!
//! ```no_run
//! // build.rs
//! fn main() -> std::io::Result<()> {
//!     cuda_ptx::embed("ptx")
//! }
//! ```
//!
//! and finds the entries at run time:
//!
//! ```ignore
//! use cuda_ptx::{Arch, PtxLibrary};
//!
//! static PTX: PtxLibrary =
//!     PtxLibrary::new(include_bytes!(concat!(env!("OUT_DIR"), "/ptx.archive")));
//!
//! let module: String = PTX.get(Arch::Sm70, "softmax_warp")?;
//! ```

mod arch;
mod archive;
mod library;
mod pack;
mod registers;

pub use arch::{Arch, UnknownArch};
pub use library::{PtxError, PtxLibrary};
pub use pack::{embed, pack_folder};
