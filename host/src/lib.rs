//! Fused softmax and attention on NVIDIA GPUs.
