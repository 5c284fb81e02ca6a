//! The operations on a GPU, one file each: how the kernels are launched, and the backward. Formulas,
//! shapes and checks are in the files of the same names under `operation/`, which call these when the
//! tape's device is a GPU.

mod activation;
mod arithmetic;
mod attention;
mod convolution;
mod cosine;
mod diffusion_loss;
mod divergence;
mod element;
mod embedding;
mod gated_residual;
mod group_norm;
mod head_norm;
mod layout;
mod linear;
mod loss;
mod masked;
mod modulated_norm;
mod modulation;
mod permute;
mod pooling;
mod reduction;
mod rotary;
mod softmax;
mod team;
mod warp;

pub(crate) use group_norm::ChannelGroups;
pub(crate) use pooling::Pooling;
pub(crate) use rotary::Rotation;
