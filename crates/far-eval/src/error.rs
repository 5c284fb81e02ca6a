//! What can go wrong in an evaluation.

use std::path::{Path, PathBuf};

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
    /// Scores of several runs cannot be merged.
    #[error("the scores do not belong together: {0}")]
    Differ(String),
    /// A file that a run should have is not there.
    #[error("{what} is missing: {}", path.display())]
    MissingFile {
        /// What the file would have been.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A file of a run does not hold what it should.
    #[error("{}: {reason}", path.display())]
    MalformedFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// The operating system refused.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What was being done, as a verb.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}

impl Error {
    /// Names the operation and the file of a refusal of the operating system.
    pub(crate) fn file(
        operation: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { operation, path: path.to_path_buf(), source }
    }

    /// A file with something wrong in it.
    pub(crate) fn malformed(path: &Path, reason: impl Into<String>) -> Self {
        Self::MalformedFile { path: path.to_path_buf(), reason: reason.into() }
    }
}
