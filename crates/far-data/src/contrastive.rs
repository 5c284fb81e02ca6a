//! Pairs for the pretraining of retrieval encoders: frames near the goal against the rest.

use far_memory::{Pose, wrap_angle};
use rand::seq::index::sample;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

use crate::stream::stream;
use crate::{
    DataError, Dataset, Episode, ExampleQuery, Result, SamplingConfig, Signal, Split, SplitRule,
    TrainingExample, TrainingSampler, last_crossing,
};

/// Episodes drawn in the place of one without a crossing before giving up.
const ATTEMPTS: u32 = 64;

/// Frames of a dataset without poses are near each other within this time.
const NEAR_SECONDS: f64 = 0.5;

/// Which frames an episode's positives and negatives are drawn from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContrastiveFrames {
    /// All frames, so that the view at the goal is a positive itself: the paper's equation draws a
    /// query toward the key of what is seen next.
    #[default]
    Episode,
    /// Explore frames: what can be recalled. Where none is near the goal, the nearest stands in.
    Memory,
}

/// What makes a frame a positive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContrastiveRule {
    /// It was taken near the goal.
    #[default]
    Place,
    /// It shows the second agent in its last crossing before the present. Paper: dyn.
    Agent,
}

far_memory::settings! {
    /// How pretraining examples are drawn.
    pub struct ContrastiveConfig {
        /// Seed of the stream.
        pub seed: u64 = 0,
        /// Rule that says which episodes train; the dataset's first rule when absent.
        pub split_rule: Option<SplitRule> = None,
        /// Part of the dataset to draw from.
        pub split: Split = Split::Train,
        /// Queries per step; the paper gives none, 64 as in joint training.
        pub batch: u32 = 64,
        /// Largest number of frames between current frame and goal.
        pub horizon: u32 = 128,
        /// Which frames positives and negatives are drawn from.
        pub frames: ContrastiveFrames = ContrastiveFrames::default(),
        /// What makes a frame a positive.
        pub rule: ContrastiveRule = ContrastiveRule::default(),
        /// Most positives per query (8).
        pub positives: u32 = 8,
        /// Most negatives per query (24).
        pub negatives: u32 = 24,
        /// A frame within this many meters of the goal is positive; the paper gives no number. Without poses,
        /// a frame within half a second is.
        pub radius: f32 = 1.0,
        /// Largest difference in heading of a positive in degrees; `None` for any heading, as the paper
        /// has it for sound.
        pub heading: Option<f32> = Some(45.0),
        /// Largest difference in how far the acted door is open, of a positive and the goal; `None` for
        /// any. Up to half of the negatives then are frames of the same place with another door.
        pub door: Option<f32> = None,
    }
}

impl ContrastiveConfig {
    /// Whether a frame at `pose` was taken near `goal`.
    fn is_near(&self, pose: &Pose, goal: &Pose) -> bool {
        let turned = wrap_angle(pose.yaw() - goal.yaw()).abs().to_degrees();
        pose.distance(goal) <= self.radius && self.heading.is_none_or(|limit| turned <= limit)
    }
}

/// One query with frames that belong to its goal and frames that do not.
#[derive(Clone, Debug, PartialEq)]
pub struct ContrastiveExample {
    /// The present and the goal.
    pub query: ExampleQuery,
    /// Frames near the goal other than the current one, or of the agent's last crossing, ascending,
    /// at least one.
    pub positives: Vec<u32>,
    /// Other frames of the same episode, ascending: an encoder that only tells episodes apart
    /// gains nothing.
    pub negatives: Vec<u32>,
}

/// The frames of an episode as a goal sees them.
struct Sorted {
    /// Positives.
    near: Vec<u32>,
    /// Of the same place, but with another door: the negatives to learn most from.
    alike: Vec<u32>,
    /// All others.
    far: Vec<u32>,
}

/// Draws pretraining examples; any step at any time, like [`TrainingSampler`].
pub struct ContrastiveSampler<'a> {
    dataset: &'a Dataset,
    config: ContrastiveConfig,
    queries: TrainingSampler<'a>,
    /// By episode the frames of the last crossing that can be remembered; only for the rule `agent`.
    crossings: HashMap<u32, Vec<u32>>,
}

impl<'a> ContrastiveSampler<'a> {
    /// A sampler over `dataset`.
    pub fn new(dataset: &'a Dataset, config: ContrastiveConfig) -> Result<Self> {
        for (setting, value) in [("positives", config.positives), ("negatives", config.negatives)] {
            if value == 0 {
                return Err(DataError::Setting { setting, reason: "must be at least 1".into() });
            }
        }
        if config.door.is_some() && !dataset.description().has(Signal::DoorFraction) {
            let reason = "the dataset does not say how far doors are open".into();
            return Err(DataError::Setting { setting: "door", reason });
        }
        let queries = SamplingConfig {
            seed: config.seed,
            split_rule: config.split_rule,
            split: config.split,
            batch: config.batch,
            goals_per_observation: 1,
            horizon: config.horizon,
            pool: u32::MAX,
            anchor: None,
        };
        let crossings = match config.rule {
            ContrastiveRule::Place => HashMap::new(),
            ContrastiveRule::Agent => crossings(dataset, &queries)?,
        };
        let queries = TrainingSampler::new(dataset, queries)?;
        Ok(Self { dataset, config, queries, crossings })
    }

    /// All examples of a step, in order.
    pub fn batch(&self, step: u64) -> Result<Vec<ContrastiveExample>> {
        let examples = match self.config.rule {
            ContrastiveRule::Place => self.queries.batch(step)?,
            ContrastiveRule::Agent => self.crossed(step)?,
        };
        let drawn = examples.into_iter().enumerate().map(|(number, example)| {
            let episode = self.dataset.episode(example.query.episode)?;
            let (query, memory) = (example.query, example.memory.frames);
            let frames = match self.config.frames {
                ContrastiveFrames::Episode => (0..episode.len() as u32).collect(),
                ContrastiveFrames::Memory => memory,
            };
            let Sorted { near, alike, far } = match self.config.rule {
                ContrastiveRule::Place => self.by_place(&episode, &query, &frames),
                ContrastiveRule::Agent => {
                    let shown = &self.crossings[&query.episode];
                    let (near, far) = frames.iter().partition(|&frame| shown.contains(frame));
                    Sorted { near, alike: Vec::new(), far }
                }
            };
            let choose = |frames: &[u32], most: u32, purpose| {
                let mut random = stream(self.config.seed, purpose, step, number as u64);
                let amount = frames.len().min(most as usize);
                let chosen = sample(&mut random, frames.len(), amount);
                let mut chosen: Vec<u32> = chosen.iter().map(|index| frames[index]).collect();
                chosen.sort_unstable();
                chosen
            };
            let positives = choose(&near, self.config.positives, "positive");
            let mut negatives = choose(&alike, self.config.negatives / 2, "alike");
            let others = self.config.negatives - negatives.len() as u32;
            negatives.extend(choose(&far, others, "negative"));
            negatives.sort_unstable();
            Ok(ContrastiveExample { query, positives, negatives })
        });
        drawn.collect()
    }

    fn by_place(&self, episode: &Episode, query: &ExampleQuery, frames: &[u32]) -> Sorted {
        let Some(goal) = query.goal else { return by_time(episode, query, frames) };
        let pose = |frame: u32| &episode.poses()[frame as usize];
        let door = |frame: u32| episode.door_fraction(frame as usize).unwrap_or(0.0);
        let goal_door = door(query.current + query.stride);
        let shows_the_door = |frame: &u32| {
            self.config.door.is_none_or(|limit| (door(*frame) - goal_door).abs() <= limit)
        };
        let (placed, mut far): (Vec<u32>, Vec<u32>) =
            frames.iter().partition(|&&frame| self.config.is_near(pose(frame), &goal));
        let (mut near, mut alike): (Vec<u32>, Vec<u32>) =
            placed.into_iter().partition(shows_the_door);
        // What is seen now tells nothing of what an action leads to.
        near.retain(|frame| *frame != query.current);
        if near.is_empty() {
            // Memory holds nothing near the goal: the nearest there is must do.
            let distance = |frame: &u32| pose(*frame).distance(&goal);
            near.extend(frames.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))));
            far.retain(|frame| !near.contains(frame));
            alike.retain(|frame| !near.contains(frame));
        }
        Sorted { near, alike, far }
    }

    /// The examples of a step whose episodes show a crossing; one that does not is drawn again.
    fn crossed(&self, step: u64) -> Result<Vec<TrainingExample>> {
        let batch = self.config.batch;
        let draw = |number: u32| {
            for attempt in 0..ATTEMPTS {
                let place = number + attempt * batch;
                for example in self.queries.observation(step, place)? {
                    if self.crossings.contains_key(&example.query.episode) {
                        return Ok(example);
                    }
                }
            }
            let reason = format!("{ATTEMPTS} episodes drawn at random show no second agent");
            Err(DataError::Setting { setting: "rule", reason })
        };
        (0..batch).into_par_iter().map(draw).collect()
    }
}

/// Without poses, what was seen within half a second of the goal is near it; the present is not, and
/// where memory holds nothing so new, its newest frame must do.
fn by_time(episode: &Episode, query: &ExampleQuery, frames: &[u32]) -> Sorted {
    let times = episode.times();
    let goal = times[(query.current + query.stride) as usize];
    let gap = |frame: u32| (times[frame as usize] - goal).abs();
    let (mut near, mut far): (Vec<u32>, Vec<u32>) =
        frames.iter().partition(|&&frame| gap(frame) <= NEAR_SECONDS);
    near.retain(|frame| *frame != query.current);
    if near.is_empty() {
        near.extend(frames.iter().min_by(|a, b| gap(**a).total_cmp(&gap(**b))));
        far.retain(|frame| !near.contains(frame));
    }
    Sorted { near, alike: Vec::new(), far }
}

/// The frames of each episode's last crossing before its return; episodes without one are left out.
fn crossings(dataset: &Dataset, queries: &SamplingConfig) -> Result<HashMap<u32, Vec<u32>>> {
    let episodes = dataset.select(queries.split_rule, queries.split)?;
    let found = episodes.into_par_iter().map(|id| {
        let episode = dataset.episode(id)?;
        let frames = last_crossing(&episode, episode.boundary());
        Ok((id, frames.into_iter().map(|frame| frame as u32).collect::<Vec<_>>()))
    });
    let found: Vec<(u32, Vec<u32>)> = found.collect::<Result<_>>()?;
    Ok(found.into_iter().filter(|(_, frames)| !frames.is_empty()).collect())
}
