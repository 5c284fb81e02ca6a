//! Tensors, tape autodiff and fused operations: what a diffusion transformer needs to train, and
//! nothing else.

mod arena;
mod buffer;
mod checkpoint;
mod device;
mod error;
mod gradient;
mod initialization;
mod operation;
mod optimizer;
mod parallel;
mod product;
mod profile;
mod random;
mod shape;
mod step;
mod tape;
mod tensor;
#[cfg(test)]
mod testing;
mod tile;
mod vectorize;

pub use arena::{ArenaBuilder, ParameterId, Parameters};
pub use buffer::{Buffer, Pool};
pub use checkpoint::{Checkpoint, CheckpointWriter, Matching};
pub use device::Device;
pub use error::{Error, Result};
pub use gradient::Gradients;
pub use initialization::Initialization;
pub use operation::*;
pub use optimizer::{AdamW, AdamWConfig, Update};
pub use profile::Profile;
pub use random::Random;
pub use shape::{MAXIMUM_RANK, Shape};
pub use step::{Step, Trained};
pub use tape::{Tape, VariableGradients};
pub use tensor::Tensor;
