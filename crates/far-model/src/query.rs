//! One query: how will frame `goal` of an episode look, asked at frame `now`?
//!
//! Everything that recall and the world model may know is derived here. The observation at the goal is
//! not: only [`Future::of`] reads it.

use crate::{ActionFeatures, ConditionScale, CueEncoder, EncodedEpisode, PredictionQuery, Result};
use far_memory::{Pool, RecallQuery};
use std::fmt;
use std::sync::Arc;

/// A prediction to be made: from frame `now` of an episode to frame `goal`.
#[derive(Clone)]
pub struct Query {
    episode: Arc<EncodedEpisode>,
    now: usize,
    goal: usize,
}

impl Query {
    /// A query about an episode.
    ///
    /// # Panics
    /// If there are no such frames.
    pub fn new(episode: Arc<EncodedEpisode>, now: usize, goal: usize) -> Self {
        assert!(now.max(goal) < episode.len(), "frames of the episode");
        Self { episode, now, goal }
    }

    /// The episode.
    pub fn episode(&self) -> &Arc<EncodedEpisode> {
        &self.episode
    }

    /// The present frame.
    pub fn now(&self) -> usize {
        self.now
    }

    /// The frame to be predicted.
    pub fn goal(&self) -> usize {
        self.goal
    }

    /// The query for the memory over a pool, without the embeddings of key cues.
    pub fn for_memory(&self, pool: Pool) -> RecallQuery {
        let (times, poses) = (self.episode.times(), self.episode.poses());
        let query = match (poses.get(self.now), poses.get(self.goal)) {
            (Some(now), Some(goal)) => {
                let horizon = &poses[(self.now + 1).min(self.goal)..=self.goal];
                RecallQuery::new(times[self.now], *now, *goal).with_horizon(horizon)
            }
            _ => RecallQuery::without_pose(times[self.now], self.episode.way(self.now, self.goal)),
        };
        query
            .with_stride((times[self.goal] - times[self.now]) as f32)
            .with_pool(pool)
            .with_seed(self.now as u64)
    }

    /// The query for the world model.
    pub fn for_model(&self) -> PredictionQuery<'_> {
        // Without poses, what the action is takes their place.
        let (times, poses) = (self.episode.times(), &self.episode.poses);
        PredictionQuery {
            time: times[self.now],
            pose: poses[self.now],
            goal: poses[self.goal],
            stride: (times[self.goal] - times[self.now]) as f32,
            action: self.episode.signals.action(self.now, self.goal),
            present: self.episode.signals.frame(self.now),
            goal_viewpoint: self.episode.signals.frame(self.goal).viewpoint,
        }
    }

    /// The present as it was recorded.
    pub fn recorded(&self) -> Present<'_> {
        let state = self.episode.state(self.now);
        Present { query: self, latent: self.episode.latent(self.now), state }
    }
}

/// Queries are equal that ask for the same frames of the same episode.
impl PartialEq for Query {
    fn eq(&self, other: &Self) -> bool {
        let key = |query: &Self| (query.episode.id(), query.now, query.goal);
        key(self) == key(other)
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { episode, now, goal } = self;
        write!(formatter, "episode {}, frame {now} to {goal}", episode.id())
    }
}

/// The present of a query as it is believed to be: recorded, or generated in a rollout.
#[derive(Clone, Copy)]
pub struct Present<'a> {
    /// The query.
    pub query: &'a Query,
    /// The latent of the current frame.
    pub latent: &'a [f32],
    /// The state of the current frame; empty where the corpus has none.
    pub state: &'a [f32],
}

impl<'a> Present<'a> {
    /// What the encoder of a cue reads. Cues that are not made of latents were really observed.
    fn input(&self, cue: &str) -> &'a [f32] {
        let query = self.query;
        let recorded = query.episode.inputs.iter().any(|input| input.cue == cue);
        if recorded { query.episode.input(cue, query.now) } else { self.latent }
    }
}

/// What really came next. Training and the oracle make it, to measure what a memory was worth; nothing
/// that recalls or samples takes one.
#[derive(Clone, Copy)]
pub struct Future<'a> {
    latent: &'a [f32],
    state: &'a [f32],
}

impl<'a> Future<'a> {
    /// The observation at the goal of a query.
    pub fn of(query: &'a Query) -> Self {
        let state = query.episode.state(query.goal);
        // A state is that of the frame and, behind it, of a little earlier.
        Self { latent: query.episode.latent(query.goal), state: &state[..state.len() / 2] }
    }
}

/// The futures of B predictions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Futures {
    /// Their latents, [B, E].
    pub latents: Vec<f32>,
    /// Their states, [B, goal_state]; empty where the corpus has none.
    pub states: Vec<f32>,
}

impl<'a> FromIterator<Future<'a>> for Futures {
    fn from_iter<T: IntoIterator<Item = Future<'a>>>(futures: T) -> Self {
        let (latents, states): (Vec<&[f32]>, Vec<&[f32]>) =
            futures.into_iter().map(|future| (future.latent, future.state)).unzip();
        Self { latents: latents.concat(), states: states.concat() }
    }
}

/// Gives queries for the memory the embeddings of key cues, by all encoders.
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
        .map(|(query, Present { query: Query { episode, now, goal }, .. })| {
            let signals = episode.signals.action(*now, *goal);
            ActionFeatures::new(scale, query.action, query.stride, &signals)
        })
        .collect();
    for encoder in encoders {
        let inputs: Vec<&[f32]> =
            presents.iter().map(|present| present.input(encoder.cue())).collect();
        let embeddings = encoder.queries(&inputs.concat(), &actions)?;
        for (query, embedding) in queries.iter_mut().zip(embeddings.chunks(encoder.dimension())) {
            query.set_key(encoder.cue(), embedding);
        }
    }
    Ok(())
}
