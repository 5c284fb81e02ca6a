//! What a world model is given: the present, the memories, and the way to the goal.
//!
//! Poses are re-centered on the current frame and, again, on the goal's, at every prediction; the
//! current frame is the identity of the first, the target of the second. Times count from now.

use crate::world_model::frame_condition::{ContextFrame, FrameCondition, Goal};
use crate::world_model::signal::{FrameSignals, SignalLayout};
use crate::{ConditionScale, Error, LatentShape, POSE_FEATURES, PredictionQuery, Result};
use far_memory::Pose;
use std::borrow::Cow;

/// A pose in the axes of the camera that has it: what memories without a pose get.
const ON_THE_SPOT: Pose = Pose { position: [0.0; 3], rotation: [1.0, 0.0, 0.0, 0.0] };

/// A memory as the world model reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remembered<'a> {
    /// When it was seen, in seconds.
    pub time: f64,
    /// Where from, where that is known.
    pub pose: Option<Pose>,
    /// What was seen, as tokens.
    pub latent: &'a [f32],
    /// Its further signals.
    pub signals: FrameSignals<'a>,
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
    signals: SignalLayout,
    examples: usize,
    latents: Vec<Cow<'a, [f32]>>,
    /// What an empty slot shows.
    nothing: Vec<f32>,
    present: Vec<bool>,
    conditions: Vec<FrameCondition>,
    /// Poses as they were given, [B, 2 + K].
    cameras: Vec<Option<Pose>>,
    /// Poses of context frames in the axes of their goals' cameras.
    views: Vec<Pose>,
    strides: Vec<f32>,
    /// [B, action].
    actions: Vec<f32>,
    /// Offsets from the goals' viewpoints, [B, 1 + K, viewpoint].
    viewpoints: Vec<f32>,
    /// [B, 1 + K, state].
    states: Vec<f32>,
}

impl<'a> ContextBatch<'a> {
    /// No prediction yet.
    pub fn new(
        shape: LatentShape,
        scale: ConditionScale,
        slots: usize,
        signals: SignalLayout,
    ) -> Self {
        Self {
            shape,
            scale,
            slots,
            signals,
            examples: 0,
            latents: Vec::new(),
            nothing: vec![0.0; shape.elements()],
            present: Vec::new(),
            conditions: Vec::new(),
            cameras: Vec::new(),
            views: Vec::new(),
            strides: Vec::new(),
            actions: Vec::new(),
            viewpoints: Vec::new(),
            states: Vec::new(),
        }
    }

    /// Adds a prediction with the latent of the current frame and at most as many memories as there
    /// are slots.
    ///
    /// # Errors
    /// If a latent has the wrong length, there are too many memories, or the signals of the query or of
    /// a memory do not have the widths of this batch's layout.
    pub fn push(
        &mut self,
        query: &PredictionQuery<'_>,
        current: &'a [f32],
        memories: impl IntoIterator<Item = Remembered<'a>>,
    ) -> Result<()> {
        let elements = self.shape.elements();
        Error::check_length("the current latent", current.len(), elements)?;
        let SignalLayout { action, viewpoint, .. } = self.signals;
        Error::check_length("the signals of an action", query.action.len(), action.width)?;
        let goal_viewpoint = query.goal_viewpoint.len();
        Error::check_length("the goal's viewpoint", goal_viewpoint, viewpoint.width)?;
        self.check_signals(&query.present)?;
        self.latents.push(Cow::Borrowed(current));
        self.condition(query, Some(&query.goal), query.stride);
        self.condition(query, Some(&query.pose), 0.0);
        self.observe(query, Some(&query.pose), &query.present);
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
            self.check_signals(&memory.signals)?;
            self.latents.push(Cow::Borrowed(memory.latent));
            self.condition(query, memory.pose.as_ref(), (memory.time - query.time) as f32);
            self.observe(query, memory.pose.as_ref(), &memory.signals);
        }
        self.examples += 1;
        let frames = self.examples * (1 + self.slots);
        self.latents.resize(frames, Cow::Borrowed(&[]));
        self.views.resize(frames, Pose::identity());
        self.viewpoints.resize(frames * viewpoint.width, 0.0);
        self.states.resize(frames * self.signals.state.width, 0.0);
        self.conditions.resize(self.examples * (2 + self.slots), FrameCondition::default());
        self.cameras.resize(self.conditions.len(), None);
        self.present.extend((0..self.slots).map(|slot| slot < filled));
        self.strides.push(query.stride / self.scale.time);
        self.actions.extend_from_slice(&query.action);
        Ok(())
    }

    fn check_signals(&self, signals: &FrameSignals<'_>) -> Result<()> {
        let SignalLayout { viewpoint, state, .. } = self.signals;
        Error::check_length("a frame's viewpoint", signals.viewpoint.len(), viewpoint.width)?;
        Error::check_length("a frame's state", signals.state.len(), state.width)
    }

    /// Pose and time of the next frame. An unknown pose is all zeros, which no pose is.
    fn condition(&mut self, query: &PredictionQuery<'_>, pose: Option<&Pose>, seconds: f32) {
        let relative = |frame| {
            let features = |pose: &Pose| self.scale.pose_features(pose.displacement_from(frame));
            pose.map_or([0.0; POSE_FEATURES], features)
        };
        self.cameras.push(pose.copied());
        self.conditions.push(FrameCondition {
            from_current: relative(&query.pose),
            from_goal: relative(&query.goal),
            time: seconds / self.scale.time,
        });
    }

    /// What else is known of the next context frame.
    fn observe(
        &mut self,
        query: &PredictionQuery<'_>,
        pose: Option<&Pose>,
        signals: &FrameSignals<'_>,
    ) {
        self.views.push(pose.map_or(ON_THE_SPOT, |pose| pose.relative_to(&query.goal)));
        let offsets = signals.viewpoint.iter().zip(query.goal_viewpoint);
        self.viewpoints.extend(offsets.map(|(own, goal)| own - goal));
        self.states.extend_from_slice(signals.state);
    }

    /// The same contexts with latents of their own.
    pub fn into_owned(self) -> ContextBatch<'static> {
        let own = |latent: Cow<'_, [f32]>| Cow::Owned(latent.into_owned());
        ContextBatch {
            latents: self.latents.into_iter().map(own).collect(),
            shape: self.shape,
            scale: self.scale,
            slots: self.slots,
            signals: self.signals,
            examples: self.examples,
            nothing: self.nothing,
            present: self.present,
            conditions: self.conditions,
            cameras: self.cameras,
            views: self.views,
            strides: self.strides,
            actions: self.actions,
            viewpoints: self.viewpoints,
            states: self.states,
        }
    }

    /// The latent of a context frame, counted over all predictions: [B, 1 + K].
    pub(crate) fn latent(&self, frame: usize) -> &[f32] {
        let latent = &self.latents[frame];
        if latent.is_empty() { &self.nothing } else { latent }
    }

    /// The conditioning of a context frame, counted over all predictions.
    pub(crate) fn frame(&self, frame: usize) -> ContextFrame<'_> {
        let frames = 1 + self.slots;
        let SignalLayout { viewpoint, state, .. } = self.signals;
        let row = |width: usize| frame * width..(frame + 1) * width;
        ContextFrame {
            condition: &self.conditions[frame / frames * (frames + 1) + 1 + frame % frames],
            viewpoint: &self.viewpoints[row(viewpoint.width)],
            state: &self.states[row(state.width)],
        }
    }

    /// The pose of a context frame in the axes of its goal's camera.
    pub(crate) fn view(&self, frame: usize) -> Pose {
        self.views[frame]
    }

    /// Whether two context frames show the same under the same conditioning.
    pub(crate) fn same_frame(&self, a: usize, b: usize) -> bool {
        let [first, second] = [a, b].map(|frame| self.latent(frame));
        self.frame(a) == self.frame(b)
            && self.views[a] == self.views[b]
            && (std::ptr::eq(first, second) || first == second)
    }

    /// The conditioning of a prediction's target.
    pub(crate) fn goal(&self, example: usize) -> Goal<'_> {
        let width = self.signals.action.width;
        Goal {
            condition: &self.conditions[example * (2 + self.slots)],
            stride: self.strides[example],
            action: &self.actions[example * width..(example + 1) * width],
        }
    }

    /// The channels beyond poses and times.
    pub fn signals(&self) -> SignalLayout {
        self.signals
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

    /// Cameras in the world, [B, 2 + K]: target, current, slots; `None` in empty slots and where no pose is
    /// known. World models of other programs, which re-center poses by themselves, read these.
    pub fn cameras(&self) -> &[Option<Pose>] {
        &self.cameras
    }

    /// States of the current frame and the slots, [B, 1 + K, state]; zeros in empty slots.
    pub fn states(&self) -> &[f32] {
        &self.states
    }
}

#[cfg(test)]
mod tests;
