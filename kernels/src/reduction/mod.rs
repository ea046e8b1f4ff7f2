//! Reductions of a row over the threads that share it.
//!
//! A row is first reduced within each warp ([`warp`]); warps then merge what they have, within
//! their block ([`block`]) and their cluster ([`cluster`]), as [`Statistics`] that carry their own
//! maximum (the online softmax), so that one exchange settles maximum and sum together.

pub mod block;
pub mod cluster;
pub mod statistics;
pub mod warp;

pub use statistics::Statistics;
