//! Readers of a store: consistent snapshots during writing, also from other processes.

use super::disk::Disk;
use super::folder::local;
use super::log::LogContents;
use super::manifest::{Manifest, SealedEntry};
use super::record_batch::arrow_schema;
use super::sealed::{self, Check};
use super::segment::{self, Segment};
use crate::{Error, Memory, Schema, Snapshot};
use arrow_schema::SchemaRef;
use std::path::Path;
use std::sync::Arc;

/// How often a reader retries when the writer replaces files under it.
const ATTEMPTS: usize = 16;

/// A store opened for reading. It takes no lock and changes nothing.
pub struct StoreReader {
    disk: Arc<dyn Disk>,
    schema: Schema,
    columns: SchemaRef,
    /// Sealed files that are mapped already; they never change.
    sealed: Vec<(SealedEntry, Segment)>,
}

/// What a store consists of at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// Records in sealed files.
    pub sealed_records: u64,
    /// Sealed files.
    pub sealed_files: usize,
    /// Bytes of the sealed files.
    pub sealed_bytes: u64,
    /// Records in the active log.
    pub log_records: u64,
    /// Bytes of the active log up to the end of its last whole frame.
    pub log_bytes: u64,
    /// Bytes after it: an unfinished write of a running or an interrupted writer.
    pub torn_bytes: u64,
}

impl StoreReader {
    /// Opens the store in the folder `path` for reading.
    ///
    /// # Errors
    /// [`Error::NoStore`], [`Error::Corrupt`] (in the manifest), [`Error::StoreVersion`] or
    /// [`Error::Disk`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_on(Arc::new(local(path.as_ref())?))
    }

    /// As [`Self::open`], on any disk.
    pub fn open_on(disk: Arc<dyn Disk>) -> Result<Self, Error> {
        let schema = load_manifest(&*disk)?.schema()?;
        let columns = arrow_schema(&schema);
        Ok(Self { disk, schema, columns, sealed: Vec::new() })
    }

    /// The cues.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The records that are in the files now, including written ones that are not synced yet.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Disk`].
    pub fn snapshot(&mut self) -> Result<Snapshot, Error> {
        Ok(self.look()?.0)
    }

    /// The records that are in the files now, and the status of the store.
    ///
    /// # Errors
    /// As for [`Self::snapshot`].
    pub fn look(&mut self) -> Result<(Snapshot, StoreStatus), Error> {
        let mut manifest = load_manifest(&*self.disk)?;
        for _ in 1..ATTEMPTS {
            let looked = self.look_at(&manifest);
            if looked.is_ok() {
                return looked;
            }
            // The writer may have sealed and removed the log between the reads.
            let now = load_manifest(&*self.disk)?;
            if now.generation == manifest.generation {
                return looked;
            }
            manifest = now;
        }
        self.look_at(&manifest)
    }

    fn look_at(&mut self, manifest: &Manifest) -> Result<(Snapshot, StoreStatus), Error> {
        let known = self.sealed.iter().zip(&manifest.sealed);
        let known = known.take_while(|((known, _), entry)| known == *entry).count();
        self.sealed.truncate(known);
        for entry in &manifest.sealed[known..] {
            let segment = sealed::read(&*self.disk, &self.columns, entry, Check::Structure)?;
            self.sealed.push((entry.clone(), segment));
        }
        let log = LogContents::read(&*self.disk, &self.columns, manifest)?;
        let sealed = self.sealed.iter().map(|(_, segment)| segment);
        let segments: Vec<_> = sealed.chain(&log.segments).cloned().collect();
        let blocks = segment::blocks(&self.schema, &segments)?;
        let snapshot = Memory::from_blocks(self.schema.clone(), blocks)?.snapshot();
        let status = StoreStatus {
            sealed_records: manifest.sealed_records(),
            sealed_files: manifest.sealed.len(),
            sealed_bytes: manifest.sealed.iter().map(|entry| entry.checksum.bytes).sum(),
            log_records: log.scan.next - manifest.sealed_records(),
            log_bytes: log.scan.end as u64,
            torn_bytes: log.torn_bytes(),
        };
        Ok((snapshot, status))
    }
}

/// The manifest of a store that must be there.
pub(super) fn load_manifest(disk: &dyn Disk) -> Result<Manifest, Error> {
    Manifest::load(disk)?.ok_or_else(|| Error::NoStore { path: disk.describe() })
}
