//! The C interface, through the shared library as its users have it, built with the emulator.

#[path = "../src/abi.rs"]
#[allow(dead_code, missing_docs)]
mod abi;
mod api;
mod attention;
mod backward;
mod build;
mod errors;
mod example;
mod forward;
mod header;
mod mirror;
mod python;
mod struct_sizes;
