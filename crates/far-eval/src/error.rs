//! What can go wrong in an evaluation.

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an evaluation stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The dataset cannot be read.
    #[error(transparent)]
    Data(#[from] far_data::DataError),
    /// The memory refused a record or a query.
    #[error(transparent)]
    Memory(#[from] far_memory::Error),
    /// There is nothing to judge by.
    #[error("{0}")]
    Nothing(String),
}
