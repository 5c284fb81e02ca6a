//! Arrow IPC files, mapped, checked against the columns they should have, and written durably.
//!
//! Arrow's own decoder validates offsets, lengths and text, but slices the file by numbers from its
//! footer and message headers without asking; those are checked here first, so that a damaged or
//! hostile file is an error and never a panic.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::writer::FileWriter;
use arrow_ipc::{Block, root_as_footer};
use arrow_schema::{DataType, Fields, Schema, SchemaRef};

use crate::large_column::{self, narrow_type};
use crate::{DataError, Result};

/// Key under which a writer may leave a note in the file's schema.
pub(crate) const NOTE_KEY: &str = "far";

/// Bytes of a file's end: footer length and magic.
const TRAILER: usize = 10;

/// A decoded file whose columns still point into the mapped bytes.
pub(crate) struct ArrowFile {
    /// Batches that hold the known columns, in the order of the expected fields.
    pub batches: Vec<RecordBatch>,
    /// The note its writer left, if any.
    pub note: Option<String>,
    /// Names of columns that the format does not know; they are ignored.
    pub unknown: Vec<String>,
    /// All columns of the file.
    pub schema: SchemaRef,
    /// The whole file, for columns that are read when asked for.
    pub bytes: Buffer,
}

impl ArrowFile {
    /// Maps and decodes the file at `path`. Columns in `expected` must be there with that type,
    /// except those in `optional`, which may be absent; a column that is not nullable has no nulls.
    pub fn open(
        path: &Path,
        what: &'static str,
        expected: &Fields,
        optional: &[&str],
    ) -> Result<Self> {
        Self::decode(map(path, what)?, path, expected, optional)
    }

    /// Decodes the bytes of a file; `path` is named in errors.
    pub fn decode(data: Buffer, path: &Path, expected: &Fields, optional: &[&str]) -> Result<Self> {
        let corrupt = |reason: String| DataError::corrupt(path, reason);
        let Some(end) = data.len().checked_sub(TRAILER) else {
            return Err(corrupt(format!("{} bytes are too few for an Arrow file", data.len())));
        };
        let trailer: [u8; TRAILER] = data[end..].try_into().expect("ten bytes");
        let length = read_footer_length(trailer)
            .map_err(|_| corrupt("it does not end as an Arrow IPC file: cut short?".into()))?;
        let start = end
            .checked_sub(length)
            .ok_or_else(|| corrupt(format!("the footer would be {length} bytes long")))?;
        let footer = root_as_footer(&data[start..end])
            .map_err(|error| corrupt(format!("unreadable footer: {error}")))?;
        let schema = footer.schema().ok_or_else(|| corrupt("the footer has no schema".into()))?;
        let schema = try_fb_to_schema(schema).map_err(|error| corrupt(error.to_string()))?;
        let projection = project(&schema, path, expected, optional)?;
        let unknown = (0..schema.fields().len())
            .filter(|index| !projection.contains(index))
            .map(|index| schema.field(index).name().clone())
            .collect();
        let note = schema.metadata().get(NOTE_KEY).cloned();
        let mut units = Vec::new();
        for field in schema.fields() {
            buffer_units(field.data_type(), &mut units).ok_or_else(|| {
                let (name, kind) = (field.name(), type_name(field.data_type()));
                unsupported(path, format!("column `{name}` of type {kind}"))
            })?;
        }
        let schema = Arc::new(schema);
        let decoder =
            FileDecoder::new(schema.clone(), footer.version()).with_projection(projection);
        let mut batches = Vec::new();
        for block in footer.recordBatches().into_iter().flatten() {
            let message = match checked_block(block, &data, start, &units) {
                Ok(message) => message,
                Err(Refusal::Damage(reason)) => return Err(corrupt(reason)),
                Err(Refusal::Compression) => return Err(unsupported(path, "compression".into())),
            };
            let batch = decoder
                .read_record_batch(block, &message)
                .map_err(|error| corrupt(error.to_string()))?
                .ok_or_else(|| corrupt("a batch without a header".into()))?;
            let batch = large_column::narrow(batch).map_err(|what| unsupported(path, what))?;
            refuse_nulls(&batch, path, expected)?;
            batches.push(batch);
        }
        Ok(Self { batches, note, unknown, schema, bytes: data })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// Maps a file read-only.
fn map(path: &Path, what: &'static str) -> Result<Buffer> {
    let file = File::open(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => DataError::Missing { what, path: path.to_path_buf() },
        _ => DataError::Io { operation: "open", path: path.to_path_buf(), source },
    })?;
    let metadata = file.metadata().map_err(DataError::io("read", path))?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Err(DataError::corrupt(path, "it is empty or not a file"));
    }
    // SAFETY: the format's files are written under another name and renamed when complete, never
    // changed in place; the mapping is read-only and lives as long as the buffers that use it.
    let mapped = unsafe { memmap2::Mmap::map(&file) }.map_err(DataError::io("map", path))?;
    Ok(Buffer::from(bytes::Bytes::from_owner(mapped)))
}

/// Positions in the file of the expected columns, with their types checked.
fn project(
    schema: &Schema,
    path: &Path,
    expected: &Fields,
    optional: &[&str],
) -> Result<Vec<usize>> {
    let mut projection = Vec::new();
    for field in expected {
        let wrong = |found: String| DataError::Column {
            path: path.to_path_buf(),
            column: field.name().clone(),
            expected: type_name(field.data_type()),
            found,
        };
        let mut places =
            (0..schema.fields().len()).filter(|&index| schema.field(index).name() == field.name());
        match (places.next(), places.next()) {
            (Some(_), Some(_)) => return Err(wrong("two columns of that name".into())),
            (Some(index), None) => {
                let found = schema.field(index).data_type();
                if !same_type(&narrow_type(found), field.data_type()) {
                    return Err(wrong(type_name(found)));
                }
                projection.push(index);
            }
            (None, _) if optional.contains(&field.name().as_str()) => {}
            (None, _) => return Err(wrong("no such column".into())),
        }
    }
    Ok(projection)
}

/// Equality of types up to the names and nullability of list items, which writers choose freely.
fn same_type(found: &DataType, wanted: &DataType) -> bool {
    match (found, wanted) {
        (DataType::List(a), DataType::List(b)) => same_type(a.data_type(), b.data_type()),
        (DataType::FixedSizeList(a, n), DataType::FixedSizeList(b, m)) => {
            n == m && same_type(a.data_type(), b.data_type())
        }
        _ => found == wanted,
    }
}

/// A type as docs/dataset.md writes it.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::List(item) => format!("list<{}>", type_name(item.data_type())),
        DataType::FixedSizeList(item, size) => {
            format!("fixed_size_list<{}, {size}>", type_name(item.data_type()))
        }
        DataType::Utf8 => "string".into(),
        other => other.to_string().to_lowercase(),
    }
}

/// Adds what the length of each buffer of a column must be a multiple of: the size of an offset,
/// or 1. `None` for types whose buffers do not follow from the type alone.
fn buffer_units(data_type: &DataType, units: &mut Vec<usize>) -> Option<()> {
    match data_type {
        DataType::Utf8 | DataType::Binary => units.extend([1, 4, 1]),
        DataType::LargeUtf8 | DataType::LargeBinary => units.extend([1, 8, 1]),
        DataType::List(item) => {
            units.extend([1, 4]);
            buffer_units(item.data_type(), units)?;
        }
        DataType::LargeList(item) => {
            units.extend([1, 8]);
            buffer_units(item.data_type(), units)?;
        }
        DataType::FixedSizeList(item, _) => {
            units.push(1);
            buffer_units(item.data_type(), units)?;
        }
        DataType::Struct(fields) => {
            units.push(1);
            fields.iter().try_for_each(|field| buffer_units(field.data_type(), units))?;
        }
        DataType::Boolean | DataType::FixedSizeBinary(_) => units.extend([1, 1]),
        DataType::Null => {}
        other if other.is_primitive() => units.extend([1, 1]),
        _ => return None,
    }
    Some(())
}

/// Why a block is not read.
enum Refusal {
    Damage(String),
    Compression,
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(reason: T) -> Self {
        Self::Damage(reason.into())
    }
}

fn unsupported(path: &Path, what: String) -> DataError {
    DataError::Unsupported { path: path.to_path_buf(), what }
}

/// The bytes of one message with its body, after checking every number the decoder slices by.
fn checked_block(
    block: &Block,
    data: &Buffer,
    limit: usize,
    units: &[usize],
) -> std::result::Result<Buffer, Refusal> {
    let place = || {
        let offset = usize::try_from(block.offset()).ok()?;
        let metadata = usize::try_from(block.metaDataLength()).ok()?;
        let body = usize::try_from(block.bodyLength()).ok()?;
        let length = metadata.checked_add(body)?;
        (offset.checked_add(length)? <= limit).then_some((offset, metadata, body, length))
    };
    let (offset, metadata, body, length) =
        place().ok_or("a batch reaches beyond the end of the file: cut short?")?;
    // A message starts with its length, or with a continuation mark and then its length.
    if metadata < 8 {
        return Err("a batch header is too short".into());
    }
    let message = data.slice_with_length(offset, length);
    let skip = if message[..4] == [0xff; 4] { 8 } else { 4 };
    let header = arrow_ipc::root_as_message(&message[skip..metadata])
        .map_err(|error| format!("unreadable batch header: {error}"))?;
    let batch = header.header_as_record_batch().ok_or("a block that is not a record batch")?;
    if batch.compression().is_some() {
        return Err(Refusal::Compression);
    }
    let rows = batch.length();
    if !(0..=i64::from(i32::MAX)).contains(&rows) {
        return Err(format!("a batch of {rows} rows").into());
    }
    for node in batch.nodes().into_iter().flatten() {
        let nodes = 0..=i64::from(i32::MAX);
        if !nodes.contains(&node.length()) || !(0..=node.length()).contains(&node.null_count()) {
            return Err(format!("a column of {} values", node.length()).into());
        }
    }
    let buffers = batch.buffers().into_iter().flatten();
    let count = batch.buffers().map_or(0, |buffers| buffers.len());
    if count != units.len() {
        return Err(format!("{count} buffers where {} were due", units.len()).into());
    }
    for (buffer, unit) in buffers.zip(units) {
        let place =
            usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let whole = place.is_some_and(|(offset, length)| {
            offset.checked_add(length).is_some_and(|end| end <= body)
                && length.is_multiple_of(*unit)
        });
        if !whole {
            return Err("a column reaches beyond its batch or ends inside a value".into());
        }
    }
    Ok(message)
}

/// Refuses nulls in columns that must have a value in every row, and inside lists.
fn refuse_nulls(batch: &RecordBatch, path: &Path, expected: &Fields) -> Result<()> {
    for (index, found) in batch.schema().fields().iter().enumerate() {
        let column = batch.column(index);
        let field = expected.iter().find(|field| field.name() == found.name());
        let required = field.is_some_and(|field| !field.is_nullable());
        let data = column.to_data();
        let inside = data.child_data().iter().any(|child| child.null_count() > 0);
        if (required && column.null_count() > 0) || inside {
            return Err(DataError::Column {
                path: path.to_path_buf(),
                column: found.name().clone(),
                expected: "a value in every row".into(),
                found: format!("{} nulls", column.null_count().max(1)),
            });
        }
    }
    Ok(())
}

/// Begins an Arrow file with an optional note in its schema.
pub(crate) fn begin(
    path: &Path,
    fields: Fields,
    note: Option<String>,
) -> Result<FileWriter<BufWriter<File>>> {
    let file = File::create(path).map_err(DataError::io("create", path))?;
    // One key only: Arrow keeps metadata in a hash map, whose order would change the bytes.
    let metadata: std::collections::HashMap<String, String> =
        note.map(|note| (NOTE_KEY.to_string(), note)).into_iter().collect();
    let schema = Schema::new_with_metadata(fields, metadata);
    FileWriter::try_new(BufWriter::new(file), &schema).map_err(|error| write_error(path, error))
}

/// Ends an Arrow file and waits until it is on the disk.
pub(crate) fn finish(mut writer: FileWriter<BufWriter<File>>, path: &Path) -> Result<()> {
    writer.finish().map_err(|error| write_error(path, error))?;
    let buffered = writer.into_inner().map_err(|error| write_error(path, error))?;
    let file =
        buffered.into_inner().map_err(|error| DataError::io("write", path)(error.into_error()))?;
    file.sync_all().map_err(DataError::io("sync", path))
}

/// An Arrow error while writing, as the I/O error it nearly always is.
pub(crate) fn write_error(path: &Path, error: arrow_schema::ArrowError) -> DataError {
    let source = match error {
        arrow_schema::ArrowError::IoError(_, source) => source,
        other => std::io::Error::other(other.to_string()),
    };
    DataError::io("write", path)(source)
}
