//! The checkpoints of a run: which there are, and how one is published or removed.

use super::unfinished::{self, PARTIAL};
use crate::{Error, Result};
use far_memory::store::Disk;
use std::path::{Path, PathBuf};

/// Their folder in a run's.
pub(super) const CHECKPOINTS: &str = "checkpoints";

pub(crate) fn checkpoint_name(step: u64) -> String {
    format!("step-{step:09}.safetensors")
}

pub(super) fn step_of(name: &str) -> Option<u64> {
    name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse().ok()
}

/// The folder of a run's checkpoints.
pub(super) struct Checkpoints {
    folder: PathBuf,
    disk: Box<dyn Disk>,
}

impl Checkpoints {
    /// Those of the run in a folder, on a disk of their own.
    pub fn of(run: &Path, disk: Box<dyn Disk>) -> Self {
        Self { folder: run.join(CHECKPOINTS), disk }
    }

    /// Steps of all checkpoints, newest first.
    pub fn steps(&self) -> Result<Vec<u64>> {
        let names = self.disk.list().map_err(Error::file("list", &self.folder))?;
        let mut steps: Vec<u64> = names.iter().filter_map(|name| step_of(name)).collect();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        Ok(steps)
    }

    /// Where the checkpoint of a step lies.
    pub fn path(&self, step: u64) -> PathBuf {
        self.folder.join(checkpoint_name(step))
    }

    /// Publishes the checkpoint of a step, which `save` writes to the path that it is given.
    pub fn publish(&self, step: u64, save: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let (name, partial) = (checkpoint_name(step), checkpoint_name(step) + PARTIAL);
        save(&self.folder.join(&partial))?;
        let path = self.path(step);
        let synced = self.disk.open(&partial).and_then(|mut file| file.sync());
        synced.map_err(Error::file("sync", &path))?;
        self.disk.rename(&partial, &name).map_err(Error::file("publish", &path))?;
        self.sync()
    }

    /// Removes the unwanted ones, newest first.
    pub fn remove(&self, is_unwanted: impl Fn(u64) -> bool) -> Result<()> {
        for step in self.steps()?.into_iter().filter(|step| is_unwanted(*step)) {
            let removed = self.disk.remove(&checkpoint_name(step));
            removed.map_err(Error::file("remove", &self.path(step)))?;
        }
        Ok(())
    }

    /// Removes what a kill left half written.
    pub fn remove_unfinished(&self) -> Result<()> {
        unfinished::remove(&self.folder, &*self.disk, |_| true)
    }

    /// Makes sure that what was published or removed is so on the disk.
    pub fn sync(&self) -> Result<()> {
        self.disk.sync_directory().map_err(Error::file("sync", &self.folder))
    }
}
