//! Errors of worlds and recordings.

use std::path::PathBuf;

/// Errors of worlds and recordings, by what the caller can do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// Ask for one of the known worlds.
    #[error("there is no world `{name}`; there are {}", known.join(", "))]
    UnknownWorld {
        /// The requested name.
        name: String,
        /// The known worlds.
        known: Vec<&'static str>,
    },
    /// Ask for one of the world's variants.
    #[error("world `{world}` has no variant `{variant}`; it has {}", known.join(", "))]
    UnknownVariant {
        /// The world.
        world: &'static str,
        /// The requested variant.
        variant: String,
        /// The known variants.
        known: &'static [&'static str],
    },
    /// Ask for a frame size that can be rendered.
    #[error("frames of {size} pixels cannot be rendered; choose 8 to 2048")]
    Size {
        /// Requested width and height in pixels.
        size: u32,
    },
    /// Ask for more scenes.
    #[error(
        "world `{world}` cannot be recorded with {scenes} scenes; it takes {least} to test on some"
    )]
    Scenes {
        /// The world.
        world: &'static str,
        /// The requested number.
        scenes: u32,
        /// The fewest possible.
        least: u32,
    },
    /// No episode satisfied the world's constraints: a bug worth reporting with the seed.
    #[error("world `{world}` found no valid episode {index} for seed {seed}: {reason}")]
    NoEpisode {
        /// The world.
        world: &'static str,
        /// The episode's number.
        index: u32,
        /// The recording's seed.
        seed: u64,
        /// The constraint that could not be satisfied.
        reason: String,
    },
    /// The dataset could not be written.
    #[error(transparent)]
    Data(#[from] far_data::DataError),
    /// An image could not be written.
    #[error("could not write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// Result of this crate.
pub type Result<T, E = WorldError> = std::result::Result<T, E>;
