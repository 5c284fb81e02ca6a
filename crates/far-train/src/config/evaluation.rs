//! `[evaluation]`: how the averaged model is judged along the way and at the end.

use far_data::{EvaluationConfig, Split};
use far_model::DdimConfig;
use serde::{Deserialize, Serialize};

/// Clips, rollouts and recall quality.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationSettings {
    /// Part of the dataset that is judged: `validation` to choose settings by, `test` to report.
    pub split: Split,
    /// Most clips: one return each, evenly spread over the episodes. Paper: 3,796 / 1,167 / 1,309.
    pub clips: usize,
    /// Most clips of the evaluations during training, which take one step and no rollout.
    pub clips_in_training: usize,
    /// Memories recalled per prediction. Paper: 11, beside the current frame; dyn 3.
    pub slots: usize,
    /// Frames between two generated frames. Paper: 4; SoundSpaces 16.
    pub stride: u32,
    /// Most memories in the pool, evenly spread. Paper: 1,000.
    pub pool: u32,
    /// Most memories whose utility is measured for recall quality, always with what was recalled.
    pub utility_pool: usize,
    /// The sampler.
    pub sampler: DdimConfig,
}

impl EvaluationSettings {
    /// How episodes are walked.
    pub fn walk(&self) -> EvaluationConfig {
        EvaluationConfig { stride: self.stride, pool: self.pool }
    }

    pub(super) fn check(&self) -> crate::Result<()> {
        let counts = [
            ("evaluation.clips", self.clips as u64),
            ("evaluation.clips_in_training", self.clips_in_training as u64),
            ("evaluation.slots", self.slots as u64),
            ("evaluation.stride", self.stride.into()),
            ("evaluation.pool", self.pool.into()),
            ("evaluation.utility_pool", self.utility_pool as u64),
            ("evaluation.sampler.steps", self.sampler.steps as u64),
        ];
        counts.into_iter().try_for_each(|(key, count)| super::positive(key, count))
    }
}
