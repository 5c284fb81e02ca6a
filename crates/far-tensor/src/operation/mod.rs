//! The operations, one file each: formula and shapes on top, the kernel, its backward, then a
//! plain-loop reference and the tests that compare the two.

mod activation;
mod arithmetic;
mod attention;
mod cosine;
mod divergence;
mod embedding;
mod gated_residual;
mod head_norm;
mod layout;
mod linear;
mod loss;
mod masked;
mod modulated_norm;
mod permute;
mod reduction;
mod rotary;
mod row;
mod softmax;

pub use activation::Activation;
pub use attention::Attention;
pub use masked::Statistic;
pub use modulated_norm::{Affine, Modulation};
pub use rotary::RotaryTable;
