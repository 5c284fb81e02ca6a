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
    /// A network refused its input.
    #[error(transparent)]
    Model(#[from] far_model::Error),
    /// A setting or an arm makes no evaluation.
    #[error("{setting}: {reason}")]
    Setting {
        /// The setting, or the arm.
        setting: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A world model generated something that is not a number.
    #[error("arm {arm}: the world model generated {value} for frame {frame} of episode {episode}")]
    Diverged {
        /// The arm.
        arm: String,
        /// The episode.
        episode: u32,
        /// The frame that was generated.
        frame: usize,
        /// What was found.
        value: f32,
    },
    /// There is nothing to judge by.
    #[error("{0}")]
    Nothing(String),
}
