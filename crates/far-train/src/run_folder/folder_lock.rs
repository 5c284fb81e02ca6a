//! A lock on a folder that several programs may want to write to.

use super::unfinished;
use crate::{Error, Result};
use far_memory::store::{Disk, LocalDisk};
use std::io;
use std::path::Path;

/// A folder that this process alone writes to, until the lock is dropped or the process ends in any
/// way. A small file stays behind.
pub struct FolderLock {
    _held: Box<dyn Send + Sync>,
}

impl FolderLock {
    /// Takes the lock of this name in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has it, or the disk's refusal.
    pub fn take(folder: &Path, name: &str) -> Result<Self> {
        let disk = LocalDisk::create(folder).map_err(Error::file("create", folder))?;
        Ok(Self { _held: take(folder, &disk, name)? })
    }

    /// Takes the lock of one file in a folder that may hold others, `FILE.lock`, and removes copies of
    /// the file that killed writers have left unfinished.
    ///
    /// # Errors
    /// As [`FolderLock::take`].
    pub fn of_file(file: &Path) -> Result<Self> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let lock = Self::take(folder, &format!("{name}.lock"))?;
        let disk = LocalDisk::open(folder).map_err(Error::file("open", folder))?;
        unfinished::remove(folder, &disk, |found| unfinished::is_of(&name, found))?;
        Ok(lock)
    }

    /// Removes what killed writers have left unfinished in a folder that this lock is for, if there is
    /// one.
    ///
    /// # Errors
    /// The disk's refusal.
    pub fn remove_unfinished(&self, folder: &Path) -> Result<()> {
        if !folder.is_dir() {
            return Ok(());
        }
        let disk = LocalDisk::open(folder).map_err(Error::file("open", folder))?;
        unfinished::remove(folder, &disk, |_| true)
    }
}

/// Takes a lock on a disk.
pub(super) fn take(folder: &Path, disk: &dyn Disk, name: &str) -> Result<Box<dyn Send + Sync>> {
    disk.lock(name).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => {
            Error::Locked { folder: folder.to_path_buf(), holder: source.to_string() }
        }
        _ => Error::file("lock", &folder.join(name))(source),
    })
}
