//! `[world_model]`: the diffusion transformer.

use serde::{Deserialize, Serialize};

/// Who reads whom in attention over all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContextAttention {
    /// Every frame reads every other. Paper.
    #[default]
    Joint,
    /// Context frames read each other; the target reads all.
    ContextFirst,
}

/// What the network predicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredictionKind {
    /// The noise ε. Paper.
    #[default]
    Noise,
    /// The velocity √ᾱ·ε − √(1−ᾱ)·x_0; learns much faster in short runs.
    Velocity,
}

/// The settings of the network.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DitConfig {
    /// Blocks in all, every second one over all frames. Paper: 12.
    pub depth: usize,
    /// Channels of a token. Paper: 768.
    pub width: usize,
    /// Heads. Paper: 12.
    pub heads: usize,
    /// Who reads whom.
    pub attention: ContextAttention,
    /// What is predicted.
    pub prediction: PredictionKind,
    /// Whether the variance of each step is learned too. Paper: yes.
    pub learned_variance: bool,
    /// Weight of the variational bound in the loss. DiT: 1.
    pub bound_weight: f32,
    /// Whether frames know their pose from the goal as well as from the present.
    pub goal_relative: bool,
    /// Whether queries and keys are normalized per head, as in VGGT.
    pub query_key_norm: bool,
}
