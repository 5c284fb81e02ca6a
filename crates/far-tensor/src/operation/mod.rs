//! The operations, one file each: formula and shapes first, then the kernel, its backward, a
//! plain-loop reference and the tests that compare the two.

mod activation;
mod arithmetic;
mod attention;
mod convolution;
mod cosine;
mod diffusion_loss;
mod divergence;
mod embedding;
mod feed_forward;
mod gated_norm;
mod gated_residual;
mod gathered;
mod group_norm;
mod head_norm;
mod layout;
mod linear;
pub(crate) mod loss;
mod masked;
mod modulated_norm;
mod noise_schedule;
mod norm_row;
mod permute;
mod pooling;
mod reduction;
mod rotary;
mod row;
mod sinusoidal;
mod softmax;
mod squared_errors;
mod upsample;
mod warp;
mod window;

pub use activation::Activation;
pub use attention::Attention;
pub(crate) use attention::Layout as AttentionLayout;
pub use diffusion_loss::{DiffusionLoss, DiffusionTarget};
pub use gated_norm::Gate;
pub use masked::Statistic;
pub use modulated_norm::{Affine, Modulation};
pub use noise_schedule::{BoundCoefficients, NoiseSchedule, Prediction};
pub use rotary::RotaryTable;
pub use sinusoidal::{WaveOrder, position_table};
pub use warp::PatchGrid;
pub use window::{Padding, Window};
