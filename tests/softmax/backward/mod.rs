//! The backward of scaled masked softmax.

mod differences;
mod empty;
mod errors;
mod in_place;
mod large;
mod launches;
mod masked_rows;
mod not_finite;
mod omitted_synchronisation;
mod plans;
mod properties;
mod scales;
mod shapes;
mod tiles;
mod unread;

use support::softmax_case::{BackwardCase, SOURCES, SoftmaxCase};

/// Rows for each kind of kernel, short enough to be quick: their columns, and the tile if it must
/// be asked for.
const ROWS: [(usize, Option<&str>); 9] = [
    (1, None),
    (3, None),
    (64, None),
    (129, None),
    (1024, None),
    (2049, None),
    (4104, None),
    (2100, Some("ragged_cluster2")),
    (2100, Some("ragged_streamed2")),
];

/// The backward of a forward, from either source.
fn from_either(forward: SoftmaxCase) -> [BackwardCase; 2] {
    SOURCES.map(|saved| BackwardCase::new(saved, forward.clone()))
}
