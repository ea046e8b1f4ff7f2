//! The host library: devices, tensors, streams, launches.

mod debug;
mod devices;
pub mod launches;
mod plan_cache;
mod raw_tensors;
mod spans;
mod streams;
mod tensors;
mod views;
