//! Scaled masked softmax, forward and backward.
//!
//! | file | holds |
//! |---|---|
//! | `options` | [`ScaledMaskedSoftmax`]: plain values |
//! | `typed` | the calls on [`Tensor`](crate::Tensor)s |
//! | `raw` | the calls on pointers, strides and a stream |
//! | `call` | a call's tensors, forward or backward alike |
//! | `forms` | checks of shapes, strides and types |
//! | `plan` | from options and forms to launches |
//! | `tile_choice` | a tile of the table as a candidate for a problem |
//! | `cut` | whether a tile can, and with how many threads, blocks and bytes |
//! | `tuning` | preferences measured on a GPU, from a file |
//! | `rows` | counting rows: merging dimensions, cutting launches |
//! | `launch` | a launch of a plan with the pointers of a call |

mod call;
mod cut;
mod forms;
mod launch;
mod options;
mod plan;
mod raw;
mod rows;
mod tile_choice;
mod tuning;
mod turns;
mod typed;

pub use options::{ScaledMaskedSoftmax, backward_tile_names, tile_names};
pub use raw::{RawBackward, RawForward, RawSaved};
pub use tuning::{TilePreference, TunedMask, TunedOperation, Tuning, TuningError};
pub use typed::{Accumulate, GradientInputs, SoftmaxInputs};
