//! The operations, one file each: formula and shapes on top, the kernel, its backward, then a
//! plain-loop reference and the tests that compare the two.

mod activation;
mod arithmetic;
mod cosine;
mod divergence;
mod embedding;
mod layout;
mod linear;
mod loss;
mod masked;
mod permute;
mod reduction;
mod row;
mod softmax;

pub use activation::Activation;
pub use masked::Statistic;
