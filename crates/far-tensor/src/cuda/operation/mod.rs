//! The operations on a GPU, one file each: how the kernels are launched, and the backward. Formulas,
//! shapes and checks are in the files of the same names under `operation/`, which call these when the
//! tape's device is a GPU.

mod activation;
mod arithmetic;
mod attention;
mod element;
mod embedding;
mod gated_residual;
mod layout;
mod linear;
mod modulated_norm;
mod modulation;
