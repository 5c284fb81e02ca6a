//! One episode, mapped: poses and times at hand, pictures and signals read when asked for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::{Float32Type, Float64Type, Int32Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use far_memory::{Displacement, Pose};

use crate::arrow_file::ArrowFile;
use crate::dataset_writer::{audio_path, episode_path};
use crate::frame_check::FrameCheck;
use crate::frame_columns::FrameColumns;
use crate::frame_schema::{self, column};
use crate::{
    AgentState, Audio, Change, ChangeKind, DataError, DatasetDescription, EpisodeFacts,
    EpisodeSummary, Frame, FrameImage, ImageEncoding, Mask, NumericColumn, Phase, Picture,
    ROBOT_ACTION, Result, VisibleStates,
};

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

    /// What happened since the previous frame, as numbers into the labels.
    pub fn events(&self, frame: usize) -> &[u16] {
        self.columns.list::<UInt16Type>(column::EVENTS, frame)
    }

    /// How far the acted door or container is open.
    pub fn door_fraction(&self, frame: usize) -> Option<f32> {
        self.columns.number::<Float32Type>(column::DOOR_FRACTION, frame)
    }

    /// How the frame differs from an older state.
    pub fn change(&self, frame: usize) -> Result<Option<Change>> {
        let Some(kind) = self.columns.text(column::CHANGE_KIND, frame) else { return Ok(None) };
        let wrong_kind = || {
            let reason = format!("\"{kind}\" is not surface or container");
            self.wrong(frame, column::CHANGE_KIND, reason)
        };
        let kind = ChangeKind::from_name(kind).ok_or_else(wrong_kind)?;
        let missing = || {
            let reason = "is null where change_kind is not".to_string();
            self.wrong(frame, column::CHANGE_MASK, reason)
        };
        let mask = self.mask(column::CHANGE_MASK, frame)?.ok_or_else(missing)?;
        let stale_frame = self.columns.unsigned(column::STALE_FRAME, frame);
        Ok(Some(Change { kind, mask, stale_frame }))
    }

    /// Whether the frame differs from an older state, without decoding the mask.
    pub fn is_changed(&self, frame: usize) -> bool {
        self.columns.text(column::CHANGE_KIND, frame).is_some()
    }

    /// The second agent in a frame.
    pub fn agent(&self, frame: usize) -> AgentState {
        self.agent_from(column::AGENT_VISIBLE, column::AGENT_POSITION, frame)
    }

    /// The second agent `agent_lag` frames before a frame, as it was seen then.
    pub fn agent_before(&self, frame: usize) -> AgentState {
        self.agent_from(column::AGENT_VISIBLE_BEFORE, column::AGENT_POSITION_BEFORE, frame)
    }

    /// The second agent's pixels; `None` when it is not in view.
    pub fn silhouette(&self, frame: usize) -> Result<Option<Mask>> {
        self.mask(column::SILHOUETTE, frame)
    }

    /// Ids of the surfaces in view, ascending.
    pub fn visible_faces(&self, frame: usize) -> &[u32] {
        self.columns.list::<UInt32Type>(column::VISIBLE_FACES, frame)
    }

    /// Number of the canonical viewpoint, −1 between viewpoints.
    pub fn pose_key(&self, frame: usize) -> i32 {
        self.columns.number::<Int32Type>(column::POSE_KEY, frame).unwrap_or(-1)
    }

    /// States that can be told from the frame, ascending.
    pub fn visible_states(&self, frame: usize) -> &[u64] {
        self.columns.list::<UInt64Type>(column::VISIBLE_STATES, frame)
    }

    /// Visible states that an interaction of this episode made, ascending.
    pub fn changed_states(&self, frame: usize) -> &[u64] {
        self.columns.list::<UInt64Type>(column::CHANGED_STATES, frame)
    }

    /// For each state that the frame shows changed, the memories that show it as it is then or being
    /// made so.
    pub fn witnesses(&self, frame: usize) -> Vec<Vec<usize>> {
        let shows = |memory: usize, state: &u64| {
            let seen = [self.visible_states(memory), self.made_states(memory)];
            seen.iter().any(|states| states.contains(state))
        };
        let of = |state| (0..self.boundary).filter(|&memory| shows(memory, state)).collect();
        self.changed_states(frame).iter().map(of).collect()
    }

    /// States made by an interaction that can be watched in the frame, ascending.
    pub fn made_states(&self, frame: usize) -> &[u64] {
        self.columns.list::<UInt64Type>(column::MADE_STATES, frame)
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

    fn agent_from(&self, visible: &str, position: &str, frame: usize) -> AgentState {
        AgentState {
            visible: self.columns.flag(visible, frame),
            position: self.columns.vector(position, frame).unwrap_or_default(),
        }
    }

    fn mask(&self, column: &'static str, frame: usize) -> Result<Option<Mask>> {
        let bytes = self.columns.bytes(column, frame);
        bytes
            .map(|bytes| Mask::from_png(bytes, self.description.resolution))
            .transpose()
            .map_err(|reason| self.wrong(frame, column, reason))
    }

    pub(crate) fn wrong(&self, row: usize, column: &'static str, reason: String) -> DataError {
        DataError::Row { episode: Some(self.id), row, column, reason }
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

fn action(columns: &FrameColumns, row: usize) -> Option<Displacement> {
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
