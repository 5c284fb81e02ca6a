//! A run as others read it: its configuration and its newest checkpoint, without going on with it.

use super::{CHECKPOINTS, CONFIG, ENVIRONMENT, Environment, checkpoint_name, step_of};
use crate::{Error, Result, TrainConfig};
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
    /// The newest checkpoint.
    pub checkpoint: PathBuf,
    /// Seconds of training up to it, over all sessions.
    pub seconds: f64,
}

impl SavedRun {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// If it is not the folder of a run, or the run has no checkpoint yet.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(CONFIG);
        let text = std::fs::read_to_string(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NoRun { folder: folder.to_path_buf() },
            _ => Error::file("read", &path)(source),
        })?;
        let config = TrainConfig::from_toml(&text, &path.to_string_lossy())?;
        let checkpoints = folder.join(CHECKPOINTS);
        let listed = std::fs::read_dir(&checkpoints).map_err(Error::file("list", &checkpoints))?;
        let names = listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let newest = names.filter_map(|name| step_of(&name)).max();
        let step = newest.ok_or_else(|| Error::NotSaved { folder: folder.to_path_buf() })?;
        let path = folder.join(ENVIRONMENT);
        let environment = match std::fs::read_to_string(&path) {
            Ok(text) => Environment::parse(&text, &path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Environment::default(),
            Err(error) => return Err(Error::file("read", &path)(error)),
        };
        Ok(Self {
            folder: folder.to_path_buf(),
            config,
            step,
            checkpoint: checkpoints.join(checkpoint_name(step)),
            seconds: environment.seconds(),
        })
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
        for name in ["step-000000250.safetensors", "step-000001000.safetensors", "step-9.partial"] {
            std::fs::write(folder.join(CHECKPOINTS).join(name), b"").unwrap();
        }
        let run = SavedRun::read(folder).unwrap();
        assert_eq!((run.step, run.seconds), (1000, 0.0));
        assert!(run.checkpoint.ends_with("step-000001000.safetensors"));
        assert_eq!(run.config, config);
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 2);
    }
}
