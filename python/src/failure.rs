//! Failures as Python exceptions, each with its cause and a hint of what to do.

use far_data::DataError;
use far_memory::Error;
use far_world::WorldError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The exception classes of `far_memory.errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Arguments that do not fit.
    Input,
    /// A rule or its settings.
    Policy,
    /// A retriever's file.
    Retriever,
    /// A store on disk.
    Store,
    /// Something that was closed.
    Closed,
    /// Use in another process than the owner's.
    Process,
    /// A dataset that cannot be read or written.
    Dataset,
}

impl Kind {
    fn class_name(self) -> &'static str {
        match self {
            Self::Input => "InputError",
            Self::Policy => "PolicyError",
            Self::Retriever => "RetrieverError",
            Self::Store => "StoreError",
            Self::Closed => "ClosedError",
            Self::Process => "ProcessError",
            Self::Dataset => "DatasetError",
        }
    }
}

/// A failure before it becomes an exception: made without the GIL.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    cause: String,
    hint: String,
}

/// The result of work that may be refused.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A failure of a kind with its cause and hint.
    pub fn new(kind: Kind, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind, cause: cause.into(), hint: hint.into() }
    }

    /// Arguments that do not fit.
    pub fn input(cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Kind::Input, cause, hint)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (kind, hint) = match &error {
            Error::Schema { .. } => {
                (Kind::Input, "give every cue a name of its own and a dimension of at least 1")
            }
            Error::UnknownCue { .. } => (Kind::Input, "name a cue that the memory was made with"),
            Error::Dimension { .. } => {
                (Kind::Input, "give keys of the cue's dimension, one row for each record")
            }
            Error::Observation { .. } => {
                (Kind::Input, "times and poses must be finite; nothing was stored")
            }
            Error::Query { .. } => (
                Kind::Input,
                "give finite times and poses, and the query embeddings the rule asks for",
            ),
            Error::OutsideSnapshot { .. } | Error::PoolOrder { .. } => {
                (Kind::Input, "a pool holds ids of this memory, each below its length")
            }
            Error::Block { .. } => (Kind::Input, "columns must have one row for each record"),
            Error::SnapshotSchema { .. } => {
                (Kind::Input, "call fork() on the snapshot for a memory with its cues")
            }
            Error::Disk { .. } => {
                (Kind::Store, "look at the path, its permissions and the room on the disk")
            }
            Error::Corrupt { .. } => {
                (Kind::Store, "restore the file from a copy; `far memory verify` lists all damage")
            }
            Error::NoStore { .. } => {
                (Kind::Store, "give cues= to make a store where there is none")
            }
            Error::StoreExists { .. } => {
                (Kind::Store, "choose another folder; a store is never replaced")
            }
            Error::Locked { .. } => {
                (Kind::Store, "close the other writer, or open with read_only=True")
            }
            Error::StoreVersion { .. } => (Kind::Store, "use the version of far that wrote it"),
            Error::StoreSchema { .. } => {
                (Kind::Store, "open it without cues=, or with the cues it has")
            }
            Error::Stopped { .. } => {
                (Kind::Store, "open the store again to continue after the records that are safe")
            }
            Error::UnknownPolicy { .. } => (Kind::Policy, "far_memory.rules() lists the ids"),
            Error::PolicyOption { .. } => {
                (Kind::Policy, "Policy(id).settings shows what a rule can be told")
            }
            Error::Retriever { .. } | Error::RetrieverVersion { .. } => (
                Kind::Retriever,
                "give a file that `far train` or far_memory.torch.Retriever.save wrote",
            ),
        };
        let mut cause = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            cause = format!("{cause}: {source}");
        }
        Self::new(kind, cause, hint)
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        let mut cause = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            cause = format!("{cause}: {source}");
        }
        Self::new(Kind::Dataset, cause, error.hint())
    }
}

impl From<WorldError> for Failure {
    fn from(error: WorldError) -> Self {
        match error {
            WorldError::Data(error) => error.into(),
            other => {
                Self::input(other.to_string(), "far_memory.worlds.variants() lists what there is")
            }
        }
    }
}

impl From<far_eval::Error> for Failure {
    fn from(error: far_eval::Error) -> Self {
        match error {
            far_eval::Error::Data(error) => error.into(),
            far_eval::Error::Memory(error) => error.into(),
            far_eval::Error::Model(far_model::Error::Data(error)) => error.into(),
            far_eval::Error::Model(far_model::Error::Memory(error)) => error.into(),
            far_eval::Error::MissingFile { .. } | far_eval::Error::MalformedFile { .. } => {
                Self::new(Kind::Dataset, error.to_string(), "give the folder of an evaluation")
            }
            far_eval::Error::File { .. } => {
                let mut cause = error.to_string();
                if let Some(source) = std::error::Error::source(&error) {
                    cause = format!("{cause}: {source}");
                }
                let hint = "look at the path, its permissions and the room on the disk";
                Self::new(Kind::Dataset, cause, hint)
            }
            other => Self::input(other.to_string(), "look at the arguments of evaluate()"),
        }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| match class(py, failure.kind) {
            Ok(class) => Self::from_type(class, (failure.cause, failure.hint)),
            Err(error) => error,
        })
    }
}

/// The exception class, looked up once for each kind.
fn class(py: Python<'_>, kind: Kind) -> PyResult<Bound<'_, PyType>> {
    static CLASSES: [PyOnceLock<Py<PyType>>; 7] = [const { PyOnceLock::new() }; 7];
    let name = kind.class_name();
    CLASSES[kind as usize].import(py, "far_memory.errors", name).cloned()
}
