//! A file that takes long to make, with its unfinished state beside it.

use crate::commands::train::explain;
use anyhow::Context;
use far_train::FolderLock;
use std::path::{Path, PathBuf};

/// A file that is being made, over several starts of the program if need be.
pub struct Unfinished {
    out: PathBuf,
    state: PathBuf,
}

impl Unfinished {
    /// The state of `out`. Nothing is touched.
    pub fn of(out: &Path) -> Self {
        let mut name = out.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        Self { out: out.to_path_buf(), state: out.with_file_name(name) }
    }

    /// Path of the state.
    pub fn path(&self) -> &Path {
        &self.state
    }

    /// Whether the file is there and nothing is left to do.
    pub fn is_finished(&self) -> bool {
        self.out.exists() && !self.state.exists()
    }

    /// Makes this process the only one that makes the file, and discards its state if one starts afresh.
    /// Everything should be known to work before.
    ///
    /// # Errors
    /// If another process makes it, or the disk refuses.
    pub fn begin(&self, fresh: bool) -> anyhow::Result<FolderLock> {
        let lock = FolderLock::of_file(&self.out).map_err(explain)?;
        if fresh {
            self.remove()?;
        }
        Ok(lock)
    }

    /// Removes the state.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn remove(&self) -> anyhow::Result<()> {
        match std::fs::remove_file(&self.state) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.state.display()))
            }
            _ => Ok(()),
        }
    }
}
