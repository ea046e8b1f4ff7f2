//! Reductions of a row over the threads that share it.
//!
//! A row is first reduced within each warp ([`warp`]); warps then merge what they have, within
//! their block ([`block`]) and their cluster ([`cluster`]). What they merge is a [`Part`]:
//! [`Statistics`] carry their own maximum (the online softmax), so that one exchange settles
//! maximum and sum together.

pub mod block;
pub mod cluster;
pub mod part;
pub mod statistics;
pub mod warp;

pub use part::Part;
pub use statistics::{Statistics, Sum, WeightedStatistics};
