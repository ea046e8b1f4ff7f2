//! Flash attention, forward.
//!
//! | file | holds |
//! |---|---|
//! | `options` | [`Attention`]: plain values |
//! | `inputs` | [`AttentionInputs`]: tensors, and what hides and changes scores |
//! | `sequences` | [`PackedSequences`]: several lengths, one after the other |
//! | `typed` | the calls on [`Tensor`](crate::Tensor)s |
//! | `raw` | the calls on pointers, strides and a stream |
//! | `call` | a call's tensors, one by one |
//! | `forms` | checks of shapes, strides and types |
//! | `plan` | from options and forms to a launch |
//! | `tile_choice` | a tile of the table as a candidate for a problem |
//! | `tensor_maps` | the tensor maps that kernels for Hopper take |
//! | `launch` | a launch of a plan with the pointers of a call |
//! | `definition` | the definition in f64 on a device, which results are compared with |

mod call;
mod definition;
mod forms;
mod inputs;
mod launch;
mod options;
mod plan;
mod raw;
mod sequences;
mod tensor_maps;
mod tile_choice;
mod typed;

pub use definition::Precision;
pub use inputs::AttentionInputs;
pub use options::{Attention, attention_tile_names};
pub use raw::{RawAttention, RawDropoutSeed};
pub use sequences::{PackedSequences, RawSequences};
pub use typed::AttentionOutput;
