//! One training example: what a query may know, what memory holds, and what came next.

use std::sync::Arc;

use far_memory::{Displacement, Pose};

use crate::Episode;

/// A training example. Only training ever holds one: its future is kept apart from its query, so
/// that recall, which sees the query and the memory, cannot see what came next.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingExample {
    /// What recall and the world model may know.
    pub query: ExampleQuery,
    /// What can be recalled.
    pub memory: MemoryPool,
    /// What came next: the target of the loss and the judge of utility.
    pub future: Future,
    /// What the pair was drawn around.
    pub anchor: Anchor,
}

/// The present and the goal, without the goal's observation.
#[derive(Clone, Debug, PartialEq)]
pub struct ExampleQuery {
    /// The episode.
    pub episode: u32,
    /// Index of the current frame.
    pub current: u32,
    /// The current camera; `None` in a dataset without poses, as the goal.
    pub pose: Option<Pose>,
    /// The camera at the goal, which the action leads to.
    pub goal: Option<Pose>,
    /// The action: the goal in the level frame of the current camera; without poses, where the actions
    /// on the way lead.
    pub action: Displacement,
    /// Frames between current frame and goal.
    pub stride: u32,
    /// Labels of what happens on the way to the goal, ascending, each once: given to the generator
    /// because camera motion alone does not say it.
    pub events: Vec<u16>,
    /// How far the acted door is open at the goal, given for the same reason.
    pub door_fraction: Option<f32>,
}

/// Frames that can be recalled, ascending in time; shared by the goals of an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPool {
    /// Indices of frames in the query's episode.
    pub frames: Arc<[u32]>,
}

/// The observation that the world model is to predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Future {
    /// Index of the goal's frame in the query's episode.
    pub frame: u32,
}

/// What a pair was drawn around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Nothing: any frame of the return phase.
    None,
    /// An event at this frame, between current frame and goal.
    Event(u32),
    /// A passage that this is the last frame of.
    Reveal(u32),
}

impl TrainingExample {
    /// The example of a pair of frames of an open episode.
    pub(crate) fn new(
        episode: &Episode,
        current: u32,
        target: u32,
        pool: Arc<[u32]>,
        anchor: Anchor,
    ) -> Self {
        let [pose, goal] = [current, target].map(|frame| episode.pose(frame as usize));
        let action = match pose.zip(goal) {
            Some((pose, goal)) => goal.displacement_from(&pose),
            None => {
                let steps = (current + 1..=target).map(|frame| episode.action(frame as usize));
                let start = Pose::identity();
                steps.fold(start, |pose, step| pose.advanced(&step)).displacement_from(&start)
            }
        };
        let mut events: Vec<u16> = (current + 1..=target)
            .flat_map(|frame| episode.events(frame as usize).iter().copied())
            .collect();
        events.sort_unstable();
        events.dedup();
        Self {
            query: ExampleQuery {
                episode: episode.id(),
                current,
                pose,
                goal,
                action,
                stride: target - current,
                events,
                door_fraction: episode.door_fraction(target as usize),
            },
            memory: MemoryPool { frames: pool },
            future: Future { frame: target },
            anchor,
        }
    }
}
