//! What the examples do, on every backend.

mod attention;
mod softmax;
