//! Tensors, tape autodiff and fused operations on the CPU and on GPUs: what training a diffusion
//! transformer needs, and nothing else.
//!
//! - A [`Tensor`] is a contiguous row-major array of f32. A [`Tape`] has the operations as methods
//!   and runs them backward; [`Tape::inference`] records nothing.
//! - [`Parameters`] live in flat arenas by name; [`Trained`] adds gradients and [`AdamW`] and makes
//!   steps that never apply a non-finite update.
//! - [`CheckpointWriter`] and [`Checkpoint`] are safetensors files, written atomically.
//! - [`Random`] is a counter-based generator with streams named by purpose and step.
//!
//! The same seed gives the same bytes, with any number of threads.
//!
//! ```
//! use far_tensor::{AdamWConfig, ArenaBuilder, Device, Initialization, Tensor, Trained};
//!
//! // Fit y = 2x₁ − x₂ with one linear map.
//! let mut builder = ArenaBuilder::new("toy");
//! let weight = builder.linear("weight", 2, 1, Initialization::Xavier);
//! let config = AdamWConfig { learning_rate: 0.05, warm_up: 0, ..AdamWConfig::default() };
//! let mut trained = Trained::new(builder.build(7), config);
//! let x = Tensor::from_slice(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], [3, 2])?;
//! let y = Tensor::from_slice(&[2.0, -1.0, 1.0], [3, 1])?;
//! let device = Device::cpu();
//! for _ in 0..300 {
//!     trained.step(&device, 1, |tape, parameters, _| {
//!         let guess = tape.linear(&x, &parameters.tensor(weight), None)?;
//!         tape.squared_error(&guess, &y, None)
//!     })?;
//! }
//! let learned = trained.parameters.tensor(weight);
//! assert!((learned.values()[0] - 2.0).abs() < 0.05 && (learned.values()[1] + 1.0).abs() < 0.05);
//! # Ok::<(), far_tensor::Error>(())
//! ```

mod arena;
mod buffer;
mod checkpoint;
mod copy_rate;
mod cuda;
mod device;
mod device_choice;
mod error;
mod gradient;
mod initialization;
mod operation;
mod optimizer;
mod parallel;
mod product;
mod profile;
mod random;
mod repeated;
mod shape;
mod step;
mod storage;
mod tape;
mod tensor;
#[cfg(test)]
mod testing;
mod tile;
mod vectorize;

pub use arena::{ArenaBuilder, ParameterId, Parameters};
pub use buffer::{Buffer, Pool};
pub use checkpoint::{Checkpoint, CheckpointWriter, Matching};
pub use cuda::{Copied, Copies, MemoryUse, Precision};
pub use device::Device;
pub use device_choice::DeviceChoice;
pub use error::{Error, Result};
pub use gradient::Gradients;
pub use initialization::Initialization;
pub use operation::*;
pub use optimizer::{AdamW, AdamWConfig, Update};
pub use profile::{Profile, Spent};
pub use random::Random;
pub use repeated::Repeated;
pub use shape::{MAXIMUM_RANK, Shape};
pub use step::{Step, Trained};
pub use tape::{Tape, VariableGradients};
pub use tensor::Tensor;
