//! Attention, without ever holding a score matrix.
//!
//! | file | holds |
//! |---|---|
//! | [`problem`] | what the host tells a kernel |
//! | [`schedule`] | which tile a block computes |
//! | [`sequence`] | a batch entry's rows in the tensors, and which of them count |
//! | [`mask`] | which keys a query sees |
//! | [`bias`] | what is added to scores |
//! | [`dropout`] | which probabilities are kept |
//! | [`score_tensor`] | where masks and biases are |
//! | [`online_softmax`] | the softmax of scores that come a block of keys at a time |
//! | [`portable`] | kernels for every tensor core since Ampere |
//! | [`naive`] | the definition, in f64 |
//! | [`entries`] | the instances, for each element type, features and tile |

pub mod bias;
pub mod dropout;
pub mod entries;
pub mod mask;
pub mod naive;
pub mod online_softmax;
pub mod portable;
pub mod problem;
pub mod schedule;
pub mod score_tensor;
pub mod sequence;
