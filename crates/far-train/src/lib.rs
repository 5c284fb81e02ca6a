//! Training of what is recalled.

mod distillation;

pub use distillation::{Distillation, DistillationConfig, Error};
