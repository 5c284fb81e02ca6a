//! What can go wrong when a world is asked for episodes.

use std::path::PathBuf;

/// Failures of worlds and recordings, by what the caller can do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// Ask for one of the known worlds.
    #[error("there is no world `{name}`; there are {}", known.join(", "))]
    UnknownWorld {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// Ask for one of the world's variants.
    #[error("world `{world}` has no variant `{variant}`; it has {}", known.join(", "))]
    UnknownVariant {
        /// The world.
        world: &'static str,
        /// What was asked for.
        variant: String,
        /// What there is.
        known: &'static [&'static str],
    },
    /// Ask for a picture size that can be rendered.
    #[error("frames of {size} pixels cannot be rendered; choose 8 to 2048")]
    Size {
        /// Edge of the picture that was asked for.
        size: u32,
    },
    /// The generator found no episode that keeps its rules; a bug worth reporting with the seed.
    #[error("world `{world}` found no valid episode {index} for seed {seed}: {reason}")]
    NoEpisode {
        /// The world.
        world: &'static str,
        /// The episode's number.
        index: u32,
        /// The recording's seed.
        seed: u64,
        /// Which rule could not be kept.
        reason: String,
    },
    /// The dataset could not be written.
    #[error(transparent)]
    Data(#[from] far_data::DataError),
    /// A picture could not be written.
    #[error("could not write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Result of this crate.
pub type Result<T, E = WorldError> = std::result::Result<T, E>;
