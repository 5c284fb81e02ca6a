//! Sealed files: plain Arrow IPC files with one batch, written once and mapped from then on.

use super::checksum::{CHUNK, RunningChecksum};
use super::disk::{Disk, DiskFile, path_of};
use super::frame::Damage;
use super::manifest::{SealedEntry, sealed_name};
use super::record_batch::{decode, write_options};
use super::segment::Segment;
use crate::Error;
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::read_footer_length;
use arrow_ipc::root_as_footer;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{Fields, SchemaRef};
use std::io::{self, BufWriter, Write};
use std::ops::Range;

/// How much of a sealed file is checked before use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Its length and the parts that describe its layout.
    Structure,
    /// Every byte.
    Everything,
}

/// Writes a batch as the sealed file of the records `first..`, durable when this returns (its name
/// is not yet), and returns its manifest entry.
pub(crate) fn write(
    disk: &dyn Disk,
    first: u64,
    batch: &RecordBatch,
) -> Result<SealedEntry, Error> {
    let name = sealed_name(first);
    let step = |operation| Error::disk(operation, path_of(disk, &sealed_name(first)));
    let file = disk.create(&name).map_err(step("create"))?;
    let mut target = ChecksumWriter { file, checksum: RunningChecksum::default(), failure: None };
    let written = write_arrow(&batch.schema(), [Ok(batch.clone())], &mut target);
    if let Some(source) = target.failure.take() {
        return Err(step("write")(source));
    }
    written?;
    target.file.sync().map_err(step("sync"))?;
    let records = batch.num_rows() as u64;
    Ok(SealedEntry { first, records, checksum: target.checksum.finish() })
}

/// Writes batches as a plain Arrow IPC file.
pub(crate) fn write_arrow(
    columns: &SchemaRef,
    batches: impl IntoIterator<Item = Result<RecordBatch, Error>>,
    target: &mut impl Write,
) -> Result<(), Error> {
    let target = BufWriter::with_capacity(CHUNK, target);
    let mut writer = FileWriter::try_new_with_options(target, columns, write_options())?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    Ok(writer.finish()?)
}

/// Maps the sealed file of a manifest entry.
///
/// # Errors
/// [`Error::Disk`] if it cannot be read; [`Error::Corrupt`] with the offset if `check` finds that
/// it is not the file that was written.
pub(crate) fn read(
    disk: &dyn Disk,
    columns: &SchemaRef,
    entry: &SealedEntry,
    check: Check,
) -> Result<Segment, Error> {
    let name = sealed_name(entry.first);
    let path = path_of(disk, &name);
    let contents = disk.map(&name).map_err(Error::disk("map", &path))?;
    segment(columns, entry, Buffer::from(contents), check)
        .map_err(|damage| Error::corrupt(path, damage))
}

fn segment(
    columns: &SchemaRef,
    entry: &SealedEntry,
    contents: Buffer,
    check: Check,
) -> Result<Segment, Damage> {
    let damage = |offset, reason: &str| Damage { offset, reason: reason.into() };
    let length = contents.len();
    if length as u64 != entry.checksum.bytes {
        let reason = format!("{length} bytes instead of {}", entry.checksum.bytes);
        return Err(Damage { offset: length, reason });
    }
    let damaged = match check {
        Check::Everything => entry.checksum.any_damage(&contents),
        Check::Structure => {
            let tail = length.saturating_sub(CHUNK);
            let head = entry.checksum.first_damage(&contents, 0, 1);
            head.or_else(|| entry.checksum.first_damage(&contents, tail, length))
        }
    };
    if let Some(offset) = damaged {
        let end = (offset + CHUNK).min(length);
        return Err(damage(offset, &format!("the bytes up to {end} do not match their checksum")));
    }
    let message = batch_range(columns, &contents)?;
    let batch = decode(columns, &contents.slice_with_length(message.start, message.len()))
        .map_err(|reason| Damage { offset: message.start, reason })?;
    if batch.num_rows() as u64 != entry.records {
        let reason = format!("{} records instead of {}", batch.num_rows(), entry.records);
        return Err(Damage { offset: message.start, reason });
    }
    Segment::new(entry.first, batch).map_err(|reason| Damage { offset: message.start, reason })
}

/// Where the one batch of an Arrow file with these columns lies.
fn batch_range(columns: &SchemaRef, contents: &[u8]) -> Result<Range<usize>, Damage> {
    let length = contents.len();
    let damage = |reason: String| Damage { offset: length.saturating_sub(10), reason };
    let tail = contents.last_chunk::<10>().ok_or_else(|| damage("too short for Arrow".into()))?;
    let footer = read_footer_length(*tail).map_err(|error| damage(error.to_string()))?;
    let start = (length - 10).checked_sub(footer);
    let start = start.ok_or_else(|| damage(format!("a footer of {footer} bytes does not fit")))?;
    let damage = |reason: String| Damage { offset: start, reason };
    let footer =
        root_as_footer(&contents[start..length - 10]).map_err(|error| damage(error.to_string()))?;
    let found = footer.schema().ok_or_else(|| damage("the footer has no schema".into()))?;
    let found = try_fb_to_schema(found).map_err(|error| damage(error.to_string()))?;
    // Older stores say that no pose is null; whether one is stands in the batch.
    let kinds = |fields: &Fields| -> Vec<_> {
        fields.iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    if kinds(found.fields()) != kinds(columns.fields()) {
        return Err(damage("the columns are not those of the store's cues".into()));
    }
    let batches: Vec<_> = footer.recordBatches().into_iter().flatten().collect();
    let [batch] = batches[..] else {
        return Err(damage(format!("{} batches instead of one", batches.len())));
    };
    let range = || {
        let first = usize::try_from(batch.offset()).ok()?;
        let metadata = usize::try_from(batch.metaDataLength()).ok()?;
        let body = usize::try_from(batch.bodyLength()).ok()?;
        let end = first.checked_add(metadata)?.checked_add(body)?;
        // The metadata must lie in the first chunk, which is checked whenever a file is opened.
        (end <= start && first + metadata <= CHUNK).then_some(first..end)
    };
    range().ok_or_else(|| damage("the batch lies outside the file".into()))
}

/// Forwards bytes to a file and checksums them; keeps the I/O error that Arrow would turn into
/// text.
struct ChecksumWriter {
    file: Box<dyn DiskFile>,
    checksum: RunningChecksum,
    failure: Option<io::Error>,
}

impl Write for ChecksumWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.file.write_at(self.checksum.bytes(), bytes) {
            Ok(()) => {
                self.checksum.update(bytes);
                Ok(bytes.len())
            }
            Err(error) => {
                let kind = error.kind();
                self.failure = Some(error);
                Err(kind.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
