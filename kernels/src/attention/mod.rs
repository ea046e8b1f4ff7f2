//! Attention, without ever holding a score matrix.
//!
//! | file | holds |
//! |---|---|
//! | [`problem`] | what the host tells a kernel |
//! | [`schedule`] | which tile a block computes |

pub mod problem;
pub mod schedule;
