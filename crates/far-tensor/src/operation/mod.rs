//! The operations, one file each: formula and shapes on top, the kernel, its backward, then a
//! plain-loop reference and the tests that compare the two.

mod activation;
mod arithmetic;
mod attention;
mod gated_residual;
mod head_norm;
mod linear;
mod modulated_norm;
mod reduction;
mod rotary;

pub use activation::Activation;
pub use attention::Attention;
pub use modulated_norm::{Affine, Modulation};
pub use rotary::RotaryTable;
