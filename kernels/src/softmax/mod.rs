//! Scaled masked softmax of the rows of a tensor.
//!
//! | file | holds |
//! |---|---|
//! | [`problem`] | what the host tells a kernel; from a row's number to its addresses |
//! | [`mask`] | which columns a row sees, byte masks, additive masks |
//! | [`row`] | the part of a row that a thread holds: loads, scores, stores |
//! | [`scale`] | from inputs to exponents |
//! | [`row_threads`] | which threads share a row: lanes of a warp, a block, a cluster |
//! | [`forward`] | rows that stay in registers |
//! | [`forward_streamed`] | rows too long for that |
//! | [`entries`] | the instances of both, for each element type, mask and tile |

pub mod entries;
pub mod forward;
pub mod forward_streamed;
pub mod mask;
pub mod problem;
pub mod row;
pub mod row_threads;
pub mod scale;
