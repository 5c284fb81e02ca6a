//! A run as others read it: its configuration and its newest checkpoint, without going on with it.

use super::checkpoints::{CHECKPOINTS, checkpoint_name, step_of};
use super::{CONFIG, ENVIRONMENT, Environment};
use crate::artifact::{TOKENIZER, artifacts_in};
use crate::{Error, Result, TrainConfig};
use far_tensor::Checkpoint;
use std::io;
use std::path::{Path, PathBuf};

/// A run that made at least one checkpoint. Reading it changes nothing, so it may still be training.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedRun {
    /// Its folder.
    pub folder: PathBuf,
    /// Its configuration.
    pub config: TrainConfig,
    /// Steps made at the newest checkpoint.
    pub step: u64,
    /// The newest checkpoint that is whole.
    pub checkpoint: PathBuf,
    /// What was wrong with newer ones.
    pub refused: Vec<String>,
    /// Seconds of training up to it, over all sessions.
    pub seconds: f64,
}

impl SavedRun {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// If it is not the folder of a run, or the run has no checkpoint that is whole.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(CONFIG);
        let text = std::fs::read_to_string(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NoRun { folder: folder.to_path_buf() },
            _ => Error::file("read", &path)(source),
        })?;
        let config = TrainConfig::from_toml(&text, &path.to_string_lossy())?;
        let Some(found) = newest_checkpoint(folder)? else {
            return Err(Error::NotSaved { folder: folder.to_path_buf() });
        };
        let text = std::fs::read_to_string(folder.join(ENVIRONMENT)).unwrap_or_default();
        let seconds = Environment::parse(&text).seconds();
        let Newest { step, path: checkpoint, refused, .. } = found;
        let folder = folder.to_path_buf();
        Ok(Self { folder, config, step, checkpoint, refused, seconds })
    }

    /// Whether what was made before its first step is there and whole.
    pub fn is_prepared(&self) -> bool {
        let Ok(names) = artifacts_in(&self.folder) else { return false };
        let fitted =
            !self.config.tokenizer.is_fitted() || names.iter().any(|name| name == TOKENIZER);
        fitted && names.iter().all(|name| Checkpoint::open(&self.folder.join(name)).is_ok())
    }
}

/// The newest checkpoint of a run that is whole.
pub(crate) struct Newest {
    pub step: u64,
    pub path: PathBuf,
    pub checkpoint: Checkpoint,
    /// What was wrong with newer ones.
    pub refused: Vec<String>,
}

/// Opens the newest checkpoint in a run's folder that is whole; `None` if there is none at all.
///
/// # Errors
/// If there are checkpoints and none of them is whole.
pub(crate) fn newest_checkpoint(folder: &Path) -> Result<Option<Newest>> {
    let folder = folder.join(CHECKPOINTS);
    let listed = match std::fs::read_dir(&folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("list", &folder)(error)),
    };
    let names = listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut steps: Vec<u64> = names.filter_map(|name| step_of(&name)).collect();
    steps.sort_unstable_by(|a, b| b.cmp(a));
    let mut refused = Vec::new();
    for step in steps {
        let path = folder.join(checkpoint_name(step));
        match Checkpoint::open(&path) {
            Ok(checkpoint) => {
                let refused = refused.iter().map(far_tensor::Error::to_string).collect();
                return Ok(Some(Newest { step, path, checkpoint, refused }));
            }
            // Training removes old checkpoints while others look.
            Err(far_tensor::Error::File { source, .. })
                if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => refused.push(error),
        }
    }
    match refused.into_iter().next() {
        None => Ok(None),
        Some(first) => Err(Error::NoCheckpoint { folder, source: Box::new(first.into()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_checkpoint_is_found_and_nothing_changes() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(matches!(SavedRun::read(folder), Err(Error::NoRun { .. })));
        let config = TrainConfig::default();
        std::fs::write(folder.join(CONFIG), config.to_commented_toml()).unwrap();
        std::fs::create_dir(folder.join(CHECKPOINTS)).unwrap();
        assert!(matches!(SavedRun::read(folder), Err(Error::NotSaved { .. })));
        let place = |step| folder.join(CHECKPOINTS).join(checkpoint_name(step));
        let save = |step: u64| {
            let writer = far_tensor::CheckpointWriter::new().note("step", step.to_string());
            writer.save(&place(step)).unwrap();
        };
        [250, 1000].into_iter().for_each(save);
        std::fs::write(folder.join(CHECKPOINTS).join("step-9.partial"), b"").unwrap();
        // A log that is damaged says nothing, and stops nobody.
        std::fs::write(folder.join(ENVIRONMENT), b"{\"sess").unwrap();
        let run = SavedRun::read(folder).unwrap();
        assert_eq!((run.step, run.seconds, run.refused.len()), (1000, 0.0, 0));
        assert!(run.checkpoint.ends_with("step-000001000.safetensors"));
        assert_eq!(run.config, config);
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 3);

        let mut bytes = std::fs::read(place(1000)).unwrap();
        let noted = bytes.windows(4).position(|window| window == b"1000").unwrap();
        bytes[noted] ^= 1;
        std::fs::write(place(1000), &bytes).unwrap();
        let run = SavedRun::read(folder).unwrap();
        assert_eq!((run.step, run.refused.len()), (250, 1));
        std::fs::write(place(250), b"").unwrap();
        assert!(matches!(SavedRun::read(folder), Err(Error::NoCheckpoint { .. })));
    }
}
