//! Attention by `mma.sync` and `cp.async`: every tensor core since Ampere.
//!
//! | file | holds |
//! |---|---|
//! | [`cut`] | what a block and a warp have of the problem; the layout of shared memory |
//! | [`operand`] | the products of each element type |
//! | [`key_order`] | which key each column of the score fragments stands for |
//! | [`swizzle`] | where the chunks of a tile's rows lie in shared memory |
//! | [`facts`] | what a block has found out about its tile, in shared memory |
//! | [`row_facts`] | the same about each of its rows |
//! | [`load`] | tiles of q, k and v on their way to shared memory |
//! | [`scores`] | what becomes of the scores between the two products |
//! | [`per_score`] | masks and biases on their way to registers |
//! | [`patches`] | which probabilities of a lane dropout keeps |
//! | [`softcap`] | softcap |
//! | [`store`] | the output on its way to global memory |
//! | [`forward`] | the forward kernel's body |

pub mod cut;
pub mod facts;
pub mod forward;
pub mod key_order;
pub mod load;
pub mod operand;
pub mod patches;
pub mod per_score;
pub mod row_facts;
pub mod scores;
pub mod softcap;
pub mod store;
pub mod swizzle;
