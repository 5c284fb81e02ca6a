//! What can go wrong in training, sorted by what the caller can do about it.

mod hint;

use crate::memory_need::Bytes;
use std::path::{Path, PathBuf};

/// Why training did not start or did not continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is out of range or contradicts another setting.
    #[error("{key}: {reason}")]
    Setting {
        /// The setting, as `training.steps`.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such setting.
    #[error("{origin} has an unknown key `{key}`{}", nearest.as_ref().map_or(String::new(), |near| format!("; the nearest known key is `{near}`")))]
    UnknownKey {
        /// Where it stands: a file, or `--set`.
        origin: String,
        /// The key.
        key: String,
        /// The known key that looks most like it.
        nearest: Option<String>,
    },
    /// Settings of an older version that are no more.
    #[error("{origin} has settings that are gone: {}", list(keys))]
    RetiredKeys {
        /// Where they stand: a file, or `--set`.
        origin: String,
        /// Each with what became of it.
        keys: Vec<(String, &'static str)>,
    },
    /// A configuration cannot be understood.
    #[error("{origin}: {reason}")]
    Config {
        /// The file, the preset or the `--set`.
        origin: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A name that is neither a preset nor a file.
    #[error("`{name}` is neither a file nor a preset; the presets are {}", known.join(", "))]
    UnknownPreset {
        /// What was given.
        name: String,
        /// All presets.
        known: Vec<&'static str>,
    },
    /// The run's folder belongs to another configuration.
    #[error("{} holds a run with another configuration: {key} is {found} there, {wanted} here", folder.display())]
    OtherConfig {
        /// The run's folder.
        folder: PathBuf,
        /// The first setting that differs.
        key: String,
        /// Its value in the folder.
        found: String,
        /// Its value in this command.
        wanted: String,
    },
    /// A checkpoint was trained beside other arms.
    #[error("it was trained {found}, not {wanted}")]
    OtherCompanions {
        /// The arms it was trained beside, as `--beside` gives them.
        found: String,
        /// Those of this command.
        wanted: String,
    },
    /// The folder holds something else than what is to be written there.
    #[error("{} is not the folder of a {kind}: it holds {name}", folder.display())]
    OtherFolder {
        /// The folder.
        folder: PathBuf,
        /// What it should be: a `run` or a `comparison`.
        kind: &'static str,
        /// A file that no such folder has.
        name: String,
    },
    /// There is no run in the folder.
    #[error("there is no run in {}", folder.display())]
    NoRun {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder has no tokenizer and no encoder to take over.
    #[error("{} has no tokenizer and no encoder to take over", folder.display())]
    NotPrepared {
        /// The folder.
        folder: PathBuf,
    },
    /// A run was trained with something that its folder has no more.
    #[error("{} is missing, which the run was trained with", path.display())]
    NoArtifact {
        /// The file.
        path: PathBuf,
    },
    /// A file in a run's folder differs from the one its checkpoint was trained with.
    #[error("the {what} in {} is not the one that the checkpoint was trained with", folder.display())]
    OtherArtifact {
        /// The run's folder.
        folder: PathBuf,
        /// What differs.
        what: String,
    },
    /// The run has no checkpoint yet.
    #[error("the run in {} has no checkpoint yet", folder.display())]
    NotSaved {
        /// The run's folder.
        folder: PathBuf,
    },
    /// Two runs cannot be judged on the same clips.
    #[error("{} and {} have not the same {what}", first.display(), second.display())]
    Differ {
        /// One run's folder.
        first: PathBuf,
        /// The other's.
        second: PathBuf,
        /// What they do not share.
        what: String,
    },
    /// Another process writes to the folder.
    #[error("{} is in use by {holder}", folder.display())]
    Locked {
        /// The run's folder.
        folder: PathBuf,
        /// Who holds it.
        holder: String,
    },
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was being done, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of the run does not hold what it should.
    #[error("{}: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No checkpoint of the run can be read.
    #[error("no checkpoint in {} can be used; the newest: {source}", folder.display())]
    NoCheckpoint {
        /// The folder of checkpoints.
        folder: PathBuf,
        /// Why the newest cannot.
        source: Box<Error>,
    },
    /// The dataset lacks something that the configuration needs.
    #[error("the dataset in {} has no {missing}, which {needed_by} needs", folder.display())]
    Lacking {
        /// The dataset's folder.
        folder: PathBuf,
        /// What it lacks.
        missing: String,
        /// What needs it.
        needed_by: String,
    },
    /// The dataset's frames are in videos, which are decoded once, not at every step.
    #[error("the frames of {} are in videos, which do not train as they are", folder.display())]
    FramesInVideos {
        /// The dataset's folder.
        folder: PathBuf,
    },
    /// The arm compares keys that nothing here makes.
    #[error("nothing makes keys of `{cue}`, which the arm asks for; the cues are {known}")]
    NoEncoder {
        /// The cue of the keys.
        cue: String,
        /// The cues there are.
        known: String,
    },
    /// The dataset has nothing to judge by.
    #[error("the dataset in {} has no {split} episode that explores and returns, so nothing can be evaluated", folder.display())]
    NothingHeldOut {
        /// The dataset's folder.
        folder: PathBuf,
        /// The part that is judged.
        split: &'static str,
    },
    /// It would take more memory than there is.
    #[error("{settings} take about {needed} of memory, and {present} are there")]
    TooLarge {
        /// The settings that ask for most, with their values.
        settings: String,
        /// What is needed.
        needed: Bytes,
        /// What is there.
        present: Bytes,
        /// What to do about it.
        advice: &'static str,
    },
    /// There is nothing to learn from.
    #[error("there is nothing to learn from: no clip has a memory and a question")]
    Nothing,
    /// The engine refused a step.
    #[error(transparent)]
    Tensor(#[from] far_tensor::Error),
    /// The memory, a policy or a retriever refused.
    #[error(transparent)]
    Memory(#[from] far_memory::Error),
    /// The dataset cannot be read.
    #[error(transparent)]
    Data(#[from] far_data::DataError),
    /// A network refused.
    #[error(transparent)]
    Model(#[from] far_model::Error),
    /// An evaluation stopped.
    #[error(transparent)]
    Evaluation(#[from] far_eval::Error),
}

/// Retired settings with what became of each, in one line.
fn list(keys: &[(String, &'static str)]) -> String {
    let entries = keys.iter().map(|(key, reason)| format!("`{key}` ({reason})"));
    entries.collect::<Vec<_>>().join(", ")
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether a setting, a preset or an arm was not understood, so that nothing was tried.
    pub fn is_usage(&self) -> bool {
        use far_model::Error as Model;
        matches!(
            self,
            Self::Setting { .. }
                | Self::UnknownKey { .. }
                | Self::RetiredKeys { .. }
                | Self::Config { .. }
                | Self::UnknownPreset { .. }
                | Self::TooLarge { .. }
                | Self::Model(Model::Setting { .. })
                | Self::Evaluation(far_eval::Error::Setting { .. })
        )
    }

    /// Whether a file was cut short or altered, so that making it again helps.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Tensor(far_tensor::Error::Checkpoint { .. })
                | Self::Model(far_model::Error::Tensor(far_tensor::Error::Checkpoint { .. }))
        )
    }

    pub(crate) fn setting(key: &str, reason: impl Into<String>) -> Self {
        Self::Setting { key: key.to_owned(), reason: reason.into() }
    }

    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { action, path, source }
    }
}
