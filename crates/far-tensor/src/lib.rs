//! Tensors, tape autodiff and fused operations: what a diffusion transformer needs to train, and
//! nothing else.

mod buffer;
mod device;
mod error;
mod gradient;
mod operation;
mod parallel;
mod product;
mod random;
mod shape;
mod tape;
mod tensor;
#[cfg(test)]
mod testing;
mod tile;
mod vectorize;

pub use buffer::{Buffer, Pool};
pub use device::Device;
pub use error::{Error, Result};
pub use gradient::Gradients;
pub use operation::*;
pub use random::Random;
pub use shape::{MAXIMUM_RANK, Shape};
pub use tape::{Tape, VariableGradients};
pub use tensor::Tensor;
