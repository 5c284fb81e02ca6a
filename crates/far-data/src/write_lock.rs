//! One writer per dataset: a lock on the file `lock` in its folder.

use std::io::ErrorKind;
use std::path::Path;

use far_memory::store::{Disk, LocalDisk};

use crate::{DataError, Result, durable};

/// The file that is locked. It stays when the writer is gone, as a lock that is deleted could be held
/// twice.
const LOCK: &str = "lock";

/// Held while a process writes to a dataset; released when dropped, or when the process ends.
pub(crate) struct WriteLock {
    _held: Box<dyn Send + Sync>,
}

impl WriteLock {
    /// Takes the lock of the dataset in `folder`, which exists, and removes what killed writers have left.
    pub fn take(folder: &Path) -> Result<Self> {
        let disk = LocalDisk::open(folder).map_err(DataError::io("open", folder))?;
        let held = disk.lock(LOCK).map_err(|source| match source.kind() {
            ErrorKind::WouldBlock => {
                DataError::Locked { path: folder.to_path_buf(), holder: source.to_string() }
            }
            _ => DataError::io("lock", &folder.join(LOCK))(source),
        })?;
        // Whoever wrote these is dead, as it would hold the lock. In the dataset's own folder there may
        // be files of somebody else.
        let ours = ["dataset.json.", "episodes.arrow."];
        durable::remove_partial(folder, |name| ours.iter().any(|own| name.starts_with(own)))?;
        durable::remove_partial(&folder.join("episodes"), |_| true)?;
        Ok(Self { _held: held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_writers_left_goes_and_what_others_keep_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("episodes")).expect("made");
        let stay = ["episodes/000000.arrow", "episodes.arrow", "encoder.safetensors.partial"];
        let go = [
            "episodes/000001.arrow.partial",
            "episodes/000001.wav.partial",
            "dataset.json.4711-0.partial",
            "episodes.arrow.partial",
        ];
        let write = |name: &&str| std::fs::write(at(name), b"x").expect("written");
        stay.iter().chain(&go).for_each(write);
        let held = WriteLock::take(folder.path()).expect("locked");
        assert!(stay.iter().all(|name| at(name).exists()));
        assert!(!go.iter().any(|name| at(name).exists()));
        // Another one is refused before it removes what this one writes.
        go.iter().for_each(write);
        assert!(matches!(WriteLock::take(folder.path()), Err(DataError::Locked { .. })));
        assert!(go.iter().all(|name| at(name).exists()));
        drop(held);
    }
}
