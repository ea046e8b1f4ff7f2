//! Attention by `mma.sync` and `cp.async`: every tensor core since Ampere.
//!
//! | file | holds |
//! |---|---|
//! | [`cut`] | what a block and a warp have of the problem; the layout of shared memory |
//! | [`operand`] | the products of each element type |
//! | [`key_order`] | which key each column of the score fragments stands for |
//! | [`swizzle`] | where the chunks of a tile's rows lie in shared memory |
//! | [`facts`] | what a block has found out about its tile, in shared memory |
//! | [`load`] | tiles of q, k and v on their way to shared memory |
//! | [`scores`] | a warp's rows, and which of their scores a lane has |
//! | [`patches`] | which probabilities of a lane dropout keeps |
//! | [`store`] | the output on its way to global memory |
//! | [`forward`] | the forward kernel's body |

pub mod cut;
pub mod facts;
pub mod forward;
pub mod key_order;
pub mod load;
pub mod operand;
pub mod patches;
pub mod scores;
pub mod store;
pub mod swizzle;
