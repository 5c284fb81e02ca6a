//! How an evaluation is made.

use far_model::DdimConfig;
use serde::{Deserialize, Serialize};

/// What every arm gets alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationSettings {
    /// How an episode is walked: frames between two generated ones, and the most memories.
    pub walk: far_data::EvaluationConfig,
    /// Memories per recall (paper: 11 at evaluation, 3 in training).
    pub slots: usize,
    /// How futures are sampled.
    pub sampler: DdimConfig,
    /// The most clips; all if absent.
    pub clips: Option<usize>,
    /// The most generated frames per clip; the whole return if absent. A rollout that is cut short
    /// never arrives, so it has no value at loop closure.
    pub steps: Option<usize>,
    /// Questions per clip for one-step prediction and recall quality, evenly spaced over the return.
    pub questions: usize,
    /// The most frames from the present to the goal of a question, as in training.
    pub horizon: usize,
    /// How the utility of memories is measured.
    pub utility: UtilityConfig,
    /// How many clips are kept for looking at.
    pub replays: usize,
    /// Clips that advance together; decides memory and speed, never results.
    pub batch: usize,
    /// Seed of noise, questions and intervals.
    pub seed: u64,
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        Self {
            walk: far_data::EvaluationConfig::default(),
            slots: 3,
            sampler: DdimConfig::default(),
            clips: None,
            steps: None,
            questions: 4,
            horizon: 32,
            utility: UtilityConfig::default(),
            replays: 3,
            batch: 16,
            seed: 0,
        }
    }
}

/// How the utility of memories is measured at evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UtilityConfig {
    /// Perturbations S of the future, from as many equal parts of `timesteps` (paper: 4).
    pub draws: usize,
    /// The first step of the noise schedule that is drawn and the one after the last.
    pub timesteps: [usize; 2],
    /// The most memories of the pool that are measured, evenly spaced. What any arm recalled is
    /// measured besides, and does not count into the mean of the pool.
    pub candidates: usize,
    /// The oracle takes at most one of this many consecutive memories (paper: 10).
    pub chunk: usize,
    /// Memories measured in one pass of the world model; decides memory and speed, never results.
    pub batch: usize,
}

impl Default for UtilityConfig {
    fn default() -> Self {
        Self { draws: 4, timesteps: [0, 1000], candidates: 60, chunk: 10, batch: 64 }
    }
}
