//! What can go wrong in training, sorted by what the caller can do about it.

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

/// Where to look when nothing better is known.
const SETTINGS: &str = "check the settings of the configuration against docs/settings.md";

/// Retired settings with what became of each, in one line.
fn list(keys: &[(String, &'static str)]) -> String {
    let entries = keys.iter().map(|(key, reason)| format!("`{key}` ({reason})"));
    entries.collect::<Vec<_>>().join(", ")
}

/// What to do when the system refused a file.
fn file_hint(path: &Path, source: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free some space, then run the same command again: nothing is lost".into()
        }
        ErrorKind::NotFound => format!("check the path: there is no {}", path.display()),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "check the permissions of the file and of its folder".into()
        }
        _ => "check that the path exists, is writable and has free space".into(),
    }
}

/// What to do when the engine refused.
fn tensor_hint(error: &far_tensor::Error) -> String {
    match error {
        far_tensor::Error::NonFinite { .. } => {
            "the last good checkpoint is kept; a lower training.learning_rate may help".into()
        }
        far_tensor::Error::NoCuda { remedy, .. } => (*remedy).into(),
        far_tensor::Error::OutOfMemory { .. } => {
            "raise training.micro_batches or lower data.batch; where memories are credited lower \
             retriever.queries, where clips are judged evaluation.batch"
                .into()
        }
        far_tensor::Error::Checkpoint { .. } => {
            "copy the file again; what a run made itself, its `far train` command makes again"
                .into()
        }
        far_tensor::Error::File { path, source, .. } => file_hint(path, source),
        _ => SETTINGS.into(),
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// What to do next, in one line.
    pub fn hint(&self) -> String {
        match self {
            Self::Setting { key, .. } if key.starts_with("--") => {
                format!("give another {key}; --help says what it takes")
            }
            Self::Setting { key, .. } => format!("change it in the file, or with --set {key}=…"),
            Self::UnknownKey { nearest: Some(near), .. } => {
                format!("write `{near}`, or look into docs/settings.md, which lists every setting")
            }
            Self::UnknownKey { .. } => "docs/settings.md lists every setting".into(),
            Self::RetiredKeys { .. } => {
                "leave them out, or write the new names; a run resumes only with the version that made it".into()
            }
            Self::Config { origin, .. } if origin.starts_with("--rule") => {
                "docs/recall-policies.md lists the rules".into()
            }
            Self::Config { .. } => "`far train --config default --print-config` shows a whole one".into(),
            Self::UnknownPreset { .. } => "give a preset's name or the path of a .toml file".into(),
            Self::OtherConfig { .. } => {
                "give another --out, or --fresh to delete the old run".into()
            }
            Self::OtherCompanions { .. } => {
                "give every --beside as the run was begun, or --fresh to start it over".into()
            }
            Self::NoCheckpoint { source, .. } if matches!(**source, Self::OtherCompanions { .. }) => {
                source.hint()
            }
            Self::OtherFolder { kind, .. } => {
                format!("give --out a folder that is new, empty or a {kind}'s")
            }
            Self::NoRun { .. } => "give the folder that `far train` made".into(),
            Self::NotPrepared { .. } => {
                "give --prepared the folder of a run that has begun to train".into()
            }
            Self::NoArtifact { .. } => {
                "copy the file back, or run the `far train` command of the run again, which makes it again".into()
            }
            Self::OtherArtifact { .. } => {
                "copy the original file back; it can be made again only from the data it was made from".into()
            }
            Self::NotSaved { .. } => {
                "train on: the first checkpoint comes after training.checkpoint_every steps".into()
            }
            Self::Differ { .. } => {
                "train runs that are compared on one dataset, with one tokenizer and one encoder.path".into()
            }
            Self::Locked { .. } => "wait for it, stop it, or give another --out".into(),
            Self::File { path, source, .. } => file_hint(path, source),
            Self::Corrupt { .. } => "copy the file back from elsewhere; --fresh starts the run over".into(),
            Self::NoCheckpoint { .. } => {
                "copy one back, or give the settings it was trained with; --fresh starts the run over".into()
            }
            Self::Lacking { .. } => {
                "choose another arm or tokenizer, or a dataset that has it; `far data inspect` says what one has".into()
            }
            Self::FramesInVideos { folder } => {
                let folder = folder.display();
                format!(
                    "decode them once: far data import dataset {folder} --out {folder}-frames, and train on that"
                )
            }
            Self::NoEncoder { .. } => {
                "--set arm.id=far-meta recalls by poses and times alone, --set arm.cue=vision by what was seen".into()
            }
            Self::NothingHeldOut { .. } => {
                "give some episodes another `split` in episodes.arrow, or record more; --set training.evaluate_every=0 trains without".into()
            }
            Self::TooLarge { advice, .. } => (*advice).into(),
            Self::Nothing => "record or import episodes that explore and return".into(),
            Self::Data(error) | Self::Model(far_model::Error::Data(error)) => error.hint(),
            Self::Model(far_model::Error::NotFinite { .. }) => {
                "encode these frames again without NaN or infinity, or leave the episode out".into()
            }
            Self::Model(far_model::Error::File { .. }) => {
                "make that file again, or change the settings that it has to fit".into()
            }
            Self::Model(far_model::Error::Setting { .. }) => {
                "change the setting of that name in the configuration".into()
            }
            Self::Tensor(error)
            | Self::Model(far_model::Error::Tensor(error))
            | Self::Evaluation(far_eval::Error::Model(far_model::Error::Tensor(error))) => {
                tensor_hint(error)
            }
            Self::Evaluation(far_eval::Error::File { path, source, .. }) => file_hint(path, source),
            Self::Evaluation(far_eval::Error::Nothing(_)) => {
                "the dataset needs held-out episodes that explore and return; `far data inspect` says what it has".into()
            }
            Self::Evaluation(far_eval::Error::Data(error)) => error.hint(),
            Self::Memory(_) | Self::Model(_) | Self::Evaluation(_) => SETTINGS.into(),
        }
    }

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
