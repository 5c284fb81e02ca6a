//! One episode as the models see it.

use crate::world_model::told::Told;
use crate::{ActionFeatures, ConditionScale, CueEncoder, PredictionQuery, Remembered, Result};
use far_memory::{Pool, Pose, RecallQuery, Snapshot};
use std::sync::Arc;

/// One episode with latents and keys.
pub struct EncodedEpisode {
    pub(crate) id: u32,
    pub(crate) boundary: usize,
    pub(crate) times: Vec<f64>,
    pub(crate) poses: Vec<Pose>,
    pub(crate) elements: usize,
    pub(crate) latents: Vec<f32>,
    pub(crate) memory: Snapshot,
    pub(crate) inputs: Vec<CueInput>,
    pub(crate) told: Told,
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

    /// Cameras of all frames.
    pub fn poses(&self) -> &[Pose] {
        &self.poses
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
            pose: self.poses[frame],
            latent: self.latent(frame),
            state: self.told.state(frame),
            door: self.told.door(frame),
        }
    }

    /// What the world model reads of these memories.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn shown(
        &self,
        memories: impl IntoIterator<Item = usize>,
    ) -> impl Iterator<Item = Remembered<'_>> {
        memories.into_iter().map(|frame| self.remembered(frame))
    }

    /// What is told of the way from frame `current` to frame `goal` beyond poses and times; empty when
    /// nothing is.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn signals(&self, current: usize, goal: usize) -> Vec<f32> {
        self.told.signals(current, goal)
    }

    /// The action that leads from frame `current` to frame `goal`, as encoders are told of it.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn action(&self, scale: &ConditionScale, current: usize, goal: usize) -> ActionFeatures {
        let way = self.poses[goal].displacement_from(&self.poses[current]);
        let seconds = (self.times[goal] - self.times[current]) as f32;
        ActionFeatures::new(scale, way, seconds, &self.signals(current, goal))
    }

    /// Where a second agent was in a frame and a little earlier; empty when none is told of.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn state(&self, frame: usize) -> &[f32] {
        self.told.state(frame)
    }

    /// Whether a frame tells of a second agent in view.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn tells(&self, frame: usize) -> bool {
        self.state(frame).first().is_some_and(|seen| *seen > 0.0)
    }

    /// How many frames earlier the second half of a state was.
    pub fn state_lag(&self) -> usize {
        self.told.lag
    }

    /// The question of how frame `goal` looks, asked at frame `current`, for the world model. It
    /// knows nothing that is not known at `current`, but for what the action is told to be.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn prediction_query(&self, current: usize, goal: usize) -> PredictionQuery {
        PredictionQuery {
            time: self.times[current],
            pose: self.poses[current],
            goal: self.poses[goal],
            stride: (self.times[goal] - self.times[current]) as f32,
            signals: self.signals(current, goal),
            state: self.told.state(current).to_vec(),
            doors: [current, goal].map(|frame| self.told.door(frame)),
            goal_state: None,
        }
    }

    /// The same question with the truth about the second agent at the goal, for training.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn training_query(&self, current: usize, goal: usize) -> PredictionQuery {
        let state = self.told.state(goal);
        let goal_state = state[..state.len() / 2].to_vec();
        PredictionQuery {
            goal_state: (!goal_state.is_empty()).then_some(goal_state),
            ..self.prediction_query(current, goal)
        }
    }

    /// The same question for the memory, over the given pool and without the embeddings of key cues.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn recall_query(&self, current: usize, goal: usize, pool: Pool) -> RecallQuery {
        let horizon = &self.poses[(current + 1).min(goal)..=goal];
        RecallQuery::new(self.times[current], self.poses[current], self.poses[goal])
            .with_horizon(horizon)
            .with_stride((self.times[goal] - self.times[current]) as f32)
            .with_pool(pool)
            .with_seed(current as u64)
    }
}

/// The present of a query as it is believed to be: seen or generated, but heard for certain.
#[derive(Clone, Copy)]
pub struct Present<'a> {
    /// The episode.
    pub episode: &'a EncodedEpisode,
    /// The current frame.
    pub frame: usize,
    /// The frame that is asked for: encoders are told of the interactions until then.
    pub goal: usize,
    /// The latent of the current frame, recorded or generated.
    pub latent: &'a [f32],
}

impl<'a> Present<'a> {
    /// What the encoder of a cue reads.
    fn input(&self, cue: &str) -> &'a [f32] {
        let recorded = self.episode.inputs.iter().any(|input| input.cue == cue);
        if recorded { self.episode.input(cue, self.frame) } else { self.latent }
    }
}

/// Gives queries the embeddings of key cues: one query per present, all encoders.
///
/// # Errors
/// If an input does not fit its encoder.
pub fn embed_queries(
    encoders: &[Arc<dyn CueEncoder>],
    scale: &ConditionScale,
    presents: &[Present<'_>],
    queries: &mut [RecallQuery],
) -> Result<()> {
    let actions: Vec<ActionFeatures> = queries
        .iter()
        .zip(presents)
        .map(|(query, present)| {
            let signals = present.episode.signals(present.frame, present.goal);
            ActionFeatures::new(scale, query.action, query.stride, &signals)
        })
        .collect();
    for encoder in encoders {
        let inputs = presents.iter().flat_map(|present| present.input(encoder.cue()));
        let inputs: Vec<f32> = inputs.copied().collect();
        let embeddings = encoder.queries(&inputs, &actions)?;
        for (query, embedding) in queries.iter_mut().zip(embeddings.chunks(encoder.dimension())) {
            query.set_key(encoder.cue(), embedding);
        }
    }
    Ok(())
}
