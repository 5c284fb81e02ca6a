//! The operations on a GPU, one file each: how the kernels are launched, and the backward. Formulas,
//! shapes and checks are in the files of the same names under `operation/`, which call these when the
//! tape's device is a GPU.

mod attention;
mod gated_residual;
mod activation;
mod arithmetic;
mod convolution;
mod cosine;
mod divergence;
mod element;
mod embedding;
mod group_norm;
mod layout;
mod diffusion_loss;
mod gated_residual;
mod head_norm;
mod linear;
mod loss;
mod masked;
mod permute;
mod pooling;
mod rotary;
mod softmax;
mod team;

pub(crate) use convolution::Convolution;
pub(crate) use group_norm::ChannelGroups;
pub(crate) use pooling::Pooling;
pub(crate) use rotary::Rotation;
mod modulated_norm;
mod modulation;
mod reduction;
