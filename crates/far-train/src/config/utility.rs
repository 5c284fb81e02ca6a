//! `[utility]`: what a memory is credited with.

use serde::{Deserialize, Serialize};

/// The scale of utilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UtilityMode {
    /// Mean squared error per element.
    Mean,
    /// Sum of squared errors: the printed formula.
    Sum,
    /// Weights of the variational bound.
    Vlb,
    /// Standardized in each pool.
    Zscore,
}

/// How noise levels count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UtilityWeight {
    /// As the loss has them.
    Eps,
    /// 1 / max(SNR, 0.05).
    Minsnr,
    /// 1 / SNR.
    X0,
}

/// Noise levels and scale of predictive utility.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UtilityConfig {
    /// The scale.
    pub mode: UtilityMode,
    /// How noise levels count.
    pub weight: UtilityWeight,
    /// Utilities are divided by it.
    pub temperature: f32,
    /// Noise levels per candidate, S. Paper: 4.
    pub levels: usize,
    /// First noise level.
    pub from: usize,
    /// End of the noise levels.
    pub to: usize,
}
