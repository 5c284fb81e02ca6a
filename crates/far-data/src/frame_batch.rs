//! Frames as Arrow columns, on their way to the disk.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, FixedSizeListBuilder, Float32Builder, ListBuilder,
    PrimitiveBuilder, StringBuilder,
};
use arrow_array::types::{ArrowPrimitiveType, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, Float32Array, Float64Array, Int32Array, RecordBatch, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, SchemaRef};
use far_memory::Pose;

use crate::frame_schema::{ACTION_SIZE, column};
use crate::{AgentState, Frame};

/// A frame whose derived columns are known.
pub(crate) struct FrameRow {
    /// The frame as its maker gave it, without audio, pixels already encoded.
    pub frame: Frame,
    /// Bytes of column `image`; empty when pictures lie elsewhere.
    pub image: Vec<u8>,
    /// Number for column `video_frame`.
    pub video_frame: u64,
    /// Forward, left, up, turn, tilt.
    pub action: [f32; ACTION_SIZE as usize],
    /// The second agent some frames ago.
    pub agent_before: AgentState,
}

/// The rows as one record batch with the columns of `schema`, the last of which are `further` ones.
pub(crate) fn record_batch(
    schema: &SchemaRef,
    further: &[(String, usize)],
    rows: &[FrameRow],
) -> Result<RecordBatch, ArrowError> {
    let own = schema.fields().len() - further.len();
    let mut columns: Vec<ArrayRef> =
        schema.fields()[..own].iter().map(|field| array(field.name(), rows)).collect();
    let mut first = 0;
    for (_, width) in further {
        let numbers = rows.iter().map(|row| &row.frame.numbers[first..first + width]);
        columns.push(slices(numbers, *width));
        first += width;
    }
    RecordBatch::try_new(schema.clone(), columns)
}

fn array(name: &str, rows: &[FrameRow]) -> ArrayRef {
    let frames = || rows.iter().map(|row| &row.frame);
    match name {
        column::TIME => Arc::new(Float64Array::from_iter_values(frames().map(|f| f.time))),
        column::POSITION => vectors(frames().map(|f| pose(f).position)),
        column::ROTATION => vectors(frames().map(|f| pose(f).rotation)),
        column::ACTION => vectors(rows.iter().map(|row| row.action)),
        column::PHASE => texts(frames().map(|f| Some(f.phase.name()))),
        column::IMAGE => binaries(rows.iter().map(|row| Some(row.image.clone()))),
        column::VIDEO_FRAME => {
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.video_frame)))
        }
        column::EVENTS => lists::<UInt16Type>(frames().map(|f| f.events.as_slice())),
        column::DOOR_FRACTION => {
            Arc::new(frames().map(|f| f.door_fraction).collect::<Float32Array>())
        }
        column::CHANGE_KIND => texts(frames().map(|f| f.change.as_ref().map(|c| c.kind.name()))),
        column::CHANGE_MASK => {
            binaries(frames().map(|f| f.change.as_ref().map(|change| change.mask.to_png())))
        }
        column::STALE_FRAME => Arc::new(
            frames()
                .map(|f| f.change.as_ref().and_then(|change| change.stale_frame))
                .collect::<UInt32Array>(),
        ),
        column::AGENT_VISIBLE => booleans(frames().map(|f| f.agent.visible)),
        column::AGENT_POSITION => vectors(frames().map(|f| f.agent.position)),
        column::AGENT_VISIBLE_BEFORE => booleans(rows.iter().map(|row| row.agent_before.visible)),
        column::AGENT_POSITION_BEFORE => vectors(rows.iter().map(|row| row.agent_before.position)),
        column::SILHOUETTE => {
            binaries(frames().map(|f| f.silhouette.as_ref().map(|mask| mask.to_png())))
        }
        column::VISIBLE_FACES => lists::<UInt32Type>(frames().map(|f| f.visible_faces.as_slice())),
        column::POSE_KEY => {
            Arc::new(Int32Array::from_iter_values(frames().map(|f| f.states.pose_key)))
        }
        column::VISIBLE_STATES => {
            lists::<UInt64Type>(frames().map(|f| f.states.visible.as_slice()))
        }
        column::CHANGED_STATES => {
            lists::<UInt64Type>(frames().map(|f| f.states.changed.as_slice()))
        }
        column::MADE_STATES => lists::<UInt64Type>(frames().map(|f| f.states.made.as_slice())),
        other => unreachable!("column {other} is not in the schema"),
    }
}

/// The pose of a frame of a dataset that has the columns for it.
fn pose(frame: &Frame) -> Pose {
    frame.pose.expect("the frame was checked to have a pose")
}

fn vectors<const N: usize>(values: impl Iterator<Item = [f32; N]>) -> ArrayRef {
    slices(values, N)
}

pub(crate) fn slices<T: AsRef<[f32]>>(values: impl Iterator<Item = T>, width: usize) -> ArrayRef {
    let mut builder = FixedSizeListBuilder::new(Float32Builder::new(), width as i32);
    for value in values {
        builder.values().append_slice(value.as_ref());
        builder.append(true);
    }
    Arc::new(builder.finish())
}

fn lists<'a, T: ArrowPrimitiveType>(values: impl Iterator<Item = &'a [T::Native]>) -> ArrayRef {
    let mut builder = ListBuilder::new(PrimitiveBuilder::<T>::new());
    for value in values {
        builder.values().append_slice(value);
        builder.append(true);
    }
    Arc::new(builder.finish())
}

fn binaries(values: impl Iterator<Item = Option<Vec<u8>>>) -> ArrayRef {
    let mut builder = BinaryBuilder::new();
    values.for_each(|value| builder.append_option(value));
    Arc::new(builder.finish())
}

fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    let mut builder = StringBuilder::new();
    values.for_each(|value| builder.append_option(value));
    Arc::new(builder.finish())
}

fn booleans(values: impl Iterator<Item = bool>) -> ArrayRef {
    let mut builder = BooleanBuilder::new();
    values.for_each(|value| builder.append_value(value));
    Arc::new(builder.finish())
}
