//! One episode, mapped: poses and times at hand, pictures and signals read when asked for.

mod opening;
mod signals;

pub(crate) use opening::recover;

use crate::dataset_writer::audio_path;
use crate::frame_columns::FrameColumns;
use crate::frame_schema::column;
use crate::{
    Audio, DataError, DatasetDescription, Frame, FrameImage, ImageEncoding, NumericColumn, Phase,
    Picture, Result, VisibleStates,
};
use arrow_array::types::UInt64Type;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use far_memory::{Displacement, Pose};
use opening::action;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open episode.
///
/// Opening checks the columns and every time, pose and phase; [`crate::verify_episode`] checks the
/// rest. Frames are counted from 0; asking for one beyond [`Episode::len`] panics.
pub struct Episode {
    id: u32,
    description: Arc<DatasetDescription>,
    folder: PathBuf,
    video: Option<String>,
    columns: FrameColumns,
    times: Vec<f64>,
    /// Empty in a dataset without poses.
    poses: Vec<Pose>,
    boundary: usize,
    unknown: Vec<String>,
    note: Option<String>,
    path: PathBuf,
    schema: SchemaRef,
    bytes: Buffer,
}

impl Episode {
    /// The episode's id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What the dataset has in common.
    pub fn description(&self) -> &DatasetDescription {
        &self.description
    }

    /// Number of frames, at least one.
    #[expect(clippy::len_without_is_empty, reason = "an episode without frames does not open")]
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Index of the first return frame; [`Episode::len`] when there is none.
    pub fn boundary(&self) -> usize {
        self.boundary
    }

    /// Seconds since the episode began, one per frame, strictly increasing.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// The camera of every frame; empty in a dataset without poses.
    pub fn poses(&self) -> &[Pose] {
        &self.poses
    }

    /// The camera of a frame; `None` in a dataset without poses.
    pub fn pose(&self, frame: usize) -> Option<Pose> {
        assert!(frame < self.len(), "frame {frame} of {}", self.len());
        self.poses.get(frame).copied()
    }

    /// Where the camera would be in every frame if its actions were all that moves it: the poses, or
    /// without them what the actions add up to from the first frame on.
    pub fn reckoned_poses(&self) -> Vec<Pose> {
        if !self.poses.is_empty() {
            return self.poses.clone();
        }
        let mut reckoned = vec![Pose::identity()];
        for frame in 1..self.len() {
            reckoned.push(reckoned[frame - 1].advanced(&self.action(frame)));
        }
        reckoned
    }

    /// Columns of the file that the format does not know.
    pub fn unknown_columns(&self) -> &[String] {
        &self.unknown
    }

    /// The numbers of a column of type float32 or fixed_size_list<float32, n>, one that the format
    /// does not know or one that it does.
    ///
    /// # Errors
    /// If there is no such column, it has another type, or a number is missing or not finite.
    pub fn numbers(&self, column: &str) -> Result<NumericColumn> {
        NumericColumn::read(&self.bytes, &self.schema, &self.path, column)
    }

    /// The facts that a [`crate::DatasetWriter`] left in the file, as JSON.
    pub(crate) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The phase of a frame.
    pub fn phase(&self, frame: usize) -> Phase {
        if frame < self.boundary { Phase::Explore } else { Phase::Return }
    }

    /// What was done to reach a frame; without column `action`, the displacement of the camera, or
    /// nothing in a dataset without poses.
    pub fn action(&self, frame: usize) -> Displacement {
        if let Some(action) = action(&self.columns, frame) {
            return action;
        }
        match frame.checked_sub(1) {
            Some(previous) if self.description.poses => {
                self.poses[frame].displacement_from(&self.poses[previous])
            }
            _ => Displacement::default(),
        }
    }

    /// The stored bytes of a frame's picture, `None` when pictures are not in the file.
    pub fn image_bytes(&self, frame: usize) -> Option<&[u8]> {
        self.columns.bytes(column::IMAGE, frame)
    }

    /// The decoded picture of a frame.
    pub fn picture(&self, frame: usize) -> Result<Picture> {
        let bytes = self.image_bytes(frame).unwrap_or_default();
        Picture::decode(bytes, self.description.images, self.description.resolution)
            .map_err(|reason| self.wrong_picture(frame, reason))
    }

    /// The picture of a frame as a PNG or JPEG file.
    ///
    /// # Errors
    /// Those of [`Episode::picture`], where the dataset holds bare pixels.
    pub(crate) fn picture_file(&self, frame: usize) -> Result<Vec<u8>> {
        match self.description.images {
            ImageEncoding::Raw => self.picture(frame).map(|picture| picture.to_png()),
            _ => Ok(self.image_bytes(frame).unwrap_or_default().to_vec()),
        }
    }

    /// Blames the description where first and last frame contradict it alike, and else the row.
    fn wrong_picture(&self, frame: usize, reason: String) -> DataError {
        let contradiction = |frame: usize| {
            let bytes = self.image_bytes(frame)?;
            Picture::contradiction(bytes, self.description.images, self.description.resolution)
        };
        match (contradiction(0), contradiction(self.len() - 1)) {
            (Some(first), Some(last)) if first == last => {
                let path = self.folder.join("dataset.json");
                DataError::Description { path, reason: format!("{first} (episode {})", self.id) }
            }
            _ => self.wrong(frame, column::IMAGE, reason),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The video file and the frame in it, when pictures lie in a video.
    pub fn video_frame(&self, frame: usize) -> Option<(PathBuf, u64)> {
        let number = self.columns.number::<UInt64Type>(column::VIDEO_FRAME, frame)?;
        Some((self.folder.join(self.video.as_deref()?), number))
    }

    /// The whole row, with its picture as stored, without sound and without columns that the format does
    /// not know.
    pub fn frame(&self, frame: usize) -> Result<Frame> {
        let image = match self.description.images {
            ImageEncoding::Png | ImageEncoding::Jpeg | ImageEncoding::Raw => {
                FrameImage::Encoded(self.image_bytes(frame).unwrap_or_default().to_vec())
            }
            ImageEncoding::Video => {
                let number = self.columns.number::<UInt64Type>(column::VIDEO_FRAME, frame);
                FrameImage::VideoFrame(number.unwrap_or_default())
            }
            ImageEncoding::None => FrameImage::Absent,
        };
        Ok(Frame {
            time: self.times[frame],
            pose: self.pose(frame),
            action: Some(self.action(frame)),
            phase: self.phase(frame),
            image,
            events: self.events(frame).to_vec(),
            door_fraction: self.door_fraction(frame),
            change: self.change(frame)?,
            agent: self.agent(frame),
            silhouette: self.silhouette(frame)?,
            visible_faces: self.visible_faces(frame).to_vec(),
            states: VisibleStates {
                pose_key: self.pose_key(frame),
                visible: self.visible_states(frame).to_vec(),
                changed: self.changed_states(frame).to_vec(),
                made: self.made_states(frame).to_vec(),
            },
            audio: Vec::new(),
            numbers: Vec::new(),
        })
    }

    /// Path of the episode's WAV file, whether or not it is there.
    pub fn audio_path(&self) -> PathBuf {
        audio_path(&self.folder, self.id)
    }

    /// The episode's sound; `None` when the dataset has no audio.
    pub fn audio(&self) -> Result<Option<Audio>> {
        self.description.audio_rate.map(|_| Audio::open(&self.audio_path())).transpose()
    }

    pub(crate) fn wrong(&self, row: usize, column: &'static str, reason: String) -> DataError {
        DataError::Row { episode: Some(self.id), row, column, reason }
    }
}
