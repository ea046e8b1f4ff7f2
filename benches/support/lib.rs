//! What the benchmarks share: problems, their data, checks, and times by CUDA events.
//!
//! A GPU's speed drifts with its clocks and heat, so absolute figures mean little: every
//! measurement stands beside a device-to-device copy of the same bytes, taken in turn with it.

mod attention;
mod case;
mod data;
mod empty_kernel;
mod events;
mod gpu;
mod problem;
mod selection;
pub mod tuning;
mod turns;

pub use attention::{AttentionCase, AttentionShape, Feature};
pub use case::{Buffers, Case, SCALE};
pub use empty_kernel::EmptyKernel;
pub use events::CudaEvents;
pub use gpu::Gpu;
pub use problem::{Direction, ElementType, MaskKind, Problem, WINDOW};
pub use selection::{COLUMNS, MASKED_COLUMNS, Selection};
pub use turns::Turns;

/// What the benchmarks return.
pub type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;
