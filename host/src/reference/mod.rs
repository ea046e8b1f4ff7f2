//! What the operations compute, written as plainly as possible, in f64 on the CPU.
//!
//! These are the definitions that the kernels are tested against; nothing here is fast.

pub mod attention;
pub mod philox;
pub mod softmax;
pub mod tolerance;
