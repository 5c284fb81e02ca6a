//! How an episode opens: its file is mapped, and every time, pose and phase is checked.

use super::Episode;
use crate::arrow_file::ArrowFile;
use crate::dataset_writer::episode_path;
use crate::frame_check::FrameCheck;
use crate::frame_columns::FrameColumns;
use crate::frame_schema::{self, column};
use crate::{
    DataError, DatasetDescription, EpisodeFacts, EpisodeSummary, Frame, FrameImage, Phase,
    ROBOT_ACTION, Result,
};
use arrow_array::types::Float64Type;
use arrow_buffer::Buffer;
use far_memory::{Displacement, Pose};
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Episode {
    /// Opens the episode of a row of the index and checks that the two agree.
    pub(crate) fn open(
        folder: &Path,
        description: Arc<DatasetDescription>,
        summary: &EpisodeSummary,
    ) -> Result<Self> {
        let path = episode_path(folder, summary.id);
        let file = open_file(&path, &description)?;
        let mut episode = Self::from_file(file, summary.id, &path, description)?;
        episode.folder = folder.to_path_buf();
        episode.video = summary.facts.video.clone();
        for (name, found, listed) in [
            ("frames", episode.len(), summary.frames as usize),
            ("boundary", episode.boundary, summary.boundary as usize),
        ] {
            if found != listed {
                let reason = format!("`{name}` is {found} in its file, {listed} in episodes.arrow");
                return Err(DataError::Episode { episode: summary.id, reason });
            }
        }
        Ok(episode)
    }

    /// Decodes an episode from bytes in memory, with the same checks as a file on disk.
    pub fn from_bytes(
        bytes: Vec<u8>,
        id: u32,
        description: Arc<DatasetDescription>,
    ) -> Result<Self> {
        let path = PathBuf::from(format!("episode {id} in memory"));
        let fields = frame_schema::fields(&description);
        let file = ArrowFile::decode(Buffer::from_vec(bytes), &path, &fields, &[column::ACTION])?;
        Self::from_file(file, id, &path, description)
    }

    fn from_file(
        file: ArrowFile,
        id: u32,
        path: &Path,
        description: Arc<DatasetDescription>,
    ) -> Result<Self> {
        let ArrowFile { batches, mut unknown, note, schema, bytes } = file;
        unknown.retain(|name| name != ROBOT_ACTION || description.robot_action.is_none());
        let columns = FrameColumns::new(batches);
        if columns.len() == 0 {
            return Err(DataError::corrupt(path, "it has no frames"));
        }
        let (times, poses, boundary) = trajectory(id, &columns, &description)?;
        Ok(Self {
            id,
            description,
            folder: PathBuf::new(),
            video: None,
            columns,
            times,
            poses,
            boundary,
            unknown,
            note,
            path: path.to_path_buf(),
            schema,
            bytes,
        })
    }
}

/// What an unfinished recording knows of a complete episode: facts, frames, boundary.
pub(crate) fn recover(
    id: u32,
    path: &Path,
    description: &DatasetDescription,
) -> Result<(EpisodeFacts, u32, u32)> {
    let file = open_file(path, description)?;
    let note = file.note.as_deref().unwrap_or_default();
    let facts = serde_json::from_str(note)
        .map_err(|error| DataError::corrupt(path, format!("its note is unreadable: {error}")))?;
    let columns = FrameColumns::new(file.batches);
    let (times, _, boundary) = trajectory(id, &columns, description)?;
    Ok((facts, times.len() as u32, boundary as u32))
}

fn open_file(path: &Path, description: &DatasetDescription) -> Result<ArrowFile> {
    let fields = frame_schema::fields(description);
    ArrowFile::open(path, "an episode's file", &fields, &[column::ACTION])
}

pub(super) fn action(columns: &FrameColumns, row: usize) -> Option<Displacement> {
    let [forward, left, up, turn, tilt] = columns.vector(column::ACTION, row)?;
    Some(Displacement { forward, left, up, turn, tilt })
}

/// Times, poses and boundary, checked row by row.
fn trajectory(
    id: u32,
    columns: &FrameColumns,
    description: &DatasetDescription,
) -> Result<(Vec<f64>, Vec<Pose>, usize)> {
    let mut check = FrameCheck::new(description, id);
    let (mut times, mut poses) = (Vec::new(), Vec::new());
    let mut boundary = columns.len();
    for row in 0..columns.len() {
        let name = columns.text(column::PHASE, row).unwrap_or_default();
        let phase = Phase::from_name(name).ok_or_else(|| DataError::Row {
            episode: Some(id),
            row,
            column: column::PHASE,
            reason: format!("\"{name}\" is not explore or return"),
        })?;
        let pose = description.poses.then(|| Pose {
            position: columns.vector(column::POSITION, row).unwrap_or([f32::NAN; 3]),
            rotation: columns.vector(column::ROTATION, row).unwrap_or([f32::NAN; 4]),
        });
        let time = columns.number::<Float64Type>(column::TIME, row).unwrap_or(f64::NAN);
        let mut frame = Frame::new(time, pose, phase, FrameImage::Absent);
        frame.action = action(columns, row);
        check.next_pose(&frame)?;
        if phase == Phase::Return {
            boundary = boundary.min(row);
        }
        times.push(time);
        poses.extend(pose);
    }
    Ok((times, poses, boundary))
}
