//! Attention, without ever holding a score matrix.
//!
//! | file | holds |
//! |---|---|
//! | [`problem`] | what the host tells a kernel |
//! | [`schedule`] | which tile a block computes |
//! | [`sequence`] | a batch entry's rows in the tensors, and which of them count |
//! | [`rows`] | from rows of a tile to queries and heads |
//! | [`seen`] | which keys a tile's rows see by their visible ranges |
//! | [`mask`] | which keys a query sees |
//! | [`bias`] | what is added to scores |
//! | [`dropout`] | which probabilities are kept |
//! | [`score_tensor`] | where masks and biases are |
//! | [`row_facts`] | what has been found out about each row of a tile |
//! | [`lane_rows`] | which rows and keys a lane has |
//! | [`per_score`] | masks and biases on their way to registers |
//! | [`softcap`] | softcap |
//! | [`adjust`] | what becomes of scores before the softmax |
//! | [`features`] | what an instance of a kernel knows |
//! | [`row_elements`] | what a thread has of rows of scores and output |
//! | [`online_softmax`] | the softmax of scores that come a block of keys at a time |
//! | [`hopper`] | kernels for Hopper's tensor cores |
//! | [`portable`] | kernels for every tensor core since Ampere |
//! | [`naive`] | the definition, in f64 |
//! | [`entries`] | the instances, for each element type, features and tile |

pub mod adjust;
pub mod bias;
pub mod dropout;
pub mod entries;
pub mod features;
pub mod hopper;
pub mod lane_rows;
pub mod mask;
pub mod naive;
pub mod online_softmax;
pub mod per_score;
pub mod portable;
pub mod problem;
pub mod row_elements;
pub mod row_facts;
pub mod rows;
pub mod schedule;
pub mod score_tensor;
pub mod seen;
pub mod sequence;
pub mod softcap;
