//! One writer per dataset: a lock on the file `lock` in its folder.

use std::io::ErrorKind;
use std::path::Path;

use far_memory::store::{Disk, LocalDisk};

use crate::{DataError, Result};

/// The file that is locked. It stays when the writer is gone, as a lock that is deleted could be held
/// twice.
const LOCK: &str = "lock";

/// Held while a process writes to a dataset; released when dropped, or when the process ends.
pub(crate) struct WriteLock {
    _held: Box<dyn Send + Sync>,
}

impl WriteLock {
    /// Takes the lock of the dataset in `folder`, which exists.
    pub fn take(folder: &Path) -> Result<Self> {
        let disk = LocalDisk::open(folder).map_err(DataError::io("open", folder))?;
        let held = disk.lock(LOCK).map_err(|source| match source.kind() {
            ErrorKind::WouldBlock => {
                DataError::Locked { path: folder.to_path_buf(), holder: source.to_string() }
            }
            _ => DataError::io("lock", &folder.join(LOCK))(source),
        })?;
        Ok(Self { _held: held })
    }
}
