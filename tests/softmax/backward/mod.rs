//! The backward of scaled masked softmax.

mod errors;
