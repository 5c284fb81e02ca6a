//! `[encoder]`: the frozen encoder of the key cue.

use super::DataConfig;
use crate::{ContrastiveTraining, Error, Result};
use far_data::{ContrastiveConfig, ContrastiveFrames, ContrastiveRule, Split};
use far_model::QueryVitConfig;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A pretrained encoder, or how one is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncoderConfig {
    /// The file that `far pretrain` wrote, for the arm's first key cue; when absent the run pretrains
    /// one at its beginning.
    pub path: Option<PathBuf>,
    /// Transformer blocks. Paper: 6.
    pub depth: usize,
    /// Channels of a token. Paper: 384.
    pub width: usize,
    /// Heads. Paper: 12.
    pub heads: usize,
    /// Numbers of a key. Paper: 256.
    pub key: usize,
    /// How it is pretrained.
    pub pretraining: PretrainingSettings,
}

impl EncoderConfig {
    /// The settings of the network.
    pub fn network(&self) -> QueryVitConfig {
        let Self { depth, width, heads, key, .. } = *self;
        QueryVitConfig { depth, width, heads, key }
    }

    /// The settings of its training.
    pub fn training(&self, seed: u64) -> ContrastiveTraining {
        let PretrainingSettings { steps, learning_rate, warm_up, .. } = self.pretraining;
        ContrastiveTraining { steps, learning_rate, warm_up, seed }
    }

    /// What it is shown: pairs of the training split, goals as far ahead as the world model's.
    pub fn sampling(&self, data: &DataConfig, seed: u64) -> ContrastiveConfig {
        let PretrainingSettings {
            batch,
            frames,
            rule,
            positives,
            negatives,
            radius,
            heading,
            door,
            ..
        } = self.pretraining;
        ContrastiveConfig {
            seed,
            split_rule: data.split_rule,
            split: Split::Train,
            batch,
            horizon: data.horizon,
            frames,
            rule,
            positives,
            negatives,
            radius,
            heading: (heading < 180.0).then_some(heading),
            door: (door < 1.0).then_some(door),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        self.network().validate()?;
        let PretrainingSettings { steps, batch, positives, negatives, .. } = self.pretraining;
        let counts = [
            ("steps", steps),
            ("batch", batch.into()),
            ("positives", positives.into()),
            ("negatives", negatives.into()),
        ];
        for (key, count) in counts {
            super::positive(&format!("encoder.pretraining.{key}"), count)?;
        }
        let PretrainingSettings { learning_rate, radius, .. } = self.pretraining;
        for (key, number) in [("learning_rate", learning_rate), ("radius", radius)] {
            super::positive_number(&format!("encoder.pretraining.{key}"), number)?;
        }
        let door = self.pretraining.door;
        if !(0.0..=1.0).contains(&door) {
            let reason = format!("{door} is no difference between two parts of a whole");
            return Err(Error::setting("encoder.pretraining.door", reason));
        }
        Ok(())
    }
}

/// Contrastive pretraining.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PretrainingSettings {
    /// Updates. Paper: 400,000; dyn 12,500.
    pub steps: u64,
    /// Learning rate. Paper: 2e-4; dyn 5e-5.
    pub learning_rate: f32,
    /// Queries per step.
    pub batch: u32,
    /// Which frames positives and negatives are drawn from.
    pub frames: ContrastiveFrames,
    /// What makes a frame a positive: its place, or the second agent in it. Paper: dyn the latter.
    pub rule: ContrastiveRule,
    /// The file of an encoder to begin with, of the same network and the same inputs, for the arm's
    /// first key cue; absent: from scratch.
    pub from: Option<PathBuf>,
    /// Positive keys per query. Paper: 8.
    pub positives: u32,
    /// Negative keys per query. Paper: 24.
    pub negatives: u32,
    /// A frame within this many meters of the goal is positive.
    pub radius: f32,
    /// Largest difference in heading of a positive, in degrees; 180 for any, as for sound.
    pub heading: f32,
    /// Largest difference in how far the acted door is open, of a positive and the goal; 1 for any.
    /// Below 1, up to half of the negatives show the same place with another door.
    pub door: f32,
    /// Updates over which the learning rate rises.
    pub warm_up: u64,
}
