//! What a run is prepared with: noted in its checkpoints, and taken over by other runs.

use crate::artifact::artifacts_in;
use crate::{Error, Result, check_prepared};
use far_data::hash_bytes;
use far_model::EncodedDataset;
use far_tensor::{Checkpoint, CheckpointWriter};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The note of checkpoints.
const NOTE: &str = "preparation";

/// Tokenizer and encoders by the hashes of what decides their results, and how many episodes they and
/// the world model learned from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Preparation {
    /// Episodes of the training split.
    pub episodes: usize,
    tokenizer: String,
    encoders: BTreeMap<String, String>,
}

impl Preparation {
    pub fn of(data: &EncodedDataset, episodes: usize) -> Self {
        let hash = |recipe: String| hash_bytes(recipe.as_bytes())[..16].to_owned();
        let encoders = data.encoders().iter();
        let encoders = encoders.map(|encoder| (encoder.cue().to_owned(), hash(encoder.recipe())));
        let tokenizer = hash(data.tokenizer().recipe());
        Self { episodes, tokenizer, encoders: encoders.collect() }
    }

    /// Adds the note to a checkpoint.
    pub fn note<'a>(&self, writer: CheckpointWriter<'a>) -> CheckpointWriter<'a> {
        writer.note(NOTE, serde_json::to_string(self).expect("it is plain data"))
    }

    /// That of a checkpoint; `None` for one that has no such note.
    pub fn of_checkpoint(checkpoint: &Checkpoint) -> Option<Self> {
        serde_json::from_str(checkpoint.notes().get(NOTE)?).ok()
    }

    /// Refuses a checkpoint whose world model learned to read other latents, or recalled by other keys.
    pub fn check(&self, checkpoint: &Checkpoint, folder: &Path) -> Result<()> {
        let Some(trained) = Self::of_checkpoint(checkpoint) else { return Ok(()) };
        let other = |what: String| Error::OtherArtifact { folder: folder.to_path_buf(), what };
        if trained.tokenizer != self.tokenizer {
            return Err(other("tokenizer".to_owned()));
        }
        let differs = |(cue, own): &(&String, &String)| {
            trained.encoders.get(*cue).is_some_and(|trained| trained != *own)
        };
        match self.encoders.iter().find(differs) {
            Some((cue, _)) => Err(other(format!("encoder of `{cue}`"))),
            None => Ok(()),
        }
    }
}

/// Copies what another run made before its first step into a run's folder, where it has none yet or a
/// damaged one, so that it is not made again and both have the same.
///
/// # Errors
/// If there is nothing to copy, or the disk refuses.
pub fn share_preparation(from: &Path, to: &Path) -> Result<()> {
    check_prepared(from)?;
    for name in artifacts_in(from)? {
        let (source, path) = (from.join(&name), to.join(&name));
        if Checkpoint::open(&path).is_err() {
            // Whole or absent: a copy that was cut short must not be taken for an encoder.
            let partial = to.join(format!("{name}.partial"));
            std::fs::copy(&source, &partial).map_err(Error::file("copy", &source))?;
            std::fs::rename(&partial, &path).map_err(Error::file("publish", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_damaged_is_copied_and_what_is_whole_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        for run in [&from, &to] {
            std::fs::create_dir(run).unwrap();
        }
        let refused = share_preparation(&from, &to).unwrap_err();
        assert!(matches!(refused, Error::NotPrepared { .. }), "{refused}");
        let [tokenizer, encoder] = ["tokenizer.safetensors", "encoder-audio.safetensors"];
        // The smallest file of tensors: none of them, and a note.
        let file = |note: &str| {
            let header = format!("{{\"__metadata__\":{{\"note\":\"{note}\"}}}}");
            [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat()
        };
        for name in [tokenizer, encoder, "config.toml"] {
            std::fs::write(from.join(name), file("made")).unwrap();
        }
        std::fs::write(to.join(tokenizer), file("own")).unwrap();
        let read = |name: &str| std::fs::read(to.join(name)).unwrap();
        for torn in [None, Some(0), Some(4), Some(20)] {
            if let Some(length) = torn {
                std::fs::write(to.join(encoder), &file("made")[..length]).unwrap();
            }
            share_preparation(&from, &to).unwrap();
            assert!(read(tokenizer) == file("own"), "what is whole stays");
            assert!(read(encoder) == file("made"), "{torn:?}");
            assert_eq!(std::fs::read_dir(&to).unwrap().count(), 2, "nothing is left over");
        }
    }
}
