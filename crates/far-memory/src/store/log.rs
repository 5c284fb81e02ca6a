//! The active log, to which records are appended first.

use super::disk::{Disk, DiskFile, path_of};
use super::frame::{self, Damage, Frame, LOG_HEADER, Scan};
use super::manifest::{Manifest, log_name};
use super::record_batch::decode;
use super::segment::Segment;
use crate::Error;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use bytes::Bytes;

/// What was found in a log.
pub(crate) struct LogContents {
    bytes: Bytes,
    pub scan: Scan,
    /// The records of its whole frames.
    pub segments: Vec<Segment>,
}

impl LogContents {
    /// Reads the active log of a manifest.
    ///
    /// # Errors
    /// [`Error::Disk`] if it cannot be read, [`Error::Corrupt`] for damage that is no torn tail.
    pub fn read(disk: &dyn Disk, columns: &SchemaRef, manifest: &Manifest) -> Result<Self, Error> {
        let name = log_name(manifest.log);
        let path = path_of(disk, &name);
        let bytes = disk.read(&name).map_err(Error::disk("read", &path))?;
        let scan = frame::scan(&bytes, manifest.log, manifest.sealed_records())
            .map_err(|damage| Error::corrupt(path.clone(), damage))?;
        let buffer = Buffer::from(bytes.clone());
        let segments = (scan.frames.iter().filter(|frame| frame.records > 0))
            .map(|frame| {
                let damage = |reason| Damage { offset: frame.batch.start, reason };
                segment(columns, &buffer, frame)
                    .map_err(|reason| Error::corrupt(path.clone(), damage(reason)))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { bytes, scan, segments })
    }

    /// Bytes after the last whole frame.
    pub fn torn_bytes(&self) -> u64 {
        (self.bytes.len() - self.scan.end) as u64
    }
}

fn segment(columns: &SchemaRef, log: &Buffer, frame: &Frame) -> Result<Segment, String> {
    let batch = decode(columns, &log.slice_with_length(frame.batch.start, frame.batch.len()))?;
    if batch.num_rows() != frame.records {
        return Err(format!("{} records instead of {}", batch.num_rows(), frame.records));
    }
    Segment::new(frame.first, batch)
}

/// The log that the writer appends to.
pub(crate) struct ActiveLog {
    path: String,
    number: u64,
    file: Box<dyn DiskFile>,
    end: usize,
    durable: usize,
}

impl ActiveLog {
    /// Makes an empty log for the records `first..`; its bytes are durable, its name is not yet.
    pub fn create(disk: &dyn Disk, number: u64, first: u64) -> Result<Self, Error> {
        let path = path_of(disk, &log_name(number));
        let mut file = disk.create(&log_name(number)).map_err(Error::disk("create", &path))?;
        file.write_at(0, &frame::log_header(number, first)).map_err(Error::disk("write", &path))?;
        file.sync().map_err(Error::disk("sync", &path))?;
        Ok(Self { path, number, file, end: LOG_HEADER, durable: LOG_HEADER })
    }

    /// Opens a log that was read, cuts its torn tail and makes all whole frames durable.
    ///
    /// Frames not recorded as synced are written again, in place and with the same bytes: after a
    /// failed sync, the system may still show them without ever writing them.
    pub fn recover(disk: &dyn Disk, number: u64, contents: &LogContents) -> Result<Self, Error> {
        let name = log_name(number);
        let path = path_of(disk, &name);
        let file = disk.open(&name).map_err(Error::disk("open", &path))?;
        let Scan { end, durable, .. } = contents.scan;
        let mut log = Self { path, number, file, end, durable };
        if contents.torn_bytes() > 0 {
            log.file.set_length(end as u64).map_err(Error::disk("cut", &log.path))?;
        }
        if durable < end {
            let unproven = &contents.bytes[durable..end];
            log.file.write_at(durable as u64, unproven).map_err(Error::disk("write", &log.path))?;
        }
        log.sync()?;
        Ok(log)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> usize {
        self.end
    }

    /// Writes one frame; it is durable after the next [`Self::sync`].
    pub fn append(&mut self, first: u64, records: usize, batch: &[u8]) -> Result<(), Error> {
        let header =
            frame::frame_header(self.number, self.end, self.durable, first, records, batch);
        let bytes = [&header[..], batch].concat();
        self.file.write_at(self.end as u64, &bytes).map_err(Error::disk("write", &self.path))?;
        self.end += bytes.len();
        Ok(())
    }

    /// Makes all frames durable.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.file.sync().map_err(Error::disk("sync", &self.path))?;
        self.durable = self.end;
        Ok(())
    }
}
