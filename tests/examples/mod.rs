//! What the examples do, on every backend.

mod softmax;
