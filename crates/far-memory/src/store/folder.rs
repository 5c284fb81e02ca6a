//! The folder of a store: opening, locking, creating and cleaning it up.

use super::disk::{Disk, LocalDisk, path_of};
use super::frame::{Damage, LOG_HEADER};
use super::log::ActiveLog;
use super::manifest::{MANIFEST, MANIFEST_DRAFT, Manifest, is_ours, log_name, sealed_name};
use crate::{Error, Schema};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

const LOCK: &str = "lock";

/// The folder of an existing store.
pub(crate) fn local(path: &Path) -> Result<LocalDisk, Error> {
    LocalDisk::open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Error::NoStore { path: path.display().to_string() }
        }
        _ => Error::disk("open", path.display().to_string())(source),
    })
}

/// Takes the lock of the one writer.
pub(crate) fn lock(disk: &dyn Disk) -> Result<Box<dyn Send + Sync>, Error> {
    disk.lock(LOCK).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => {
            Error::Locked { store: disk.describe(), holder: source.to_string() }
        }
        _ => Error::disk("lock", path_of(disk, LOCK))(source),
    })
}

/// Creates an empty store if there is none.
pub(crate) fn create(disk: &dyn Disk, schema: &Schema) -> Result<Manifest, Error> {
    for name in disk.list().map_err(Error::disk("list", disk.describe()))? {
        // An interrupted creation leaves a log without records. Anything more was a store whose
        // manifest is lost, and creating a new one would discard its records.
        let is_data = name.ends_with(".arrow")
            || disk.read(&name).is_ok_and(|bytes| bytes.len() > LOG_HEADER);
        if is_ours(&name) && name != MANIFEST_DRAFT && is_data {
            let damage = Damage { offset: 0, reason: format!("missing, but {name} exists") };
            return Err(Error::corrupt(path_of(disk, MANIFEST), damage));
        }
    }
    let mut manifest = Manifest::new(schema)?;
    ActiveLog::create(disk, manifest.log, 0)?;
    manifest.commit(disk)?;
    Ok(manifest)
}

/// Removes files of this store that the manifest does not list: an interrupted seal left them.
pub(crate) fn remove_leftovers(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<String>, Error> {
    let mut kept: BTreeSet<String> =
        manifest.sealed.iter().map(|entry| sealed_name(entry.first)).collect();
    kept.insert(log_name(manifest.log));
    let names = disk.list().map_err(Error::disk("list", disk.describe()))?;
    let mut leftovers: Vec<String> =
        names.into_iter().filter(|name| is_ours(name) && !kept.contains(name)).collect();
    leftovers.sort();
    for name in &leftovers {
        disk.remove(name).map_err(Error::disk("remove", path_of(disk, name)))?;
    }
    Ok(leftovers)
}
