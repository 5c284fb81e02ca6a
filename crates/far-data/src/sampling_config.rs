//! Settings of the stream of training examples, with the paper's values as defaults.

use serde::{Deserialize, Serialize};

use crate::{DataError, Result, Split, SplitRule};

far_memory::settings! {
    /// How training examples are drawn.
    ///
    /// The default is the paper's column for LoopNav; [`SamplingConfig::of_corpus`] knows the others.
    pub struct SamplingConfig {
        /// Seed of the stream.
        pub seed: u64 = 0,
        /// Rule that says which episodes train; the dataset's first rule when absent.
        pub split_rule: Option<SplitRule> = None,
        /// Part of the dataset to draw from.
        pub split: Split = Split::Train,
        /// Examples per step: pairs of an observation and a goal (LoopNav 128, others 64). Must be a
        /// multiple of `goals_per_observation`.
        pub batch: u32 = 128,
        /// Goals drawn for the same current frame and memory pool (4).
        pub goals_per_observation: u32 = 4,
        /// Largest number of frames between current frame and goal (LoopNav and SoundSpaces 128,
        /// AI2-THOR 32).
        pub horizon: u32 = 128,
        /// Most memories in a pool (LoopNav and SoundSpaces 200, AI2-THOR 400).
        pub pool: u32 = 200,
        /// Pairs around something that happens; none when absent.
        pub anchor: Option<AnchorConfig> = None,
    }
}

/// How pairs around something that happens replace ordinary ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchorConfig {
    /// Where the current frame and the goal lie.
    pub kind: AnchorKind,
    /// Probability that an observation is replaced by an anchored one (AI2-THOR 0.30, dyn 0.35).
    pub probability: f64,
    /// Labels that anchor; frames of the return phase with one of them count.
    pub labels: Vec<String>,
    /// Largest number of frames between current frame and goal of an anchored pair (AI2-THOR 32,
    /// dyn 135).
    pub horizon: u32,
}

/// What an anchored pair is centered on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnchorKind {
    /// The event lies between current frame and goal: current up to half a horizon before it, goal
    /// at most half a horizon after it.
    Event,
    /// The current frame lies in the labeled stretch (a passage through a door), the goal after it
    /// where the horizon reaches so far.
    Reveal,
}

impl SamplingConfig {
    /// The paper's settings for the corpus that a built-in world stands for: "village" (LoopNav),
    /// "apartment" (SoundSpaces), "kitchen" (AI2-THOR), "corridor" (AI2-THOR-dyn). Any other name
    /// gives the default.
    ///
    /// ```
    /// use far_data::SamplingConfig;
    /// assert_eq!(SamplingConfig::of_corpus("kitchen").pool, 400);
    /// assert_eq!(SamplingConfig::of_corpus("corridor").anchor.unwrap().horizon, 135);
    /// ```
    pub fn of_corpus(corpus: &str) -> Self {
        let base = Self::default();
        let anchor = |kind, probability, labels: &[&str], horizon| {
            let labels = labels.iter().map(ToString::to_string).collect();
            Some(AnchorConfig { kind, probability, labels, horizon })
        };
        match corpus {
            "apartment" => Self { batch: 64, ..base },
            "kitchen" => Self {
                batch: 64,
                horizon: 32,
                pool: 400,
                anchor: anchor(AnchorKind::Event, 0.30, &["open", "close"], 32),
                ..base
            },
            // The paper gives no number of goals per observation here; four as elsewhere.
            "corridor" => Self {
                batch: 64,
                horizon: 32,
                pool: 400,
                anchor: anchor(AnchorKind::Reveal, 0.35, &["transit"], 135),
                ..base
            },
            _ => base,
        }
    }

    /// Checks what does not depend on a dataset.
    pub fn validate(&self) -> Result<()> {
        let wrong =
            |setting, reason: &str| Err(DataError::Setting { setting, reason: reason.to_string() });
        if self.goals_per_observation == 0 {
            return wrong("goals_per_observation", "must be at least 1");
        }
        if self.batch == 0 || !self.batch.is_multiple_of(self.goals_per_observation) {
            return wrong("batch", "must be a positive multiple of goals_per_observation");
        }
        if self.horizon == 0 {
            return wrong("horizon", "must be at least one frame");
        }
        if self.pool == 0 {
            return wrong("pool", "must hold at least one memory");
        }
        if let Some(anchor) = &self.anchor {
            if !(0.0..=1.0).contains(&anchor.probability) {
                return wrong("anchor.probability", "must lie between 0 and 1");
            }
            if anchor.horizon == 0 {
                return wrong("anchor.horizon", "must be at least one frame");
            }
            if anchor.labels.is_empty() {
                return wrong("anchor.labels", "must name at least one label");
            }
        }
        Ok(())
    }
}

far_memory::settings! {
    /// How an episode is walked for evaluation.
    #[derive(Copy, Eq)]
    pub struct EvaluationConfig {
        /// Frames between two generated frames (LoopNav and AI2-THOR 4, SoundSpaces 16).
        pub stride: u32 = 4,
        /// Most memories in the pool (1000).
        pub pool: u32 = 1000,
    }
}
