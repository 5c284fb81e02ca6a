//! What can go wrong with the networks.

use std::path::PathBuf;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine refused an operation.
    #[error(transparent)]
    Tensor(#[from] far_tensor::Error),
    /// An episode or a cache could not be read or written.
    #[error(transparent)]
    Data(#[from] far_data::DataError),
    /// The memory refused a record or a query.
    #[error(transparent)]
    Memory(#[from] far_memory::Error),
    /// A setting does not make a model.
    #[error("{setting}: {reason}")]
    Setting {
        /// The setting's name in a configuration.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Arrays of the wrong length were given.
    #[error("{what} has {found} numbers where {expected} are due")]
    Length {
        /// What was given.
        what: &'static str,
        /// How many numbers it has.
        found: usize,
        /// How many it should have.
        expected: usize,
    },
    /// A number that is not finite, where every number decides something.
    #[error("{what} has {value} at place {place}")]
    NotFinite {
        /// What was given.
        what: String,
        /// The value.
        value: f32,
        /// Its place.
        place: usize,
    },
    /// Two pictures that a metric cannot compare.
    #[error(
        "{metric} of pictures of {}x{} and {}x{}: {requirement}",
        left[0], left[1], right[0], right[1]
    )]
    Pictures {
        /// The metric.
        metric: &'static str,
        /// Width and height of the first.
        left: [u32; 2],
        /// Width and height of the second.
        right: [u32; 2],
        /// What would have fitted.
        requirement: String,
    },
    /// A file does not hold what its name says.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// Checks that an array has the length that it should have.
    pub(crate) fn check_length(what: &'static str, found: usize, expected: usize) -> Result<()> {
        if found == expected { Ok(()) } else { Err(Self::Length { what, found, expected }) }
    }

    /// Checks that every number is finite.
    pub(crate) fn check_finite(what: impl Into<String>, values: &[f32]) -> Result<()> {
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(()),
            Some(place) => Err(Self::NotFinite { what: what.into(), value: values[place], place }),
        }
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
