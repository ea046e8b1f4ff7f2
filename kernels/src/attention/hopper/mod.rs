//! Attention by `wgmma` and TMA: Hopper.
//!
//! | file | holds |
//! |---|---|
//! | [`cut`] | what a block and a warpgroup have of the problem; the layout of shared memory |
//! | [`ring`] | tiles on their way from those who fill stages to the consumers |
//! | [`tile`] | the rows that a block, and a thread, works on, and the blocks of keys that they see |
//! | [`forward`] | the forward kernel's body: who does what |
//! | [`produce`] | the producer: tiles of q, k and v by TMA |
//! | [`mark`] | the markers: masks, dropout, biases of 16 bits |
//! | [`score_marks`] | what markers leave in shared memory, and how consumers find it |
//! | [`consume`] | the consumers: scores, their softmax, output |
//! | [`scores`] | which scores a thread has, and how what they have of their own gets to it |
//! | [`turns`] | consumers take turns at beginning products |
//! | [`products`] | the two products |
//! | [`store`] | the output on its way to global memory |

pub mod consume;
pub mod cut;
pub mod forward;
pub mod mark;
pub mod produce;
pub mod products;
pub mod ring;
pub mod score_marks;
pub mod scores;
pub mod store;
pub mod tile;
pub mod turns;
