//! One row of an episode: what was seen, where, when, and what is true of it.

use far_memory::{Displacement, Pose};

use crate::{Mask, Picture};

far_memory::named! {
    /// The part of an episode that a frame belongs to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Phase {
        /// Outbound, exploration, watching: frames that may be remembered.
        Explore = "explore",
        /// Return, evaluation, reveal: frames that are predicted.
        Return = "return",
    }
}

/// Where the picture of a frame is; the kind must fit the dataset's [`crate::ImageEncoding`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FrameImage {
    /// Pixels, which the writer encodes as PNG or raw bytes.
    Pixels(Picture),
    /// Bytes already in the dataset's encoding, stored as they are.
    Encoded(Vec<u8>),
    /// A frame of the episode's video file.
    VideoFrame(u64),
    /// No picture.
    #[default]
    Absent,
}

far_memory::named! {
    /// Which kind of thing changed since memory saw it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ChangeKind {
        /// Something lies, stands or looks different in plain sight.
        Surface = "surface",
        /// The inside of a container, seen only while it is open.
        Container = "container",
    }
}

/// How a frame differs from the world before the interaction that it shows the effect of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What kind of thing changed.
    pub kind: ChangeKind,
    /// Pixels that differ between this frame and the world before the interaction, rendered at
    /// this frame's pose.
    pub mask: Mask,
    /// Newest earlier frame at the same viewpoint that shows the old state, if there is one.
    pub stale_frame: Option<u32>,
}

/// The second agent as the observer has it in one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AgentState {
    /// Whether any part of it is in the picture.
    pub visible: bool,
    /// Its place on the floor in camera axes, meters: to the right, then ahead. Zero when unseen.
    pub position: [f32; 2],
}

/// What is in view in which state, by numbers that mean the same within one episode.
///
/// A state is the hash of (thing, its state): "the fridge is open", "the tomato lies on shelf two",
/// "counter three is empty".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibleStates {
    /// Number of the canonical viewpoint the frame was taken from, −1 between viewpoints.
    pub pose_key: i32,
    /// States that can be told from this picture, ascending, each once.
    pub visible: Vec<u64>,
    /// Those of `visible` that an interaction of this episode made: what only memory could know.
    pub changed: Vec<u64>,
    /// States made by an interaction that can be watched in this picture.
    pub made: Vec<u64>,
}

/// One row of an episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Seconds since the episode began, strictly increasing.
    pub time: f64,
    /// The camera; `None` in a dataset without poses.
    pub pose: Option<Pose>,
    /// What was done to get here from the previous frame; `None` means the displacement between
    /// the two poses, or nothing in a dataset without them.
    pub action: Option<Displacement>,
    /// Whether the frame may be remembered or is to be predicted.
    pub phase: Phase,
    /// The picture.
    pub image: FrameImage,
    /// What happened since the previous frame, as numbers into the dataset's labels, ascending,
    /// each once.
    pub events: Vec<u16>,
    /// How far the acted door or container is open, 0 to 1; `None` when none is acted on.
    pub door_fraction: Option<f32>,
    /// How the frame differs from an older state; `None` when it does not.
    pub change: Option<Change>,
    /// The second agent; the writer derives the `_before` columns from earlier frames.
    pub agent: AgentState,
    /// The second agent's pixels; `None` when it is not in view.
    pub silhouette: Option<Mask>,
    /// Ids of the surfaces in view, ascending, each once.
    pub visible_faces: Vec<u32>,
    /// What is in view in which state.
    pub states: VisibleStates,
    /// Sound that accompanies this frame, left and right in [−1, 1]:
    /// [`crate::DatasetDescription::audio_start`] says how many samples. Empty without audio.
    pub audio: Vec<[f32; 2]>,
    /// The numbers of the columns that the episode has besides those of the format, one after another.
    pub numbers: Vec<f32>,
}

impl Frame {
    /// A frame with a picture and nothing else.
    pub fn new(time: f64, pose: impl Into<Option<Pose>>, phase: Phase, image: FrameImage) -> Self {
        Self {
            time,
            pose: pose.into(),
            action: None,
            phase,
            image,
            events: Vec::new(),
            door_fraction: None,
            change: None,
            agent: AgentState::default(),
            silhouette: None,
            visible_faces: Vec::new(),
            states: VisibleStates { pose_key: -1, ..VisibleStates::default() },
            audio: Vec::new(),
            numbers: Vec::new(),
        }
    }
}
