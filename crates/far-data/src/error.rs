//! What can go wrong with data on disk, sorted by what the caller can do about it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A failure to write, open or understand a dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The operating system refused: permissions, a full disk, a folder that went away.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was being done, as a verb: "read", "rename".
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file that the dataset names or needs is not there.
    #[error("{what} is missing: {}", path.display())]
    Missing {
        /// What the file would have been.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The folder holds a recording that was started but never finished.
    #[error("the recording in {} is not finished: it has episodes but no episodes.arrow", path.display())]
    Unfinished {
        /// The dataset's folder.
        path: PathBuf,
    },
    /// Another process writes into the folder.
    #[error("{} is being written by {holder}", path.display())]
    Locked {
        /// The dataset's folder.
        path: PathBuf,
        /// The writing process.
        holder: String,
    },
    /// The folder already holds a different recording.
    #[error("{} already holds another recording: {field} is {found} there, {wanted} here", path.display())]
    Conflict {
        /// The dataset's folder.
        path: PathBuf,
        /// The first entry of `dataset.json` that differs.
        field: String,
        /// Its value on disk.
        found: String,
        /// Its value in the recording that was asked for.
        wanted: String,
    },
    /// The folder holds a training run.
    #[error("{} holds a training run", path.display())]
    HoldsRun {
        /// The run's folder.
        path: PathBuf,
    },
    /// The dataset was written for another version of the format.
    #[error("{} has format version {found}, this program reads versions 1 to {supported}", path.display())]
    Version {
        /// The dataset's `dataset.json`.
        path: PathBuf,
        /// The version found.
        found: u64,
        /// The version this crate reads and writes.
        supported: u64,
    },
    /// `dataset.json` does not parse or contradicts itself.
    #[error("{}: {reason}", path.display())]
    Description {
        /// The dataset's `dataset.json`.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file is cut short, damaged, or not of the kind its name says.
    #[error("{} is damaged: {reason}", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// A file is whole but uses a part of Arrow that cannot be mapped.
    #[error("{} uses {what}, which this format leaves out", path.display())]
    Unsupported {
        /// The Arrow file.
        path: PathBuf,
        /// The part of Arrow: compression, or a column with its type.
        what: String,
    },
    /// A column is missing or has another type.
    #[error("{}: column `{column}` should be {expected}, found {found}", path.display())]
    Column {
        /// The Arrow file.
        path: PathBuf,
        /// The column's name.
        column: String,
        /// The type the format asks for.
        expected: String,
        /// The type found, or "no such column".
        found: String,
    },
    /// One value of one row breaks a rule of the format.
    #[error("{}, row {row}, column `{column}`: {reason}", place(*episode))]
    Row {
        /// The episode, or `None` for a row of `episodes.arrow`.
        episode: Option<u32>,
        /// The row, counted from 0: a frame of the episode or an episode of the index.
        row: usize,
        /// The column's name.
        column: &'static str,
        /// The rule and the value that breaks it.
        reason: String,
    },
    /// An episode as a whole does not agree with its row in the index.
    #[error("episode {episode}: {reason}")]
    Episode {
        /// The episode's id.
        episode: u32,
        /// What does not agree.
        reason: String,
    },
    /// The rotations of an episode follow another convention.
    #[error("episode {episode}: {reason}")]
    Rotation {
        /// The episode's id.
        episode: u32,
        /// What shows it.
        reason: String,
    },
    /// A file of an imported source is not what its format says.
    #[error("{}: {reason}", path.display())]
    Source {
        /// The file or folder of the source.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The program that decodes videos cannot be started.
    #[error("`{program}` cannot be started to decode {}", path.display())]
    NoVideoProgram {
        /// The program that was tried.
        program: String,
        /// The video.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The pictures contradict the poses.
    #[error("{recording}: {reason}")]
    Poses {
        /// The recording's name in the source.
        recording: String,
        /// What does not fit.
        reason: String,
        /// Options under which it would, or "".
        better: String,
    },
    /// No recording comes back to a place it has seen.
    #[error("no frame sees a place again: nothing to recall ({reason})")]
    NoReturn {
        /// How near the closest one comes.
        reason: String,
    },
    /// Settings that cannot be followed, or do not fit the dataset.
    #[error("setting `{setting}`: {reason}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// Why it cannot be followed.
        reason: String,
    },
}

impl DataError {
    /// What to do about it, as one sentence for a person.
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::Io { source, .. } => match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                    "free some space, then run the same command again: nothing is lost"
                }
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    "choose a path that you may write; --cache says where latents and keys go"
                }
                _ => "check that the path exists, is readable and has free space",
            },
            Self::Missing { what: "dataset.json", .. } => {
                "give the folder that holds dataset.json; `far world record` makes one"
            }
            Self::Missing { what: "a file of the source" | "the source", .. } => {
                "check the path; docs/importing.md says which files each format has"
            }
            Self::Missing { .. } => {
                "copy the whole dataset folder again, or record it again into the same folder"
            }
            Self::Unfinished { .. } => {
                "run the same recording command again: it resumes where it stopped"
            }
            Self::Locked { .. } => "wait until it has finished, or choose another --out folder",
            Self::Conflict { .. } => {
                "choose another --out folder, or repeat the settings of the recording there"
            }
            Self::HoldsRun { .. } => "give --out a folder of its own",
            Self::Version { found, supported, .. } if found > supported => {
                "the dataset comes from a newer far: update far"
            }
            Self::Version { .. } => "record or import the dataset again with this far",
            Self::Description { .. } => "correct dataset.json; docs/dataset.md lists its entries",
            Self::Corrupt { .. } => {
                "copy the file again, or delete it and record again into the same folder"
            }
            Self::Unsupported { .. } => {
                "write the file without compression and without dictionary, union, view or map columns; \
                 polars: df.write_ipc(path, compat_level=pl.CompatLevel.oldest())"
            }
            Self::Column { .. } => {
                "write the column with that type and values; docs/dataset.md says what columns hold"
            }
            Self::Row { episode: Some(_), .. } => {
                "correct the row where the episode is written, then write the episode again"
            }
            Self::Row { episode: None, .. } => {
                "correct the row in episodes.arrow; docs/dataset.md says what it holds"
            }
            Self::Episode { .. } => {
                "the file and its row in episodes.arrow are from different recordings: write both again"
            }
            Self::Rotation { .. } => {
                "write `rotation` as docs/dataset.md says: (w, x, y, z), from camera axes (x right, y down, z forward) \
                 to world axes (Z up); --trust-poses takes it as it is"
            }
            Self::Source { .. } => {
                "correct the source, or leave the file out; docs/importing.md says what each format holds"
            }
            Self::NoVideoProgram { .. } => {
                "install ffmpeg (`apt install ffmpeg`, `brew install ffmpeg`), or name it by FAR_FFMPEG=/path/to/ffmpeg"
            }
            Self::Poses { better, .. } if better.is_empty() => {
                "check --axes, --handed, --up and --world-to-camera; --no-poses imports the pictures alone"
            }
            Self::Poses { better, .. } => {
                return format!("add {better}; or import the poses as they are with --trust-poses");
            }
            Self::NoReturn { .. } => {
                "--return last:30% calls the last part the return all the same; a longer --window may hold one"
            }
            Self::Setting { .. } => {
                "change the setting, or choose a dataset that has what it needs"
            }
        };
        hint.into()
    }

    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { operation, path: path.to_path_buf(), source }
    }

    pub(crate) fn corrupt(path: &Path, reason: impl std::fmt::Display) -> Self {
        Self::Corrupt { path: path.to_path_buf(), reason: reason.to_string() }
    }
}

fn place(episode: Option<u32>) -> String {
    episode.map_or_else(|| "episodes.arrow".into(), |id| format!("episode {id}"))
}

/// A result whose error is a [`DataError`].
pub type Result<T> = std::result::Result<T, DataError>;
