//! Tensors, tape autodiff and fused operations.
