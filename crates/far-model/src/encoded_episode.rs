//! One episode as the models see it.

use crate::world_model::signal_column::EpisodeSignals;
use crate::{ActionFeatures, ConditionScale, Remembered};
use far_memory::{Displacement, Pose, Snapshot};
use std::sync::Arc;

/// One episode with latents and keys.
pub struct EncodedEpisode {
    pub(crate) id: u32,
    pub(crate) boundary: usize,
    pub(crate) times: Vec<f64>,
    /// Where actions lead, in a dataset without poses.
    pub(crate) poses: Vec<Pose>,
    /// Whether these poses are known.
    pub(crate) posed: bool,
    pub(crate) elements: usize,
    pub(crate) latents: Vec<f32>,
    pub(crate) memory: Snapshot,
    pub(crate) inputs: Vec<CueInput>,
    pub(crate) signals: EpisodeSignals,
    /// Whose frames its memories are, one by one, where they are not its own first ones.
    pub(crate) lenders: Vec<(Arc<Self>, usize)>,
}

/// The rows of a cue that is not made of latents, one per frame.
pub(crate) struct CueInput {
    pub(crate) cue: String,
    pub(crate) width: usize,
    pub(crate) rows: Vec<f32>,
}

impl EncodedEpisode {
    /// The episode's number in the dataset.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Frames.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The first frame of the return: as many frames can be remembered.
    pub fn boundary(&self) -> usize {
        self.boundary
    }

    /// Times of all frames, in seconds.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// Cameras of all frames; empty in a dataset without poses.
    pub fn poses(&self) -> &[Pose] {
        if self.posed { &self.poses } else { &[] }
    }

    /// Where the actions between two frames lead: the second in the level frame of the first.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn way(&self, now: usize, goal: usize) -> Displacement {
        self.poses[goal].displacement_from(&self.poses[now])
    }

    /// The explore frames as a memory: record i is frame i, with the keys of every cue.
    pub fn memory(&self) -> &Snapshot {
        &self.memory
    }

    /// The latent of a frame.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn latent(&self, frame: usize) -> &[f32] {
        &self.latents[frame * self.elements..(frame + 1) * self.elements]
    }

    /// What the encoder of a cue reads of a frame: the rows of its feature, or else the latent.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn input(&self, cue: &str, frame: usize) -> &[f32] {
        match self.inputs.iter().find(|input| input.cue == cue) {
            Some(input) => &input.rows[frame * input.width..(frame + 1) * input.width],
            None => self.latent(frame),
        }
    }

    /// A frame as a memory that the world model reads.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn remembered(&self, frame: usize) -> Remembered<'_> {
        Remembered {
            time: self.times[frame],
            pose: self.posed.then_some(self.poses[frame]),
            latent: self.latent(frame),
            signals: self.signals.frame(frame),
        }
    }

    /// What was seen so many seconds before a memory, in the episode that it is from: the frame nearest in
    /// time to then, of two as near the earlier. `None` where the episode begins later, by half a frame or
    /// more, and where that is the memory itself.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn earlier(&self, frame: usize, seconds: f32) -> Option<Remembered<'_>> {
        if let Some((lender, own)) = self.lenders.get(frame) {
            return lender.earlier(*own, seconds);
        }
        let past = &self.times[..=frame];
        let then = past[frame] - f64::from(seconds);
        let next = past.partition_point(|time| *time < then);
        if next == 0 {
            let step = past.get(1)? - past[0];
            return (past[0] - then < 0.5 * step && frame > 0).then(|| self.remembered(0));
        }
        let nearest = if past[next] - then < then - past[next - 1] { next } else { next - 1 };
        (nearest < frame).then(|| self.remembered(nearest))
    }

    /// The action that leads from frame `now` to frame `goal`, as encoders are given it.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn action(&self, scale: &ConditionScale, now: usize, goal: usize) -> ActionFeatures {
        let way = self.way(now, goal);
        let seconds = (self.times[goal] - self.times[now]) as f32;
        ActionFeatures::new(scale, way, seconds, &self.signals.action(now, goal))
    }

    /// The state that was observed in a frame and a little earlier; empty where the corpus has none.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn state(&self, frame: usize) -> &[f32] {
        self.signals.frame(frame).state
    }

    /// Whether a frame observed something that its state describes.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn is_informative(&self, frame: usize) -> bool {
        self.state(frame).first().is_some_and(|seen| *seen > 0.0)
    }

    /// How many frames earlier the second half of a state was.
    pub fn state_lag(&self) -> usize {
        self.signals.state_lag
    }
}
