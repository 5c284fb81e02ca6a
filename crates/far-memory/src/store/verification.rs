//! Checks every byte of a store and reports damage file by file.

use super::disk::Disk;
use super::folder::local;
use super::log::LogContents;
use super::manifest::{MANIFEST, log_name, sealed_name};
use super::reader::load_manifest;
use super::record_batch::arrow_schema;
use super::sealed::{self, Check};
use crate::Error;
use std::path::Path;

/// What was found in one file.
#[derive(Debug)]
pub struct FileCheck {
    /// The file's name in the folder of the store.
    pub name: String,
    /// Its length in bytes; 0 if it cannot be read.
    pub bytes: u64,
    /// Its records; 0 if it is damaged.
    pub records: u64,
    /// What is wrong with it.
    pub damage: Option<Error>,
}

/// What was found in a store.
#[derive(Debug)]
pub struct Verification {
    /// Every valid file, in the order of records, the active log last.
    pub files: Vec<FileCheck>,
    /// Bytes of an unfinished write at the end of the log. No damage: opening for writing cuts them.
    pub torn_bytes: u64,
}

impl Verification {
    /// Whether no file is damaged.
    pub fn is_sound(&self) -> bool {
        self.files.iter().all(|file| file.damage.is_none())
    }

    /// Records in files that are whole.
    pub fn records(&self) -> u64 {
        self.files.iter().map(|file| file.records).sum()
    }
}

/// Checks every byte of the store in the folder `path`, calling `progress` with the number of bytes
/// checked so far and the total.
///
/// # Errors
/// [`Error::NoStore`], or an error of the manifest, without which nothing else can be checked.
/// Damage in other files is part of the result.
pub fn verify(
    path: impl AsRef<Path>,
    progress: impl FnMut(u64, u64),
) -> Result<Verification, Error> {
    verify_disk(&local(path.as_ref())?, progress)
}

/// As [`verify`], on any disk.
pub fn verify_disk(
    disk: &dyn Disk,
    mut progress: impl FnMut(u64, u64),
) -> Result<Verification, Error> {
    let manifest = load_manifest(disk)?;
    let columns = arrow_schema(&manifest.schema()?);
    let length = |name: &str| disk.map(name).map_or(0, |contents| contents.len() as u64);
    let check = |name: String, found: Result<u64, Error>| {
        let (records, damage) = found.map_or_else(|error| (0, Some(error)), |count| (count, None));
        FileCheck { bytes: length(&name), name, records, damage }
    };
    let log = log_name(manifest.log);
    let total =
        manifest.sealed.iter().map(|entry| entry.checksum.bytes).sum::<u64>() + length(&log);
    let (mut files, mut done) = (vec![check(MANIFEST.into(), Ok(0))], 0);
    for entry in &manifest.sealed {
        let found = sealed::read(disk, &columns, entry, Check::Everything);
        files.push(check(sealed_name(entry.first), found.map(|segment| segment.rows() as u64)));
        done += entry.checksum.bytes;
        progress(done, total);
    }
    let found = LogContents::read(disk, &columns, &manifest);
    let torn_bytes = found.as_ref().map_or(0, LogContents::torn_bytes);
    files.push(check(log, found.map(|contents| contents.scan.next - manifest.sealed_records())));
    progress(total, total);
    Ok(Verification { files, torn_bytes })
}
