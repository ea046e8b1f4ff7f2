//! Every primitive of `cuda_std`, on every backend: the kernels of `conformance_kernels` against
//! plain Rust. What the GPU and the emulator both compute as expected, they compute alike: exact
//! results to the bit, approximations to the error that PTX documents.

pub mod harness;

mod arguments;
mod atomic;
mod block;
mod cluster;
mod convert;
mod copy;
mod math;
mod matrix;
mod memory;
mod print;
mod random;
mod tma;
mod warp;
mod wgmma;
