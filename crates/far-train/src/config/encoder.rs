//! `[encoder]`: the frozen encoder of the key cue.

use far_model::QueryVitConfig;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A pretrained encoder, or how one is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncoderConfig {
    /// The file that `far pretrain` wrote; when absent the run pretrains one at its beginning.
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
    /// Positive keys per query. Paper: 8.
    pub positives: u32,
    /// Negative keys per query. Paper: 24.
    pub negatives: u32,
    /// A memory within this many meters of the goal is positive.
    pub radius: f32,
    /// Largest difference in heading of a positive, in degrees; any when absent, as for sound.
    pub heading: Option<f32>,
}
