//! Errors, grouped by what the caller can do about them.

use crate::Shape;
use std::path::PathBuf;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error of the tensor engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    // ---- Bad input: two tensors do not fit, or one does not fit the operation.
    /// Two shapes that an operation needs to agree do not.
    #[error("{operation}: {left} does not fit {right}: {requirement}")]
    Mismatch {
        /// The operation.
        operation: &'static str,
        /// Shape of the first operand.
        left: Shape,
        /// Shape of the second operand.
        right: Shape,
        /// What the operation requires.
        requirement: &'static str,
    },
    /// One shape does not fit an operation.
    #[error("{operation}: {shape} is not accepted: {requirement}")]
    Unsupported {
        /// The operation.
        operation: &'static str,
        /// The shape given.
        shape: Shape,
        /// What the operation requires.
        requirement: String,
    },
    /// A row index points outside a table.
    #[error("{operation}: index {index} is outside a table of {rows} rows")]
    Index {
        /// The operation.
        operation: &'static str,
        /// The index given.
        index: usize,
        /// How many rows there are.
        rows: usize,
    },
    /// A parameter is still in use by a tensor or a tape that outlived its step.
    #[error("the parameters of `{arena}` cannot change while a tensor still refers to them")]
    Shared {
        /// The arena's name.
        arena: String,
    },

    // ---- Training: the update was not applied.
    /// The loss or the gradient norm was not finite; the parameters are unchanged.
    #[error("{quantity} is {value}, the update was not applied; first culprit: {culprit}")]
    NonFinite {
        /// `loss` or `gradient norm`.
        quantity: &'static str,
        /// The value found.
        value: f64,
        /// The first operation with a non-finite result when the step was replayed.
        culprit: String,
    },

    // ---- A GPU: another machine, driver or size is needed.
    /// No GPU can be used.
    #[error("no CUDA device can be used: {problem}")]
    NoCuda {
        /// What is missing, with the versions found.
        problem: String,
        /// How to fix it.
        remedy: &'static str,
    },
    /// The GPU is out of memory.
    #[error(
        "the GPU has no room for {asked:.2} GB more: {free:.2} of {total:.2} GB are free, \
         tensors hold {held:.2}",
        asked = *asked as f64 / 1e9, free = *free as f64 / 1e9, total = *total as f64 / 1e9,
        held = *held as f64 / 1e9
    )]
    OutOfMemory {
        /// Bytes requested.
        asked: usize,
        /// Bytes free on the GPU.
        free: usize,
        /// Bytes in total.
        total: usize,
        /// Bytes held by tensors of this device.
        held: usize,
    },
    /// A call to the GPU or one of its libraries failed.
    #[error("CUDA: {action} failed: {reason}")]
    Cuda {
        /// The action that failed.
        action: &'static str,
        /// The reason given.
        reason: String,
    },

    // ---- Checkpoints: another file, or another model, is needed.
    /// A checkpoint cannot be read or does not fit the parameters.
    #[error("{path}: {problem}", path = path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Which tensor, what was expected and what was found.
        problem: String,
    },
    /// A file cannot be opened, read or written.
    #[error("{action} {path}", path = path.display())]
    File {
        /// The action that failed, such as "cannot write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}
