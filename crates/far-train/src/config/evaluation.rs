//! `[evaluation]`: how the averaged model is judged along the way and at the end.

use super::TrainConfig;
use far_data::{EvaluationConfig, Split};
use far_eval::EvaluationPlan;
use far_model::DdimConfig;
use serde::{Deserialize, Serialize};

/// Clips, rollouts and recall quality.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationSection {
    /// Part of the dataset that is judged: `validation` to choose settings by, `test` to report.
    pub split: Split,
    /// Most clips: one return each, evenly spread over the episodes. Paper: 3,796 / 1,167 / 1,309.
    pub clips: usize,
    /// Most clips of the evaluations during training, which take one step and no rollout.
    pub clips_in_training: usize,
    /// Questions per clip for one-step prediction and recall quality.
    pub questions: usize,
    /// Memories recalled per prediction. Paper: 11, beside the current frame; dyn 3.
    pub slots: usize,
    /// Frames between two generated frames. Paper: 4; SoundSpaces 16.
    pub stride: u32,
    /// Most memories in the pool, evenly spread. Paper: 1,000.
    pub pool: u32,
    /// Most generated frames per clip; the whole return when absent.
    pub most_steps: Option<usize>,
    /// Most memories whose utility is measured for recall quality, always with what was recalled.
    pub utility_pool: usize,
    /// Noise levels by which recall quality is measured.
    pub utility_levels: usize,
    /// Clips that are kept for the report.
    pub replays: usize,
    /// Clips that are generated together.
    pub batch: usize,
    /// The sampler.
    pub sampler: DdimConfig,
}

impl EvaluationSection {
    pub(super) fn check(&self) -> crate::Result<()> {
        let counts = [
            ("evaluation.clips", self.clips as u64),
            ("evaluation.clips_in_training", self.clips_in_training as u64),
            ("evaluation.questions", self.questions as u64),
            ("evaluation.slots", self.slots as u64),
            ("evaluation.stride", self.stride.into()),
            ("evaluation.pool", self.pool.into()),
            ("evaluation.utility_pool", self.utility_pool as u64),
            ("evaluation.utility_levels", self.utility_levels as u64),
            ("evaluation.batch", self.batch as u64),
            ("evaluation.sampler.steps", self.sampler.steps as u64),
        ];
        counts.into_iter().try_for_each(|(key, count)| super::positive(key, count))
    }
}

impl TrainConfig {
    /// How the evaluation of the whole run is made: the horizon, the noise levels and the seed
    /// are those of training.
    pub fn evaluation_plan(&self) -> EvaluationPlan {
        let section = &self.evaluation;
        EvaluationPlan {
            walk: EvaluationConfig { stride: section.stride, pool: section.pool },
            slots: section.slots,
            sampler: section.sampler,
            clips: Some(section.clips),
            steps: section.most_steps,
            questions: section.questions,
            horizon: self.data.horizon as usize,
            utility: far_eval::UtilityConfig {
                draws: section.utility_levels,
                timesteps: self.utility.range,
                candidates: section.utility_pool,
                ..far_eval::UtilityConfig::default()
            },
            replays: section.replays,
            batch: section.batch,
            seed: self.training.seed,
        }
    }

    /// The same for the evaluations during training: fewer clips, no rollout, nothing kept for
    /// looking at.
    pub fn evaluation_plan_in_training(&self) -> EvaluationPlan {
        EvaluationPlan {
            clips: Some(self.evaluation.clips_in_training),
            steps: Some(0),
            replays: 0,
            ..self.evaluation_plan()
        }
    }
}
