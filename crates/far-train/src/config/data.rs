//! `[data]`: which episodes are learned from, and how examples are drawn from them.

use super::TokenizerConfig;
use crate::Result;
use far_data::{AnchorConfig, Dataset, SamplingConfig, Split, SplitRule};
use far_model::EncodedDataset;
use far_tensor::Device;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// The dataset and the stream of training examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// The folder with `dataset.json`.
    pub folder: PathBuf,
    /// Rule that says which episodes train; the dataset's first one when absent.
    pub split_rule: Option<SplitRule>,
    /// Examples per step: pairs of an observation and a goal. Paper: 128 for LoopNav, else 64.
    pub batch: u32,
    /// Goals drawn for the same observation and memory pool. Paper: 4.
    pub goals_per_observation: u32,
    /// Largest number of frames between the present and the goal. Paper: 128 or 32.
    pub horizon: u32,
    /// Most memories in a training pool. Paper: 200 or 400.
    pub pool: u32,
    /// Latents held in memory at once, in megabytes; the rest is read from the cache.
    pub memory_megabytes: usize,
    /// Pairs around something that happens; none when absent.
    pub anchor: Option<AnchorConfig>,
}

impl DataConfig {
    /// Opens the dataset and fits the tokenizer to its training split; latents are cached as
    /// [`far_data::cache_folder`] says. A tokenizer that is a network runs on the device.
    ///
    /// # Errors
    /// If the dataset cannot be read, or does not fit the tokenizer.
    pub fn open(&self, tokenizer: &TokenizerConfig, device: &Device) -> Result<EncodedDataset> {
        let dataset = Arc::new(Dataset::open(&self.folder)?);
        let episodes = dataset.select(self.split_rule, Split::Train)?;
        let tokenizer = tokenizer.build(&dataset, &episodes, device)?;
        let (cache, most) = (far_data::cache_folder(&self.folder), self.memory_megabytes << 20);
        Ok(EncodedDataset::new(dataset, tokenizer, Vec::new(), cache, most))
    }

    /// How the sampler of the training split is set.
    pub fn sampling(&self, seed: u64) -> SamplingConfig {
        SamplingConfig {
            seed,
            split_rule: self.split_rule,
            split: Split::Train,
            batch: self.batch,
            goals_per_observation: self.goals_per_observation,
            horizon: self.horizon,
            pool: self.pool,
            anchor: self.anchor.clone(),
        }
    }
}
