//! The host library: devices, tensors, streams, launches.

mod debug;
mod devices;
pub mod launches;
mod plan_cache;
mod raw_tensors;
mod spans;
pub(crate) mod streams;
mod tensors;
mod views;
