//! Scaled masked softmax.

mod shapes;
