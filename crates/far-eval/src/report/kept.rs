//! What is kept for the report: one JSON file each in a folder of the run.

use super::run_file;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// A file that an evaluation keeps for the report, before it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    /// The folder in that of the run.
    pub folder: String,
    /// Its name there.
    pub name: String,
    /// What it holds.
    pub text: String,
}

impl KeptFile {
    /// The file of something that is kept.
    pub fn of<K: Kept>(kept: &K) -> Self {
        Self {
            folder: K::FOLDER.to_owned(),
            name: format!("{}{:06}.json", K::PREFIX, kept.number()),
            text: kept.to_json(),
        }
    }

    /// Writes it into its folder below a run's and says where.
    ///
    /// # Errors
    /// If the folder or the file cannot be written.
    pub fn write(&self, run: &Path) -> Result<PathBuf> {
        let folder = run.join(&self.folder);
        std::fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        let path = folder.join(&self.name);
        run_file::write(&path, &self.text)?;
        Ok(path)
    }
}

/// Something of an evaluation that a run's folder keeps, one file each, and that reports show.
pub trait Kept: Sized {
    /// The folder in that of the run.
    const FOLDER: &'static str;
    /// What the names of the files begin with.
    const PREFIX: &'static str;

    /// The episode that the file is called by.
    fn number(&self) -> u32;

    /// The text of the file.
    fn to_json(&self) -> String;

    /// Understands the text of a file.
    ///
    /// # Errors
    /// Why it is none: not JSON, another version, a picture that does not decode, or parts that do not
    /// fit together.
    fn from_json(bytes: &[u8]) -> std::result::Result<Self, String>;

    /// Writes the file into its folder below a run's and says where.
    ///
    /// # Errors
    /// If the folder or the file cannot be written.
    fn write(&self, run: &Path) -> Result<PathBuf> {
        KeptFile::of(self).write(run)
    }

    /// All of a run's folder, by the names of their files; none if there are none.
    ///
    /// # Errors
    /// If a file cannot be read or understood.
    fn read_all(run: &Path) -> Result<Vec<Self>> {
        let is_own = |name: &str| name.starts_with(Self::PREFIX) && name.ends_with(".json");
        let paths = run_file::list(&run.join(Self::FOLDER), is_own)?;
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// Reads one file.
    ///
    /// # Errors
    /// If it cannot be read or understood.
    fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
        Self::from_json(&bytes).map_err(|reason| Error::malformed(path, reason))
    }
}
