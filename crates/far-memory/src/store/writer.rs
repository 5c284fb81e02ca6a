//! The writer of a store.

use super::disk::{Disk, LocalDisk, path_of};
use super::folder::{create, local, lock, remove_leftovers};
use super::frame::LOG_HEADER;
use super::log::{ActiveLog, LogContents};
use super::manifest::{MANIFEST, Manifest, describe, log_name};
use super::reader::load_manifest;
use super::record_batch::{arrow_schema, encode, record_batch};
use super::sealed::{self, Check};
use super::segment;
use crate::{BLOCK_RECORDS, Error, Memory, MemoryId, MemoryReader, Observation, Schema, Snapshot};
use arrow_schema::SchemaRef;
use std::path::Path;
use std::sync::Arc;

/// The longest payload of one record, in bytes. Store larger ones elsewhere, by reference.
pub const MAX_PAYLOAD: usize = 256 << 20;

crate::settings! {
    /// How a store writes. The defaults suit most uses; smaller numbers bound the work of opening
    /// after a crash.
    #[derive(Copy, Eq)]
    pub struct StoreOptions {
        /// Records in the log before it is sealed, at most a block (65,536, the default).
        pub seal_records: usize = BLOCK_RECORDS,
        /// Bytes in the log before it is sealed; 256 MiB, so that large payloads do not pile up.
        pub seal_bytes: usize = 256 << 20,
        /// Bytes of appended records buffered before they are written together; 4 MiB.
        /// [`Store::sync`] writes them at once.
        pub frame_bytes: usize = 4 << 20,
        /// Whether opening checks every byte of every sealed file instead of only its layout.
        /// Default: false, because it reads the whole store.
        pub check_everything: bool = false,
    }
}

/// What opening a store found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records found, all of them durable.
    pub records: u64,
    /// Bytes of an unfinished write at the end of the log that were cut.
    pub torn_bytes: u64,
    /// Files no longer in use that were removed.
    pub removed: Vec<String>,
}

/// A memory on disk, opened for writing. There can be one writer at a time.
///
/// Records are readable through [`Self::snapshot`] at once and durable after [`Self::sync`]. After
/// a failed write or sync the state of the last bytes is unknown, so the store stops
/// ([`Error::Stopped`]); opening it again recovers everything that was synced. Dropping a store
/// syncs it but cannot report a failure: [`Self::close`] can.
pub struct Store {
    disk: Arc<dyn Disk>,
    options: StoreOptions,
    columns: SchemaRef,
    manifest: Manifest,
    log: ActiveLog,
    memory: Memory,
    /// Records in sealed files and in the log.
    written: usize,
    /// Durable records.
    durable: usize,
    /// Approximate size in bytes of the appended records that are not written yet.
    pending_bytes: usize,
    stopped: Option<String>,
    recovery: Recovery,
    _lock: Box<dyn Send + Sync>,
}

impl Store {
    /// Opens the store in the folder `path`, or creates one with these cues if there is none.
    ///
    /// # Errors
    /// [`Error::StoreSchema`] if the store has other cues; otherwise as for [`Self::open`].
    pub fn open_or_create(path: impl AsRef<Path>, schema: &Schema) -> Result<Self, Error> {
        let path = path.as_ref();
        let disk =
            LocalDisk::create(path).map_err(Error::disk("create", path.display().to_string()))?;
        Self::open_or_create_on(Arc::new(disk), schema, StoreOptions::default())
    }

    /// Opens the store in the folder `path`.
    ///
    /// # Errors
    /// [`Error::NoStore`] if there is none, [`Error::Locked`] if it is open for writing elsewhere,
    /// [`Error::Corrupt`] for damage, [`Error::StoreVersion`] if another version wrote it,
    /// [`Error::Disk`] if a disk operation fails.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_on(Arc::new(local(path.as_ref())?), StoreOptions::default())
    }

    /// As [`Self::open_or_create`], on any disk and with these options.
    pub fn open_or_create_on(
        disk: Arc<dyn Disk>,
        schema: &Schema,
        options: StoreOptions,
    ) -> Result<Self, Error> {
        let lock = lock(&*disk)?;
        let manifest = match Manifest::load(&*disk)? {
            Some(manifest) => manifest,
            None => create(&*disk, schema)?,
        };
        let found = manifest.schema()?;
        if found != *schema {
            return Err(Error::StoreSchema {
                store: disk.describe(),
                found: describe(&found),
                expected: describe(schema),
            });
        }
        Self::recover(disk, lock, manifest, options)
    }

    /// As [`Self::open`], on any disk and with these options.
    pub fn open_on(disk: Arc<dyn Disk>, options: StoreOptions) -> Result<Self, Error> {
        let lock = lock(&*disk)?;
        let manifest = load_manifest(&*disk)?;
        Self::recover(disk, lock, manifest, options)
    }

    /// Writes the records of a snapshot to a new store in the folder `path`, all of them safe when this
    /// returns. [`StoreReader::snapshot`](super::StoreReader::snapshot) reads them back, bit for bit.
    ///
    /// # Errors
    /// [`Error::StoreExists`] if there is a store already, [`Error::Disk`] if the system refuses.
    pub fn save(snapshot: &Snapshot, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let disk =
            LocalDisk::create(path).map_err(Error::disk("create", path.display().to_string()))?;
        if Manifest::load(&disk)?.is_some() {
            return Err(Error::StoreExists { path: disk.describe() });
        }
        let (disk, options) = (Arc::new(disk), StoreOptions::default());
        let mut store = Self::open_or_create_on(disk, snapshot.schema(), options)?;
        while store.len() < snapshot.len() {
            store.memory = snapshot.first(store.len() + BLOCK_RECORDS).fork();
            store.or_stop(Self::seal)?;
        }
        store.close()
    }

    fn recover(
        disk: Arc<dyn Disk>,
        lock: Box<dyn Send + Sync>,
        manifest: Manifest,
        options: StoreOptions,
    ) -> Result<Self, Error> {
        let schema = manifest.schema()?;
        let columns = arrow_schema(&schema);
        let check = if options.check_everything { Check::Everything } else { Check::Structure };
        let mut segments = (manifest.sealed.iter())
            .map(|entry| sealed::read(&*disk, &columns, entry, check))
            .collect::<Result<Vec<_>, _>>()?;
        let contents = LogContents::read(&*disk, &columns, &manifest)?;
        segments.extend(contents.segments.iter().cloned());
        let blocks = segment::blocks(&schema, &segments)?;
        let memory = Memory::from_blocks(schema, blocks)?;
        let log = ActiveLog::recover(&*disk, manifest.log, &contents)?;
        // A power cut could still undo the rename of the manifest that was just read, and the files
        // it replaced would be valid again: make it durable before removing any.
        let manifest_path = path_of(&*disk, MANIFEST);
        disk.sync_directory().map_err(Error::disk("sync the folder of", manifest_path))?;
        let removed = remove_leftovers(&*disk, &manifest)?;
        let recovery =
            Recovery { records: memory.len() as u64, torn_bytes: contents.torn_bytes(), removed };
        let length = memory.len();
        Ok(Self {
            disk,
            options,
            columns,
            manifest,
            log,
            memory,
            written: length,
            durable: length,
            pending_bytes: 0,
            stopped: None,
            recovery,
            _lock: lock,
        })
    }

    /// What opening found: records, and bytes of a torn tail that were cut.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The cues.
    pub fn schema(&self) -> &Schema {
        self.memory.schema()
    }

    /// How many records there are, durable or not.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// How many records are durable: all with a smaller id survive a kill and a power cut.
    pub fn durable(&self) -> usize {
        self.durable
    }

    /// All records appended so far.
    pub fn snapshot(&self) -> Snapshot {
        self.memory.snapshot()
    }

    /// A handle from which other threads take snapshots while this one appends.
    pub fn reader(&self) -> MemoryReader {
        self.memory.reader()
    }

    /// Appends one observation. It is readable at once and durable after [`Self::sync`].
    ///
    /// When the log is full, this call seals it, which writes the log's records once more and takes
    /// as long as writing and syncing that many bytes does.
    ///
    /// # Errors
    /// As for [`Memory::append`], and [`Error::Observation`] for a payload above [`MAX_PAYLOAD`]:
    /// nothing is stored. [`Error::Disk`] when the disk fails: the store stops. [`Error::Stopped`]
    /// when it had stopped.
    pub fn append(&mut self, observation: &Observation<'_>) -> Result<MemoryId, Error> {
        self.check_running()?;
        let payload = observation.payload.len();
        if payload > MAX_PAYLOAD {
            return Err(Error::Observation {
                time: observation.time,
                reason: format!("its payload of {payload} bytes exceeds {MAX_PAYLOAD}"),
            });
        }
        let id = self.memory.append(observation)?;
        let keys =
            self.schema().keys().map(|(_, _, dimension, precision)| dimension * precision.bytes());
        self.pending_bytes += keys.sum::<usize>() + payload + size_of::<Observation<'_>>();
        let sealed = self.manifest.sealed_records() as usize;
        let full = self.memory.len() - sealed >= self.options.seal_records
            || self.memory.len().is_multiple_of(BLOCK_RECORDS)
            || self.log.bytes() + self.pending_bytes >= self.options.seal_bytes;
        if full {
            self.or_stop(Self::seal)?;
        } else if self.pending_bytes >= self.options.frame_bytes {
            self.or_stop(Self::write_pending)?;
        }
        Ok(id)
    }

    /// Makes every record appended so far durable and returns how many there are.
    ///
    /// # Errors
    /// [`Error::Disk`] if the disk fails. The store then stops, because a second try could succeed
    /// without having written anything: open it again to continue after the durable records.
    pub fn sync(&mut self) -> Result<usize, Error> {
        self.check_running()?;
        if self.durable < self.memory.len() {
            self.or_stop(|store| {
                store.write_pending()?;
                store.log.sync()?;
                store.durable = store.memory.len();
                Ok(())
            })?;
        }
        Ok(self.durable)
    }

    /// Syncs and closes the store, leaving a mark that distinguishes later damage to the log's end
    /// from an unfinished write.
    ///
    /// # Errors
    /// As for [`Self::sync`].
    pub fn close(mut self) -> Result<(), Error> {
        self.sync()?;
        if self.log.bytes() > LOG_HEADER {
            self.or_stop(|store| {
                store.log.append(store.memory.len() as u64, 0, &[])?;
                store.log.sync()
            })?;
        }
        Ok(())
    }

    /// Writes the records that are only in memory to the log, as one frame.
    fn write_pending(&mut self) -> Result<(), Error> {
        let rows = self.written..self.memory.len();
        if !rows.is_empty() {
            let batch = record_batch(&self.memory.snapshot(), &self.columns, rows.clone())?;
            self.log.append(rows.start as u64, rows.len(), &encode(&batch)?)?;
            self.written = rows.end;
        }
        self.pending_bytes = 0;
        Ok(())
    }

    /// Moves the records of the log into a sealed file and starts the next log.
    fn seal(&mut self) -> Result<(), Error> {
        let first = self.manifest.sealed_records();
        let rows = first as usize..self.memory.len();
        let batch = record_batch(&self.memory.snapshot(), &self.columns, rows.clone())?;
        let entry = sealed::write(&*self.disk, first, &batch)?;
        drop(batch);
        let old = self.manifest.log;
        self.log = ActiveLog::create(&*self.disk, old + 1, rows.end as u64)?;
        self.manifest.sealed.push(entry);
        self.manifest.log = old + 1;
        self.manifest.commit(&*self.disk)?;
        (self.written, self.durable, self.pending_bytes) = (rows.end, rows.end, 0);
        let name = log_name(old);
        let failed = Error::disk("remove", path_of(&*self.disk, &name));
        self.disk.remove(&name).map_err(failed)?;
        self.lend()
    }

    /// Moves the records that were just sealed from RAM to their mapped files: all of a complete
    /// block; otherwise only payloads, and only if they are large, because the rest of the block is
    /// copied for it.
    fn lend(&mut self) -> Result<(), Error> {
        let sealed = self.memory.len();
        let number = (sealed - 1) / BLOCK_RECORDS;
        let complete = sealed.is_multiple_of(BLOCK_RECORDS);
        let last = self.manifest.sealed.last().map_or(0, |entry| entry.checksum.bytes);
        if !complete && last < self.options.seal_bytes as u64 / 2 {
            return Ok(());
        }
        let entries = self.manifest.sealed.iter().rev();
        let mut segments = entries
            .take_while(|entry| entry.first as usize >= number * BLOCK_RECORDS)
            .map(|entry| sealed::read(&*self.disk, &self.columns, entry, Check::Structure))
            .collect::<Result<Vec<_>, _>>()?;
        segments.reverse();
        if complete {
            let block = segment::block(self.memory.schema(), &segments)?;
            return self.memory.replace_block(number, block);
        }
        if let Some(payloads) = segment::payloads(&segments) {
            self.memory.lend_payloads(payloads, sealed - number * BLOCK_RECORDS);
        }
        Ok(())
    }

    fn check_running(&self) -> Result<(), Error> {
        match &self.stopped {
            None => Ok(()),
            Some(cause) => Err(Error::Stopped {
                store: self.disk.describe(),
                durable: self.durable as u64,
                cause: cause.clone(),
            }),
        }
    }

    /// Runs a step after whose failure the state of the disk is unknown.
    fn or_stop(&mut self, step: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        step(self).inspect_err(|error| self.stopped = Some(error.to_string()))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // A caller that needs the result calls `close` or `sync`.
        let _ = self.sync();
    }
}
