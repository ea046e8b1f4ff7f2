//! The host library: devices, tensors, launches.

mod plan_cache;
mod tensors;
