//! What to do about an error, in one line.

use super::Error;
use std::path::Path;

/// Where to look when nothing better is known.
const SETTINGS: &str = "check the settings of the configuration against docs/settings.md";

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
