//! Every test that needs no compiler at run time, in one binary: it also runs on a machine with a
//! GPU and without Rust.

mod attention;
mod conformance;
mod emulator;
mod examples;
mod host;
mod softmax;
