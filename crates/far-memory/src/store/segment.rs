//! A run of records as read from disk, and how runs become the blocks of a memory.
//!
//! A block borrows the keys and payloads of a sealed file that holds all of it: only times and
//! poses are copied. Shorter runs (a block that was sealed in parts, the frames of the log) share a
//! block: their keys are copied together, their payloads still borrowed.

use super::record_batch::FIRST_KEY;
use crate::block::{Block, BlockParts, check};
use crate::column::{Column, StableBytes};
use crate::key::{KeyColumn, KeyValues};
use crate::payload::PayloadSource;
use crate::{BLOCK_RECORDS, Error, KeyPrecision, Payload, Pose, Schema};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type, UInt64Type};
use arrow_array::{
    Array, ArrowPrimitiveType, FixedSizeListArray, LargeBinaryArray, LargeStringArray, RecordBatch,
};
use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use bytemuck::Pod;
use std::sync::Arc;

/// Consecutive records of one sealed file or one frame of the log.
#[derive(Clone)]
pub(crate) struct Segment {
    first: usize,
    batch: RecordBatch,
    payloads: LargeBinaryArray,
    references: LargeStringArray,
}

impl Segment {
    /// The records `first..` in a batch with the columns of this module.
    ///
    /// # Errors
    /// What is wrong: ids that do not count up from `first`, a run that reaches over the end of a
    /// block, or a time or pose that no memory would have accepted.
    pub fn new(first: u64, batch: RecordBatch) -> Result<Self, String> {
        let ids = batch.column(0).as_primitive::<UInt64Type>();
        if let Some((row, &id)) = ids
            .values()
            .iter()
            .enumerate()
            .find(|&(row, &id)| first.checked_add(row as u64) != Some(id))
        {
            return Err(format!("row {row} has id {id} in a run that starts with {first}"));
        }
        let first =
            usize::try_from(first).map_err(|_| format!("record {first} is out of range"))?;
        if first % BLOCK_RECORDS + batch.num_rows() > BLOCK_RECORDS {
            return Err(format!("{} records after {first} cross a block", batch.num_rows()));
        }
        let columns = batch.num_columns();
        let payloads = batch.column(columns - 2).as_binary::<i64>().clone();
        let references = batch.column(columns - 1).as_string::<i64>().clone();
        let segment = Self { first, batch, payloads, references };
        if (0..segment.rows())
            .any(|row| segment.list(2).is_valid(row) != segment.list(3).is_valid(row))
        {
            return Err(
                "a record has a position without a rotation, or the other way around".into()
            );
        }
        for (&time, pose) in segment.times().iter().zip(segment.poses()) {
            check(time, pose.as_ref()).map_err(|error| error.to_string())?;
        }
        Ok(segment)
    }

    /// How many records there are.
    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    fn times(&self) -> &[f64] {
        self.batch.column(1).as_primitive::<Float64Type>().values()
    }

    fn poses(&self) -> impl Iterator<Item = Option<Pose>> {
        let positions = self.list(2).values().as_primitive::<Float32Type>().values();
        let rotations = self.list(3).values().as_primitive::<Float32Type>().values();
        let positions = positions.as_chunks::<3>().0.iter();
        let rotations = rotations.as_chunks::<4>().0.iter();
        let known = (0..self.rows()).map(|row| self.list(2).is_valid(row));
        let poses = positions.zip(rotations).zip(known);
        poses.map(|((&position, &rotation), known)| known.then_some(Pose { position, rotation }))
    }

    fn list(&self, column: usize) -> &FixedSizeListArray {
        self.batch.column(column).as_fixed_size_list()
    }

    fn payload(&self, row: usize) -> Payload<'_> {
        if self.payloads.is_valid(row) {
            Payload::Bytes(self.payloads.value(row))
        } else if self.references.is_valid(row) {
            Payload::Reference(self.references.value(row))
        } else {
            Payload::None
        }
    }
}

/// Arrow keeps the memory behind a buffer alive and never writes to a shared one.
struct BufferBytes(Buffer);

// SAFETY: a buffer is an immutable view of one allocation or mapping that it keeps alive; cloning
// or moving it does not move the bytes.
unsafe impl StableBytes for BufferBytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The payloads of a block, by the segments that hold them.
struct SegmentPayloads {
    /// Row of the block at which each segment starts, ascending.
    starts: Vec<usize>,
    segments: Vec<Segment>,
}

impl PayloadSource for SegmentPayloads {
    fn payload(&self, row: usize) -> Payload<'_> {
        let number = self.starts.partition_point(|&start| start <= row) - 1;
        self.segments[number].payload(row - self.starts[number])
    }
}

/// All blocks from all segments, oldest first and without gaps.
///
/// # Errors
/// As for [`block`].
pub(crate) fn blocks(schema: &Schema, segments: &[Segment]) -> Result<Vec<Block>, Error> {
    let number = |segment: &Segment| segment.first / BLOCK_RECORDS;
    segments.chunk_by(|a, b| number(a) == number(b)).map(|part| block(schema, part)).collect()
}

/// One block from the segments of its records, oldest first and without gaps.
///
/// # Errors
/// [`Error::Observation`] for a time or pose that is not finite, [`Error::Block`] for segments that
/// do not make a block.
pub(crate) fn block(schema: &Schema, segments: &[Segment]) -> Result<Block, Error> {
    let times: Vec<f64> = segments.iter().flat_map(|segment| segment.times()).copied().collect();
    let poses: Vec<Option<Pose>> = segments.iter().flat_map(Segment::poses).collect();
    let keys = schema.keys().enumerate().map(|(column, (_, _, dimension, precision))| {
        let lists: Vec<_> =
            segments.iter().map(|segment| segment.list(FIRST_KEY + column)).collect();
        let present: Vec<bool> =
            lists.iter().flat_map(|list| (0..list.len()).map(|row| list.is_valid(row))).collect();
        let values = match precision {
            KeyPrecision::F32 => KeyValues::F32(gather(&numbers::<Float32Type>(&lists))?),
            KeyPrecision::F16 => KeyValues::F16(gather(&numbers::<Float16Type>(&lists))?),
        };
        KeyColumn::new(values, dimension, &present)
    });
    let keys = keys.collect::<Result<Vec<_>, Error>>()?;
    let payloads = payloads(segments);
    Block::from_parts(schema, BlockParts { times: &times, poses: &poses, keys, payloads })
}

/// The payloads of the segments of one block; `None` if there are none.
pub(crate) fn payloads(segments: &[Segment]) -> Option<Arc<dyn PayloadSource>> {
    let empty = |segment: &Segment| {
        segment.payloads.null_count() + segment.references.null_count() == 2 * segment.rows()
    };
    if segments.iter().all(empty) {
        return None;
    }
    let start = segments[0].first;
    let starts = segments.iter().map(|segment| segment.first - start).collect();
    Some(Arc::new(SegmentPayloads { starts, segments: segments.to_vec() }))
}

fn numbers<'a, T: ArrowPrimitiveType>(
    lists: &[&'a FixedSizeListArray],
) -> Vec<&'a ScalarBuffer<T::Native>> {
    lists.iter().map(|list| list.values().as_primitive::<T>().values()).collect()
}

/// The numbers of all parts in one column: borrowed if there is one part, otherwise copied
/// together.
fn gather<T: Pod + ArrowNativeType>(parts: &[&ScalarBuffer<T>]) -> Result<Column<T>, Error> {
    match parts {
        [only] => Column::lent(Arc::new(BufferBytes(only.inner().clone())), 0, only.len()),
        _ => {
            let slices: Vec<&[T]> = parts.iter().map(|part| &part[..]).collect();
            Ok(Column::from_slice(&slices.concat()))
        }
    }
}
