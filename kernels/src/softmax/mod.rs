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
//! | [`long_row`], [`walk`] | a row that is cut into stretches, and a block's way along it |
//! | [`kept`] | stretches in shared memory: copied there in bulk, taken, taken again |
//! | [`stage`] | a block's slots in shared memory, and the thread that fills them |
//! | [`shared_masks`], [`slots_in_turns`] | rows that share masks: the masks as bits, the slots that rows take in turn |
//! | [`forward`], [`backward`] | rows that stay in registers |
//! | [`forward_staged`], [`backward_staged`] | longer rows, which stay in shared memory |
//! | [`forward_ring`], [`ring`] | the longest, which pass through shared memory one after the other |
//! | [`forward_streamed`], [`backward_streamed`] | longer rows, read twice |
//! | [`entries`] | the instances of all seven, for each element type, mask and tile |

pub mod backward;
pub mod backward_staged;
pub mod backward_streamed;
pub mod entries;
pub mod forward;
pub mod forward_ring;
pub mod forward_staged;
pub mod forward_streamed;
pub mod gradient;
pub mod kept;
pub mod long_row;
pub mod mask;
pub mod problem;
pub mod ring;
pub mod row;
pub mod row_threads;
pub mod scale;
pub mod scores;
pub mod shared_masks;
pub mod slots_in_turns;
pub mod stage;
pub mod walk;
