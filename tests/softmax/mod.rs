//! Scaled masked softmax.

mod backward;
mod by_hand;
mod empty;
mod errors;
mod extreme_forms;
pub(crate) mod large;
mod launches;
mod masked_rows;
mod masks;
mod not_finite;
mod omitted_synchronisation;
mod plans;
mod properties;
mod ring;
mod scales;
mod shapes;
mod tiles;
mod tuning;
mod turns;
mod unread;
mod visible_range;

/// Rows for each kind of kernel, short enough to be quick: their columns, and the tile if it must
/// be asked for.
const ROWS: [(usize, Option<&str>); 9] = [
    (1, None),
    (3, None),
    (64, None),
    (129, None),
    (1024, None),
    (2049, None),
    (8200, None),
    (2100, Some("ragged_cluster4")),
    (2100, Some("ragged_streamed4")),
];
