//! Scaled masked softmax of the rows of a tensor.
//!
//! | file | holds |
//! |---|---|
//! | [`problem`] | what the host tells a kernel; from a row's number to its addresses |
//! | [`mask`] | which columns a row sees, byte masks, additive masks |
//! | [`row`] | the part of a row that a thread holds: which columns, loads, what masks hide |
//! | [`scale`] | from inputs to exponents |
//! | [`scores`] | the scores that a thread holds: their statistics, their exponentials |
//! | [`gradient`] | the gradients that a thread holds: their weighted sum, what becomes of them |
//! | [`row_threads`] | which threads share a row: lanes of a warp, a block, a cluster |
//! | [`walk`] | a block's way along a row that is cut into stretches |
//! | [`stage`] | shared memory in which stretches stay between two passes |
//! | [`forward`], [`forward_long`] | the forward, of rows that stay in registers and of longer ones |
//! | [`backward`], [`backward_long`] | the backward, likewise |
//! | [`entries`] | the instances of all four, for each element type, mask and tile |

pub mod backward;
pub mod backward_long;
pub mod entries;
pub mod forward;
pub mod forward_long;
pub mod gradient;
pub mod mask;
pub mod problem;
pub mod row;
pub mod row_threads;
pub mod scale;
pub mod scores;
pub mod stage;
pub mod walk;
