//! The configuration of a run: one TOML document, one section per part of the system.
//!
//! Settings come in layers: `configs/default.toml`, which names every setting and says what it
//! does, then a preset or a file with what it extends, then `--set` on the command line. What is written into the run's
//! folder is the result, whole.

mod arm;
mod comparison;
mod compute;
mod continuation;
mod cue_column;
mod data;
mod documentation;
mod encoder;
mod evaluation;
mod layer;
mod preset;
mod retired;
mod retriever;
pub mod synthetic;
mod tokenizer;
mod training;

pub(crate) use arm::probable_arm;
pub use arm::{Arm, ArmConfig, FAR_ARMS, FarArm, check_rule};
pub use comparison::ComparisonConfig;
pub use compute::ComputeConfig;
pub use cue_column::{CueColumn, LATENT_CUES};
pub use data::DataConfig;
pub use documentation::{Documented, documented};
pub use encoder::{EncoderConfig, PretrainingSettings};
pub use evaluation::EvaluationSection;
pub use preset::PRESETS;
pub use retriever::{CreditRule, RetrieverSettings, SelectionRule};
pub use tokenizer::{TokenizerConfig, TokenizerKind};
pub use training::{ChangeMaskConfig, ChangeMaskSource, TrainingContext, TrainingSettings};

use crate::{Error, Result};
use far_model::{
    AudioConfig, ConditioningConfig, DitConfig, INTERACTION_CUE, LatentDetectorConfig,
    LongLiveConfig, UtilityConfig,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Retriever updates below which recall has hardly begun to be learned: 80 gave 0.85 of the
/// oracle's recall quality in small worlds.
const FEW_UPDATES: u64 = 100;

/// Noise levels of the diffusion. Paper: 1,000.
const NOISE_LEVELS: usize = 1000;

/// Everything that decides what a run computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// The dataset and how it is sampled.
    pub data: DataConfig,
    /// How frames become latents.
    pub tokenizer: TokenizerConfig,
    /// The network that predicts.
    pub world_model: DitConfig,
    /// What it is conditioned on beyond poses and times.
    pub conditioning: ConditioningConfig,
    /// How sound becomes tokens, for the cue `audio`.
    pub audio: AudioConfig,
    /// The frozen encoder of the key cue.
    pub encoder: EncoderConfig,
    /// Who recalls.
    pub arm: ArmConfig,
    /// The autoencoder of the rule `longlive-rag`.
    pub longlive: LongLiveConfig,
    /// How recall is learned.
    pub retriever: RetrieverSettings,
    /// What a memory is credited with.
    pub utility: UtilityConfig,
    /// Steps, rates and intervals.
    pub training: TrainingSettings,
    /// The detector of a second agent in generated frames.
    pub detector: LatentDetectorConfig,
    /// How the result is judged.
    pub evaluation: EvaluationSection,
    /// Which arms are compared.
    pub comparison: ComparisonConfig,
    /// Where the world model runs.
    pub compute: ComputeConfig,
    /// Key cues that are columns of numbers in the dataset, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cues: BTreeMap<String, CueColumn>,
}

impl TrainConfig {
    /// Checks every setting that does not depend on the dataset.
    ///
    /// # Errors
    /// The first setting that is out of range, and why.
    pub fn check(&self) -> Result<()> {
        self.data.sampling(self.training.seed).validate().map_err(|error| match error {
            far_data::DataError::Setting { setting, reason } => {
                Error::setting(&format!("data.{setting}"), reason)
            }
            other => other.into(),
        })?;
        let arm = self.arm.arm()?;
        self.comparison.contenders()?;
        self.tokenizer.check()?;
        self.world_model.check()?;
        self.audio.check()?;
        self.encoder.check()?;
        self.utility.check(NOISE_LEVELS)?;
        self.retriever.check(&arm, self.data.batch, self.data.anchor.is_some())?;
        let asks = |cue: &String| cue == INTERACTION_CUE;
        if arm.key_cues().iter().any(asks) && !self.conditioning.interactions {
            let reason = "must be true for the cue `interaction`, which asks by what will be done";
            return Err(Error::setting("conditioning.interactions", reason));
        }
        self.detector.check()?;
        self.training.check(self.data.batch)?;
        cue_column::check(&self.cues)?;
        self.evaluation.check()
    }

    /// What is allowed and probably not meant, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let updates = self.retriever.updates(self.training.steps);
        let learns = matches!(self.arm.arm(), Ok(Arm::Far(arm)) if arm.learns());
        if learns && updates < FEW_UPDATES {
            warnings.push(format!(
                "the retriever gets {updates} updates, fewer than {FEW_UPDATES}: raise \
                 training.steps or lower retriever.interval (now {})",
                self.retriever.interval
            ));
        }
        warnings
    }
}

impl Default for TrainConfig {
    /// The settings of `configs/default.toml`.
    fn default() -> Self {
        Self::resolve("default", &[]).expect("the default preset is whole")
    }
}

fn positive(key: &str, value: u64) -> Result<()> {
    if value > 0 { Ok(()) } else { Err(Error::setting(key, "must be at least 1")) }
}

fn positive_number(key: &str, value: f32) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(Error::setting(key, format!("{value} is not a positive number")))
    }
}
