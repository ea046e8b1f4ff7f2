//! The C interface of fused-attention: `include/fused_attention.h`, which is generated from this
//! crate by `cargo xtask header`.
//!
//! [`abi`] holds the types that cross the border, and [`read`] makes the library's own of them.
//! Whatever the caller passes is a number until it has been checked: enumerations come in as
//! integers, structs with the size that the caller knows them by. No panic crosses the border.

#[cfg(not(panic = "unwind"))]
compile_error!("panics become statuses only if they unwind: build with `panic = \"unwind\"`");

pub mod abi;
mod attention;
mod device;
mod guard;
mod memory;
mod plan;
mod read;
mod read_attention;
mod softmax;
pub mod status;
mod text;
pub mod version;
