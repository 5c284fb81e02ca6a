//! The Arrow columns of an episode file.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};

use crate::{DatasetDescription, ImageEncoding, Signal};

/// Names of the columns, in one place so that errors, reader and writer agree.
pub(crate) mod column {
    pub const TIME: &str = "time";
    pub const POSITION: &str = "position";
    pub const ROTATION: &str = "rotation";
    pub const ACTION: &str = "action";
    pub const PHASE: &str = "phase";
    pub const IMAGE: &str = "image";
    pub const VIDEO_FRAME: &str = "video_frame";
    pub const EVENTS: &str = "events";
    pub const DOOR_FRACTION: &str = "door_fraction";
    pub const CHANGE_KIND: &str = "change_kind";
    pub const CHANGE_MASK: &str = "change_mask";
    pub const STALE_FRAME: &str = "stale_frame";
    pub const AGENT_VISIBLE: &str = "agent_visible";
    pub const AGENT_POSITION: &str = "agent_position";
    pub const AGENT_VISIBLE_BEFORE: &str = "agent_visible_before";
    pub const AGENT_POSITION_BEFORE: &str = "agent_position_before";
    pub const SILHOUETTE: &str = "silhouette";
    pub const VISIBLE_FACES: &str = "visible_faces";
    pub const POSE_KEY: &str = "pose_key";
    pub const VISIBLE_STATES: &str = "visible_states";
    pub const CHANGED_STATES: &str = "changed_states";
    pub const MADE_STATES: &str = "made_states";
}

/// Numbers in an `action`: forward, left, up, turn, tilt.
pub(crate) const ACTION_SIZE: i32 = 5;

/// A fixed number of f32 per row.
pub(crate) fn vector(size: i32) -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float32, true)), size)
}

/// Any number of values per row.
pub(crate) fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

/// The columns of an episode under `description`, in file order. All but `action` must be present
/// in a file; a nullable field may hold nulls.
pub(crate) fn fields(description: &DatasetDescription) -> Fields {
    use column::*;
    let value = |name, data_type| Field::new(name, data_type, false);
    let maybe = |name, data_type| Field::new(name, data_type, true);
    let mut fields = vec![value(TIME, DataType::Float64)];
    if description.poses {
        fields.extend([value(POSITION, vector(3)), value(ROTATION, vector(4))]);
    }
    fields.extend([value(ACTION, vector(ACTION_SIZE)), value(PHASE, DataType::Utf8)]);
    match description.images {
        ImageEncoding::Png | ImageEncoding::Jpeg | ImageEncoding::Raw => {
            fields.push(value(IMAGE, DataType::Binary));
        }
        ImageEncoding::Video => fields.push(value(VIDEO_FRAME, DataType::UInt64)),
        ImageEncoding::None => {}
    }
    let mut signals = description.signals.clone();
    signals.sort();
    signals.dedup();
    for signal in signals {
        fields.extend(match signal {
            Signal::Events => vec![value(EVENTS, list(DataType::UInt16))],
            Signal::DoorFraction => vec![maybe(DOOR_FRACTION, DataType::Float32)],
            Signal::Change => vec![
                maybe(CHANGE_KIND, DataType::Utf8),
                maybe(CHANGE_MASK, DataType::Binary),
                maybe(STALE_FRAME, DataType::UInt32),
            ],
            Signal::Agent => vec![
                value(AGENT_VISIBLE, DataType::Boolean),
                value(AGENT_POSITION, vector(2)),
                value(AGENT_VISIBLE_BEFORE, DataType::Boolean),
                value(AGENT_POSITION_BEFORE, vector(2)),
                maybe(SILHOUETTE, DataType::Binary),
            ],
            Signal::VisibleFaces => vec![value(VISIBLE_FACES, list(DataType::UInt32))],
            Signal::States => vec![
                value(POSE_KEY, DataType::Int32),
                value(VISIBLE_STATES, list(DataType::UInt64)),
                value(CHANGED_STATES, list(DataType::UInt64)),
                value(MADE_STATES, list(DataType::UInt64)),
            ],
        });
    }
    fields.into()
}

/// The columns of an episode, then `further` columns of numbers by name and width.
///
/// # Errors
/// A sentence, if a name is the format's own, given twice, or not made of lower-case letters, digits
/// and _.
pub(crate) fn fields_with(
    description: &DatasetDescription,
    further: &[(String, usize)],
) -> Result<Fields, String> {
    let mut fields: Vec<_> = fields(description).iter().cloned().collect();
    for (name, width) in further {
        check_name(name, &fields)?;
        fields.push(Arc::new(Field::new(name, vector(*width as i32), false)));
    }
    Ok(fields.into())
}

/// Refuses the name of a further column beside these.
pub(crate) fn check_name(name: &str, fields: &[Arc<Field>]) -> Result<(), String> {
    let plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    let taken = fields.iter().any(|field| field.name() == name)
        || [column::POSITION, column::ROTATION].contains(&name);
    if name.is_empty() || taken || !name.chars().all(plain) {
        return Err(format!(
            "`{name}` cannot name a column: lower-case letters, digits and _, and none of the format's own"
        ));
    }
    Ok(())
}
