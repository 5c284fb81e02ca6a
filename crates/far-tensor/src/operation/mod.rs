//! The operations, one file each: formula and shapes on top, the kernel, its backward, then a
//! plain-loop reference and the tests that compare the two.

mod activation;
mod arithmetic;
mod linear;
mod reduction;

pub use activation::Activation;
