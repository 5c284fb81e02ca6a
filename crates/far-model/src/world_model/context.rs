//! What a world model is given: the present, the memories, and the way to the goal.
//!
//! Poses are re-centered on the current frame and, again, on the goal's, at every prediction; the
//! current frame is the identity of the first, the target of the second. Times count from now.

use crate::LatentShape;
use crate::{Error, Result};
use far_data::Dataset;
use far_memory::{Displacement, Pose};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Numbers that say how one pose lies in the frame of another.
pub const POSE_FEATURES: usize = 7;

/// Units of the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionScale {
    /// Meters that count as 1: about the root mean square of displacements in the training split.
    pub length: f32,
    /// Seconds that count as 1: 128 frames of the corpus.
    pub time: f32,
}

impl ConditionScale {
    /// The units for a dataset: as length the root mean square of the distance covered in 8, 16, 24
    /// and 32 frames of these episodes, which is about as far as goals and useful memories lie, as
    /// time 128 frames.
    ///
    /// # Errors
    /// If an episode cannot be read.
    pub fn of_dataset(dataset: &Dataset, episodes: &[u32]) -> Result<Self> {
        let (mut squares, mut pairs) = (0.0, 0usize);
        for id in episodes {
            let episode = dataset.episode(*id)?;
            let poses = episode.poses();
            for gap in [8, 16, 24, 32] {
                for (from, to) in poses.iter().zip(poses.iter().skip(gap)) {
                    squares += f64::from(from.distance(to)).powi(2);
                    pairs += 1;
                }
            }
        }
        let length = (squares / pairs.max(1) as f64).sqrt() as f32;
        // A camera that never moves has no unit of length; any will do.
        let length = if length > 1e-3 { length } else { 1.0 };
        Ok(Self { length, time: 128.0 / dataset.description().fps })
    }

    /// How a displacement is told to a network: meters in units of length, angles as sine and cosine.
    pub fn pose_features(&self, displacement: Displacement) -> [f32; POSE_FEATURES] {
        let Displacement { forward, left, up, turn, tilt } = displacement;
        let [forward, left, up] = [forward, left, up].map(|meters| meters / self.length);
        [forward, left, up, turn.sin(), turn.cos(), tilt.sin(), tilt.cos()]
    }
}

/// The present and where it leads, without what will be seen there.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictionQuery {
    /// The time now, in seconds.
    pub time: f64,
    /// The current camera.
    pub pose: Pose,
    /// The camera at the goal.
    pub goal: Pose,
    /// Seconds to the goal.
    pub stride: f32,
    /// What else the generator is told of the way (multi-hot interactions, door fraction); as many
    /// numbers as the model was built for, usually none.
    pub signals: Vec<f32>,
    /// Where a second agent is now and was a little earlier, as far as it was seen; as many numbers
    /// as the states that the model was built for, usually none.
    pub state: Vec<f32>,
    /// How far the acted door is open now and at the goal; zeros where doors are not told of.
    pub doors: [f32; 2],
    /// The first half of the state at the goal: the truth in training, absent when it is to be
    /// predicted.
    pub goal_state: Option<Vec<f32>>,
}

impl PredictionQuery {
    /// The action: the goal in the level frame of the current camera.
    pub fn action(&self) -> Displacement {
        self.goal.displacement_from(&self.pose)
    }
}

/// A memory as the world model reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remembered<'a> {
    /// When it was seen, in seconds.
    pub time: f64,
    /// Where from.
    pub pose: Pose,
    /// What was seen, as tokens.
    pub latent: &'a [f32],
    /// Where a second agent was then and a little earlier; usually nothing.
    pub state: &'a [f32],
    /// How far the acted door was open then, 0 to 1; 0 where doors are not told of.
    pub door: f32,
}

/// Where and when one frame of a context lies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrameCondition {
    /// Its pose from the current frame.
    pub from_current: [f32; POSE_FEATURES],
    /// Its pose from the goal.
    pub from_goal: [f32; POSE_FEATURES],
    /// Its time after the current frame, in units of time; memories have negative ones.
    pub time: f32,
    /// How much farther the acted door is open in it than at the goal.
    pub door: f32,
}

/// Contexts of several predictions, all with the same number of slots; empty slots are masked.
///
/// Frames are in the order target, current, slot 0, slot 1, …; the target has a condition and no
/// latent. Latents stay where they are until a world model reads them: hundreds of candidates are
/// credited in one batch, most of whose frames are one and the same present.
#[derive(Clone, Debug)]
pub struct ContextBatch<'a> {
    shape: LatentShape,
    scale: ConditionScale,
    slots: usize,
    told: ContextTold,
    examples: usize,
    latents: Vec<Cow<'a, [f32]>>,
    /// What an empty slot shows.
    nothing: Vec<f32>,
    present: Vec<bool>,
    conditions: Vec<FrameCondition>,
    /// Poses of context frames in the axes of their goals' cameras.
    views: Vec<Pose>,
    strides: Vec<f32>,
    signal_values: Vec<f32>,
    states: Vec<f32>,
    goal_states: Vec<f32>,
}

/// How many numbers contexts have beyond latents, poses and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextTold {
    /// Further signals of a query.
    pub signals: usize,
    /// Numbers of the state of a frame; the goal's has half as many.
    pub states: usize,
}

impl ContextTold {
    /// Where the state of a context frame lies among all.
    fn state(&self, frame: usize) -> std::ops::Range<usize> {
        frame * self.states..(frame + 1) * self.states
    }
}

impl<'a> ContextBatch<'a> {
    /// No prediction yet.
    pub fn new(shape: LatentShape, scale: ConditionScale, slots: usize, told: ContextTold) -> Self {
        Self {
            shape,
            scale,
            slots,
            told,
            examples: 0,
            latents: Vec::new(),
            nothing: vec![0.0; shape.elements()],
            present: Vec::new(),
            conditions: Vec::new(),
            views: Vec::new(),
            strides: Vec::new(),
            signal_values: Vec::new(),
            states: Vec::new(),
            goal_states: Vec::new(),
        }
    }

    /// Adds a prediction with the latent of the current frame and at most as many memories as there
    /// are slots.
    ///
    /// # Errors
    /// If a latent has the wrong length, there are too many memories, or the query or a memory has not
    /// as many signals and states as this batch was made for.
    pub fn push(
        &mut self,
        query: &PredictionQuery,
        current: &'a [f32],
        memories: impl IntoIterator<Item = Remembered<'a>>,
    ) -> Result<()> {
        let elements = self.shape.elements();
        Error::check_length("the current latent", current.len(), elements)?;
        let ContextTold { signals, states } = self.told;
        Error::check_length("the signals of a query", query.signals.len(), signals)?;
        Error::check_length("the state of the present", query.state.len(), states)?;
        let goal_state = query.goal_state.as_ref().map_or(states / 2, Vec::len);
        Error::check_length("the state at the goal", goal_state, states / 2)?;
        self.latents.push(Cow::Borrowed(current));
        self.states.extend_from_slice(&query.state);
        let [door, goal_door] = query.doors;
        self.condition(query, &query.goal, query.stride, goal_door);
        self.condition(query, &query.pose, 0.0, door);
        self.views.push(query.pose.relative_to(&query.goal));
        let mut filled = 0;
        for memory in memories {
            Error::check_length("the latent of a memory", memory.latent.len(), elements)?;
            filled += 1;
            if filled > self.slots {
                return Err(Error::Length {
                    what: "the context",
                    found: filled,
                    expected: self.slots,
                });
            }
            Error::check_length("the state of a memory", memory.state.len(), states)?;
            self.latents.push(Cow::Borrowed(memory.latent));
            self.states.extend_from_slice(memory.state);
            self.condition(query, &memory.pose, (memory.time - query.time) as f32, memory.door);
            self.views.push(memory.pose.relative_to(&query.goal));
        }
        self.examples += 1;
        self.latents.resize(self.examples * (1 + self.slots), Cow::Borrowed(&[]));
        self.states.resize(self.examples * (1 + self.slots) * states, 0.0);
        self.conditions.resize(self.examples * (2 + self.slots), FrameCondition::default());
        self.views.resize(self.examples * (1 + self.slots), Pose::identity());
        self.present.extend((0..self.slots).map(|slot| slot < filled));
        self.strides.push(query.stride / self.scale.time);
        self.signal_values.extend_from_slice(&query.signals);
        match &query.goal_state {
            Some(state) => self.goal_states.extend_from_slice(state),
            None => self.goal_states.extend(std::iter::repeat_n(f32::NAN, states / 2)),
        }
        Ok(())
    }

    fn condition(&mut self, query: &PredictionQuery, pose: &Pose, seconds: f32, door: f32) {
        let relative = |frame| self.scale.pose_features(pose.displacement_from(frame));
        self.conditions.push(FrameCondition {
            from_current: relative(&query.pose),
            from_goal: relative(&query.goal),
            time: seconds / self.scale.time,
            door: door - query.doors[1],
        });
    }

    /// The same with latents of its own.
    pub fn into_owned(self) -> ContextBatch<'static> {
        let own = |latent: Cow<'_, [f32]>| Cow::Owned(latent.into_owned());
        ContextBatch {
            latents: self.latents.into_iter().map(own).collect(),
            shape: self.shape,
            scale: self.scale,
            slots: self.slots,
            told: self.told,
            examples: self.examples,
            nothing: self.nothing,
            present: self.present,
            conditions: self.conditions,
            views: self.views,
            strides: self.strides,
            signal_values: self.signal_values,
            states: self.states,
            goal_states: self.goal_states,
        }
    }

    /// The latent of a context frame, counted over all predictions: [B, 1 + K].
    pub(crate) fn latent(&self, frame: usize) -> &[f32] {
        let latent = &self.latents[frame];
        if latent.is_empty() { &self.nothing } else { latent }
    }

    /// Where and when a context frame lies, and its state.
    pub(crate) fn condition_and_state(&self, frame: usize) -> (&FrameCondition, &[f32]) {
        let frames = 1 + self.slots;
        let condition = frame / frames * (frames + 1) + 1 + frame % frames;
        (&self.conditions[condition], &self.states[self.told.state(frame)])
    }

    /// The pose of a context frame in the axes of its goal's camera.
    pub(crate) fn view(&self, frame: usize) -> Pose {
        self.views[frame]
    }

    /// Whether two context frames are told the same and show the same.
    pub(crate) fn same_frame(&self, a: usize, b: usize) -> bool {
        let [first, second] = [a, b].map(|frame| self.latent(frame));
        self.condition_and_state(a) == self.condition_and_state(b)
            && self.views[a] == self.views[b]
            && (std::ptr::eq(first, second) || first == second)
    }

    /// What a target is told: its condition, the time to it, further signals, and the state there.
    pub(crate) fn goal(&self, example: usize) -> (&FrameCondition, f32, &[f32], &[f32]) {
        let ContextTold { signals, states } = self.told;
        let signals = &self.signal_values[example * signals..(example + 1) * signals];
        let state = &self.goal_states[example * (states / 2)..(example + 1) * (states / 2)];
        (&self.conditions[example * (2 + self.slots)], self.strides[example], signals, state)
    }

    /// The same with all states at the goals given, [B, states / 2].
    pub(crate) fn with_goal_states(&self, goal_states: Vec<f32>) -> Self {
        Self { goal_states, ..self.clone() }
    }

    /// How many numbers there are beyond latents, poses and times.
    pub fn told(&self) -> ContextTold {
        self.told
    }

    /// Predictions B.
    pub fn examples(&self) -> usize {
        self.examples
    }

    /// Slots K for memories.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The shape of the latents.
    pub fn shape(&self) -> LatentShape {
        self.shape
    }

    /// Latents of the current frame and the slots, [B, 1 + K, E]; zeros in empty slots.
    pub fn latents(&self) -> Vec<f32> {
        (0..self.latents.len()).flat_map(|frame| self.latent(frame)).copied().collect()
    }

    /// Which slots hold a memory, [B, K].
    pub fn present(&self) -> &[bool] {
        &self.present
    }

    /// Where and when all frames lie, [B, 2 + K]: target, current, slots.
    pub fn conditions(&self) -> &[FrameCondition] {
        &self.conditions
    }

    /// Time to the goal by prediction, in units of time.
    pub fn strides(&self) -> &[f32] {
        &self.strides
    }

    /// States of the current frame and the slots, [B, 1 + K, states]; zeros in empty slots.
    pub fn states(&self) -> &[f32] {
        &self.states
    }

    /// States at the goals, [B, states / 2]: NaN where they are to be predicted.
    pub fn goal_states(&self) -> &[f32] {
        &self.goal_states
    }

    /// Further signals of the queries, [B, signals].
    pub fn signals(&self) -> &[f32] {
        &self.signal_values
    }
}

#[cfg(test)]
mod tests;
