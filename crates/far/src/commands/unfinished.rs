//! A file that takes long to make, with its unfinished state beside it.

use crate::hint::Hint;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// The state of a file that is being made.
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// The state of `out`: discarded if one starts afresh; otherwise, where there is none, `out` must not
    /// be there yet.
    ///
    /// # Errors
    /// If `out` is there already, or the disk refuses.
    pub fn begin(out: &Path, fresh: bool) -> anyhow::Result<Self> {
        let mut name = out.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let state = Self(out.with_file_name(name));
        if fresh {
            state.remove()?;
        } else if out.exists() && !state.0.exists() {
            return Err(Hint::error(
                format!("{} already exists", out.display()),
                "give another --out, or --fresh to train it again",
            ));
        }
        Ok(state)
    }

    /// Path of the state.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Removes the state.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn remove(&self) -> anyhow::Result<()> {
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.0.display()))
            }
            _ => Ok(()),
        }
    }
}
