//! The inputs that ship with the examples; examples/data/README.md tells where they come from.

use crate::tensor_file::{FileError, TensorFile};

/// Attention scores of a small model on four passages of a book, before scaling: `scores`, f16 of
/// shape [4 passages, 12 heads, 70 tokens, 70 tokens], and `mask`, u8 of shape [4, 1, 1, 70],
/// nonzero for padding.
///
/// # Errors
/// The file is damaged.
pub fn attention_scores() -> Result<TensorFile, FileError> {
    let bytes = include_bytes!("../data/minilm_attention_scores.safetensors");
    TensorFile::from_bytes("minilm_attention_scores.safetensors, which ships", bytes.to_vec())
}

/// Queries, keys and values of the same: `q`, `k` and `v`, f16 of shape [4 passages, 12 heads, 70
/// tokens, 32 elements], and `lengths`, i32 of shape \[4\]: tokens without padding.
///
/// # Errors
/// The file is damaged.
pub fn attention() -> Result<TensorFile, FileError> {
    let bytes = include_bytes!("../data/minilm_attention.safetensors");
    TensorFile::from_bytes("minilm_attention.safetensors, which ships", bytes.to_vec())
}
