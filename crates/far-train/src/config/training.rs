//! `[training]`: the world model's steps, and what is kept along the way.

use crate::{Error, Result};
use far_data::Signal;
use far_tensor::AdamWConfig;
use serde::{Deserialize, Serialize};

/// Which memories the world model reads in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainingContext {
    /// What the arm recalls. Paper.
    Recalled,
    /// Half at random, half near the goal: a model that reads good and bad contexts alike and can
    /// judge every arm, while the arm's retriever learns beside it.
    Mixed,
}

/// Where the loss is weighted by what changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeMaskConfig {
    /// Which mask of the goal's frame.
    pub source: ChangeMaskSource,
    /// Weight c of the mask as a share of all weight. Paper: 0.3 for AI2-THOR, 5.0 for dyn.
    pub coefficient: f32,
    /// Weight of the mask in utilities; 0 weighs them evenly. Paper: 0 for AI2-THOR, 5.0 for dyn.
    #[serde(default)]
    pub utility_coefficient: f32,
}

impl ChangeMaskConfig {
    /// How utilities are weighted; `None` for evenly.
    pub fn of_utility(self) -> Option<Self> {
        let coefficient = self.utility_coefficient;
        (coefficient > 0.0).then_some(Self { coefficient, ..self })
    }
}

/// The masks that a dataset can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeMaskSource {
    /// What looks different from an older state.
    Change,
    /// The second agent.
    Silhouette,
}

impl ChangeMaskSource {
    /// The signal of a dataset that has these masks.
    pub fn signal(self) -> Signal {
        match self {
            Self::Change => Signal::Change,
            Self::Silhouette => Signal::Agent,
        }
    }
}

/// Steps, rates and intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSettings {
    /// World-model steps. Paper: 700,000; dyn 100,000.
    pub steps: u64,
    /// Seed of parameters, examples, noise and everything else that is drawn.
    pub seed: u64,
    /// Memories recalled per prediction, K. Paper: 3, beside the current frame.
    pub slots: usize,
    /// Which memories the world model reads.
    pub context: TrainingContext,
    /// The least noisy of the 1,000 steps of the schedule that the world model learns at. Paper: 0.
    pub least_noisy: usize,
    /// Learning rate of the world model. Paper: 1e-4; short runs of small models want 1e-3 to 2e-3.
    pub learning_rate: f32,
    /// Steps over which the rate rises linearly. Paper: 5,000.
    pub warm_up: u64,
    /// Decay of the moving average of the parameters, which is what is evaluated. Paper: 0.9999.
    pub average_decay: f32,
    /// Whether that decay begins as (1 + n)/(10 + n); runs below some 50,000 steps need it.
    pub average_warm_up: bool,
    /// Parts that a batch is computed in, to save memory; the update is the same up to rounding.
    pub micro_batches: usize,
    /// Steps between two lines of `metrics.jsonl`.
    pub log_every: u64,
    /// Steps between two evaluations of the averaged model; 0 for none. Paper: 2,500.
    pub evaluate_every: u64,
    /// Steps between two checkpoints.
    pub checkpoint_every: u64,
    /// Newest checkpoints that are kept.
    pub keep_checkpoints: usize,
    /// Checkpoints of multiples of this step are kept forever; 0 for none.
    pub milestone_every: u64,
    /// Weights of the loss where something changed; none when absent.
    pub change_mask: Option<ChangeMaskConfig>,
}

impl TrainingSettings {
    /// The world model's optimizer. What is not a setting is as in the paper's table.
    pub fn optimizer(&self) -> AdamWConfig {
        AdamWConfig {
            learning_rate: self.learning_rate,
            epsilon: 1e-6,
            weight_decay: 0.0,
            clip: Some(1.0),
            warm_up: self.warm_up,
            warm_up_from: 0.2,
            average_decay: Some(self.average_decay),
            average_warm_up: self.average_warm_up,
            ..AdamWConfig::default()
        }
    }

    /// The retriever's optimizer: its own rate and warm-up, clipped alike, without an average.
    pub fn retriever_optimizer(&self, retriever: &super::RetrieverSettings) -> AdamWConfig {
        AdamWConfig {
            learning_rate: retriever.learning_rate,
            warm_up: retriever.warm_up,
            average_decay: None,
            ..self.optimizer()
        }
    }

    pub(super) fn check(&self, batch: u32) -> Result<()> {
        let counts = [
            ("training.steps", self.steps),
            ("training.slots", self.slots as u64),
            ("training.micro_batches", self.micro_batches as u64),
            ("training.log_every", self.log_every),
            ("training.checkpoint_every", self.checkpoint_every),
            ("training.keep_checkpoints", self.keep_checkpoints as u64),
        ];
        counts.into_iter().try_for_each(|(key, count)| super::positive(key, count))?;
        super::positive_number("training.learning_rate", self.learning_rate)?;
        if !(0.0..1.0).contains(&self.average_decay) {
            let reason = format!("{} is not in [0, 1)", self.average_decay);
            return Err(Error::setting("training.average_decay", reason));
        }
        if let Some(mask) = &self.change_mask {
            super::positive_number("training.change_mask.coefficient", mask.coefficient)?;
            if !(mask.utility_coefficient >= 0.0 && mask.utility_coefficient.is_finite()) {
                let reason = format!("{} is not 0 or more", mask.utility_coefficient);
                return Err(Error::setting("training.change_mask.utility_coefficient", reason));
            }
        }
        if self.micro_batches > batch as usize {
            let reason = format!("{} parts of a batch of {batch}", self.micro_batches);
            return Err(Error::setting("training.micro_batches", reason));
        }
        Ok(())
    }
}
