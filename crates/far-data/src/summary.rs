//! One row of `episodes.arrow`: what is known of an episode without opening it.

use serde::{Deserialize, Serialize};

use crate::Split;

/// What the maker of an episode decides before its first frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpisodeFacts {
    /// Name of the scene; episodes of one scene share their world.
    pub scene: String,
    /// Part under the dataset's first split rule.
    pub split: Split,
    /// Part under the second split rule, when the dataset has one.
    #[serde(default)]
    pub second_split: Option<Split>,
    /// Shape of the way, such as "ABA"; "" when that means nothing.
    #[serde(default)]
    pub route: String,
    /// Range tier in meters, when the corpus has tiers.
    #[serde(default)]
    pub tier: Option<u32>,
    /// Seed of this episode; paired episodes and datasets share it.
    pub seed: u64,
    /// Another episode of the same dataset that differs from this one in one thing only.
    #[serde(default)]
    pub pair: Option<Pair>,
    /// Video file that column `video_frame` counts into, relative to the dataset's folder.
    #[serde(default)]
    pub video: Option<String>,
}

/// What binds two episodes together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Id of the other episode.
    pub episode: u32,
    /// What this one is to the other: "factual", "counterfactual", "acted", "control".
    pub role: String,
}

impl EpisodeFacts {
    /// Facts of an episode with no route, tier, pair or second split.
    pub fn new(scene: impl Into<String>, split: Split, seed: u64) -> Self {
        Self {
            scene: scene.into(),
            split,
            second_split: None,
            route: String::new(),
            tier: None,
            seed,
            pair: None,
            video: None,
        }
    }
}

/// One row of `episodes.arrow`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpisodeSummary {
    /// Unique number; the episode's file is `episodes/<id, six digits>.arrow`.
    pub id: u32,
    /// What its maker decided.
    pub facts: EpisodeFacts,
    /// Number of frames.
    pub frames: u32,
    /// Index of the first return frame: memory lies before it, queries at and after it. Equal to
    /// `frames` when the episode never returns.
    pub boundary: u32,
    /// SHA-256 of the episode's Arrow file in lower-case hexadecimal; `None` when not recorded.
    pub hash: Option<String>,
    /// SHA-256 of the episode's WAV file; `None` when there is none or it was not recorded.
    pub audio_hash: Option<String>,
}

impl EpisodeSummary {
    /// Number of return frames.
    pub fn return_frames(&self) -> u32 {
        self.frames.saturating_sub(self.boundary)
    }
}

/// File name of an episode inside the folder `episodes`, without extension.
pub(crate) fn episode_stem(id: u32) -> String {
    format!("{id:06}")
}
