//! Records as Arrow: the columns, one message for the log, and reading a message from untrusted bytes.
//!
//! | column | type | holds |
//! |---|---|---|
//! | `id` | `uint64` | position in append order |
//! | `time` | `float64` | seconds |
//! | `position` | `fixed_size_list<float32>[3]` | meters, null if the pose is not known |
//! | `rotation` | `fixed_size_list<float32>[4]` | unit quaternion w, x, y, z, null with `position` |
//! | `key_NAME` | `fixed_size_list<float32 or float16>[dimension]` | unit-length key of cue NAME, null if missing |
//! | `payload` | `large_binary` | the caller's bytes, null if none |
//! | `reference` | `large_string` | where the caller's bytes are, null if none |

use crate::{Error, KeyPrecision, Keys, Schema, Snapshot};
use arrow_array::builder::{LargeBinaryBuilder, LargeStringBuilder};
use arrow_array::{
    ArrayRef, FixedSizeListArray, Float16Array, Float32Array, Float64Array, RecordBatch,
    UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions, write_message};
use arrow_ipc::{MessageHeader, MetadataVersion, root_as_message};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

// Buffers are read in place, so the machine must be little-endian like the files.
#[cfg(target_endian = "big")]
compile_error!(
    "far-memory's store maps little-endian files and does not run on big-endian machines"
);

/// The index of the first key column.
pub(crate) const FIRST_KEY: usize = 4;

/// The Arrow columns of a memory with these cues.
pub(crate) fn arrow_schema(schema: &Schema) -> SchemaRef {
    let list = |element, length: usize| {
        DataType::FixedSizeList(Arc::new(Field::new("item", element, false)), length as i32)
    };
    let mut fields = vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("time", DataType::Float64, false),
        Field::new("position", list(DataType::Float32, 3), true),
        Field::new("rotation", list(DataType::Float32, 4), true),
    ];
    for (_, name, dimension, precision) in schema.keys() {
        let element = match precision {
            KeyPrecision::F32 => DataType::Float32,
            KeyPrecision::F16 => DataType::Float16,
        };
        fields.push(Field::new(format!("key_{name}"), list(element, dimension), true));
    }
    fields.push(Field::new("payload", DataType::LargeBinary, true));
    fields.push(Field::new("reference", DataType::LargeUtf8, true));
    Arc::new(arrow_schema::Schema::new(fields))
}

/// The records `rows` of a snapshot, all of one block, as a batch with the columns of `columns`.
pub(crate) fn record_batch(
    snapshot: &Snapshot,
    columns: &SchemaRef,
    rows: Range<usize>,
) -> Result<RecordBatch, ArrowError> {
    let block = snapshot.block(rows.start / crate::BLOCK_RECORDS);
    let inside = rows.start - block.first()..rows.end - block.first();
    let positions = block.positions();
    let positions = inside.clone().flat_map(|row| positions.map(|axis| axis[row]));
    let positions = Arc::new(Float32Array::from_iter_values(positions));
    let rotations = block.rotations()[inside.clone()].as_flattened();
    let known = (!block.has_poses())
        .then(|| inside.clone().map(|row| block.pose(row).is_some()).collect::<NullBuffer>());
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(rows.start as u64..rows.end as u64)),
        Arc::new(Float64Array::from(block.times()[inside.clone()].to_vec())),
        fixed_lists(columns, 2, positions, known.clone())?,
        fixed_lists(columns, 3, Arc::new(Float32Array::from(rotations.to_vec())), known)?,
    ];
    for (column, (cue, _, dimension, _)) in snapshot.schema().keys().enumerate() {
        let keys = block.keys(cue).expect("a key cue has a column");
        let values: ArrayRef = match keys.range(inside.start * dimension, inside.end * dimension) {
            Keys::F32(values) => Arc::new(Float32Array::from(values.to_vec())),
            Keys::F16(values) => Arc::new(Float16Array::from(values.to_vec())),
        };
        let present: NullBuffer = inside.clone().map(|row| block.is_present(cue, row)).collect();
        arrays.push(fixed_lists(columns, FIRST_KEY + column, values, Some(present))?);
    }
    let (mut payloads, mut references) = (LargeBinaryBuilder::new(), LargeStringBuilder::new());
    for row in inside {
        payloads.append_option(block.payload(row).bytes());
        references.append_option(block.payload(row).reference());
    }
    arrays.push(Arc::new(payloads.finish()));
    arrays.push(Arc::new(references.finish()));
    RecordBatch::try_new(columns.clone(), arrays)
}

fn fixed_lists(
    columns: &SchemaRef,
    index: usize,
    values: ArrayRef,
    present: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let DataType::FixedSizeList(item, length) = columns.field(index).data_type() else {
        unreachable!("these columns are lists by construction")
    };
    let present = present.filter(|bits| bits.null_count() > 0);
    Ok(Arc::new(FixedSizeListArray::try_new(item.clone(), *length, values, present)?))
}

/// How Arrow data is laid out: the current version, every buffer at a multiple of 64 bytes.
pub(crate) fn write_options() -> IpcWriteOptions {
    IpcWriteOptions::try_new(64, false, MetadataVersion::V5).expect("a supported combination")
}

/// A batch as one Arrow IPC message.
pub(crate) fn encode(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let options = write_options();
    let mut tracker = DictionaryTracker::new(true);
    let generator = IpcDataGenerator::default();
    let (_, encoded) = generator.encode(batch, &mut tracker, &options, &mut Default::default())?;
    let mut message =
        Vec::with_capacity(encoded.ipc_message.len() + encoded.arrow_data.len() + 128);
    write_message(&mut message, encoded, &options)?;
    Ok(message)
}

/// Reads one Arrow IPC message with a batch of these columns, in place where alignment allows.
///
/// The message's own lengths and offsets are checked against the columns and the available bytes
/// before Arrow's decoder sees it, because the decoder trusts them.
///
/// # Errors
/// What is wrong with the message.
pub(crate) fn decode(columns: &SchemaRef, message: &Buffer) -> Result<RecordBatch, String> {
    let prefix = message.get(..8).ok_or("the message has no prefix")?;
    if prefix[..4] != [0xff; 4] {
        return Err("the message does not start with Arrow's continuation mark".into());
    }
    let length = u32::from_le_bytes(prefix[4..].try_into().expect("four bytes")) as usize;
    let metadata = message[8..].get(..length).ok_or("the metadata is longer than the message")?;
    let body = message.slice(8 + length);
    let parsed = root_as_message(metadata).map_err(|error| error.to_string())?;
    if parsed.version() != MetadataVersion::V5 || parsed.header_type() != MessageHeader::RecordBatch
    {
        return Err("the message is no record batch of version 5".into());
    }
    let batch = parsed.header_as_record_batch().ok_or("the record batch has no header")?;
    let rows = usize::try_from(batch.length()).ok().filter(|&rows| rows <= crate::BLOCK_RECORDS);
    let rows = rows.ok_or_else(|| format!("{} rows are not a batch", batch.length()))?;
    if batch.compression().is_some() || batch.variadicBufferCounts().is_some_and(|c| !c.is_empty())
    {
        return Err("the record batch is compressed or has views".into());
    }
    let nodes = batch.nodes().ok_or("the record batch has no nodes")?;
    let mut buffers = batch.buffers().ok_or("the record batch has no buffers")?.iter();
    let expected: Vec<Node> =
        columns.fields().iter().flat_map(|field| layout(field, rows)).collect();
    if nodes.len() != expected.len() {
        return Err(format!("{} nodes instead of {}", nodes.len(), expected.len()));
    }
    for (node, Node { length, buffers: shapes }) in nodes.iter().zip(expected) {
        let (found, nulls) = (node.length(), node.null_count());
        if usize::try_from(found) != Ok(length) || !(0..=found).contains(&nulls) {
            return Err(format!("a column of {found} with {nulls} nulls instead of {length}"));
        }
        let presence = Shape { width: 1, least: if nulls > 0 { length.div_ceil(8) } else { 0 } };
        for shape in [presence].into_iter().chain(shapes) {
            let buffer = buffers.next().ok_or("the record batch lacks a buffer")?;
            let start = usize::try_from(buffer.offset()).map_err(|error| error.to_string())?;
            let bytes = usize::try_from(buffer.length()).map_err(|error| error.to_string())?;
            if start.checked_add(bytes).is_none_or(|end| end > body.len()) {
                return Err(format!("a buffer of {bytes} bytes lies outside the message"));
            }
            if bytes < shape.least || !bytes.is_multiple_of(shape.width) {
                return Err(format!("a buffer of {bytes} bytes is not at least {}", shape.least));
            }
        }
    }
    RecordBatchDecoder::try_new(&body, batch, columns.clone(), &HashMap::new(), &parsed.version())
        .and_then(|decoder| decoder.read_record_batch())
        .map_err(|error| error.to_string())
}

/// How one array of a batch is described: its values, and the buffers after its presence bits.
struct Node {
    length: usize,
    buffers: Vec<Shape>,
}

/// What a buffer must be: whole elements of `width` bytes, at least `least` bytes in all.
struct Shape {
    width: usize,
    least: usize,
}

/// The nodes of a column with `rows` rows, in Arrow's depth-first order.
fn layout(field: &Field, rows: usize) -> Vec<Node> {
    match field.data_type() {
        DataType::FixedSizeList(item, length) => {
            let list = Node { length: rows, buffers: Vec::new() };
            std::iter::once(list).chain(layout(item, rows * *length as usize)).collect()
        }
        DataType::LargeBinary | DataType::LargeUtf8 => {
            let offsets = Shape { width: 8, least: 8 * (rows + 1) };
            let values = Shape { width: 1, least: 0 };
            vec![Node { length: rows, buffers: vec![offsets, values] }]
        }
        numbers => {
            let width = numbers.primitive_width().expect("all other columns are numbers");
            let values = Shape { width, least: width * rows };
            vec![Node { length: rows, buffers: vec![values] }]
        }
    }
}

impl From<ArrowError> for Error {
    /// An error while writing our own columns: of the target, or of columns that do not fit.
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, source) => {
                Self::Disk { operation: "write", file: "an Arrow file".into(), source }
            }
            other => Self::Block { reason: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cue, Memory, Observation, Pose};
    use proptest::prelude::*;

    fn message() -> (SchemaRef, Vec<u8>) {
        let cues = vec![Cue::key("vision", 3), Cue::half_key("sound", 2)];
        let mut memory = Memory::new(Schema::new(cues).expect("valid"));
        for time in 0..3 {
            let observation = Observation::new(f64::from(time), Pose::identity());
            let observation = match time {
                0 => observation.with_key("vision", &[1.0, 0.0, 0.0]).with_bytes(b"bytes"),
                1 => observation.with_key("sound", &[0.0, 1.0]).with_reference("place"),
                _ => observation,
            };
            memory.append(&observation).expect("appended");
        }
        let columns = arrow_schema(memory.schema());
        let batch = record_batch(&memory.snapshot(), &columns, 0..3).expect("our own columns");
        let message = encode(&batch).expect("our own columns");
        assert_eq!(decode(&columns, &Buffer::from(&message[..])), Ok(batch));
        (columns, message)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn changed_messages_are_refused_or_read_but_never_panic(
            edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in proptest::option::of(any::<prop::sample::Index>()),
        ) {
            let (columns, mut message) = message();
            for (place, value) in edits {
                let place = place.index(message.len());
                message[place] = value;
            }
            if let Some(cut) = cut {
                message.truncate(cut.index(message.len()));
            }
            let _ = decode(&columns, &Buffer::from(&message[..]));
        }
    }

    #[test]
    fn a_buffer_that_ends_inside_a_number_is_refused() {
        let (columns, message) = message();
        // The lengths of the offset buffers of the last two columns: four offsets of eight bytes.
        let length = 32u64.to_le_bytes();
        let places: Vec<_> =
            (0..message.len() - 8).filter(|&at| message[at..at + 8] == length).collect();
        assert!(!places.is_empty());
        for place in places {
            let mut changed = message.clone();
            changed[place] = 33;
            assert!(decode(&columns, &Buffer::from(&changed[..])).is_err(), "byte {place}");
        }
    }
}
