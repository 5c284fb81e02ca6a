//! A network in a file of its own: weights by name, settings as a note.

use crate::{Error, Result};
use far_data::hash_bytes;
use far_tensor::{ArenaBuilder, Checkpoint, CheckpointWriter, Matching, Parameters};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// A file that was read and may hold a network.
pub(crate) struct WeightFile {
    path: PathBuf,
    checkpoint: Checkpoint,
    bytes: usize,
}

impl WeightFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read or is not a safetensors file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(far_tensor::Error::file("cannot read", path))?;
        Self::from_bytes(path, bytes)
    }

    /// Reads the bytes of a file; `path` is for messages.
    ///
    /// # Errors
    /// If they are not a safetensors file.
    pub(crate) fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self> {
        let length = bytes.len();
        let checkpoint = Checkpoint::from_bytes(path, bytes)?;
        Ok(Self { path: path.to_owned(), checkpoint, bytes: length })
    }

    /// The settings, and the network that `build` makes of them, with the file's weights.
    ///
    /// # Errors
    /// If the file holds another kind of network, or its settings and weights do not fit.
    pub(crate) fn network<S: DeserializeOwned, N>(
        mut self,
        kind: &str,
        build: impl FnOnce(&S, &mut ArenaBuilder) -> Result<N>,
    ) -> Result<(S, N, Parameters)> {
        let wrong = |reason: String| Error::File { path: self.path.clone(), reason };
        let note = self.checkpoint.notes().get(kind);
        let note = note.ok_or_else(|| wrong(format!("it has no note `{kind}`")))?;
        let settings = serde_json::from_str(note)
            .map_err(|error| wrong(format!("its note `{kind}` does not read: {error}")))?;
        let mut builder = ArenaBuilder::new(kind);
        let network = build(&settings, &mut builder)?;
        // A few wrong numbers must not ask for more memory than the file could ever fill.
        let count = builder.count();
        if count > self.bytes / 4 {
            let bytes = self.bytes;
            return Err(wrong(format!("{bytes} bytes cannot hold its {count} weights")));
        }
        let mut parameters = builder.build(0);
        self.checkpoint.load_parameters("", &mut parameters, Matching::Strict)?;
        self.checkpoint.expect_all_used()?;
        parameters.freeze();
        Ok((settings, network, parameters))
    }
}

/// Writes a network of some kind.
///
/// # Errors
/// If a weight is not finite or the system refuses.
pub(crate) fn save(
    path: &Path,
    kind: &str,
    settings: &impl Serialize,
    parameters: &Parameters,
) -> Result<()> {
    let file = CheckpointWriter::new().parameters("", parameters);
    Ok(file.note(kind, to_json(settings)).save(path)?)
}

/// What decides the results of a network, as text: its kind, its settings, a hash of its weights.
pub(crate) fn recipe(kind: &str, settings: &impl Serialize, parameters: &Parameters) -> String {
    let bytes: Vec<u8> = parameters.values().iter().flat_map(|x| x.to_le_bytes()).collect();
    format!("{kind} {} {}", to_json(settings), hash_bytes(&bytes))
}

/// Settings as they stand in notes.
pub(crate) fn to_json(settings: &impl Serialize) -> String {
    serde_json::to_string(settings).expect("settings are plain data")
}
