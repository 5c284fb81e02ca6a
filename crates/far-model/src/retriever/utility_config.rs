//! `[utility]`: what a memory is credited with once the future is known.

use crate::{DistillationTarget, Error, Perturbations, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The scale of utilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UtilityMode {
    /// Minus the sum of squared errors over the E elements: the printed formula. The default.
    #[default]
    Sum,
    /// Minus the mean squared error per element, as diffusion losses are coded.
    Mean,
    /// Minus the terms of the variational bound, T·w_t times the sum.
    Vlb,
    /// The sum, standardized over the candidates of an example. Equal utilities up to noise still
    /// teach something then, which the posterior is meant to avoid: a fallback.
    Zscore,
}

/// How noise levels count against each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UtilityWeight {
    /// As the loss of the world model has them: all alike. The default.
    #[default]
    Eps,
    /// Errors of the noise divided by max(SNR, floor).
    Minsnr,
    /// Errors of the noise divided by the SNR, that is errors of x̂_0. Measured: the noisiest level
    /// decides and learning fails, with noise prediction.
    X0,
}

/// Noise levels and scale of predictive utility; the defaults are the printed formula.
///
/// ```
/// use far_model::UtilityConfig;
/// let config = UtilityConfig::default();
/// assert_eq!((config.levels, config.range()), (4, 0..1000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UtilityConfig {
    /// The scale. Default: sum.
    pub mode: UtilityMode,
    /// How noise levels count; the bound (`vlb`) has weights of its own. Default: eps.
    pub weight: UtilityWeight,
    /// Utilities are divided by it. Default: 1, the printed formula has none.
    pub temperature: f32,
    /// Noise levels per candidate, S, one from each equal part of the range. Paper: 4.
    pub levels: usize,
    /// First noise level. Default: 0; short runs do better from 100.
    pub from: usize,
    /// End of the noise levels. Default: 1000; short runs do better to 700.
    pub to: usize,
    /// What the retriever is drawn to. Default: posterior.
    pub target: DistillationTarget,
    /// The smallest signal-to-noise ratio that `minsnr` divides by. Default: 0.05.
    pub snr_floor: f32,
    /// Nats added to the deviation that `zscore` divides by: about the deviation of a utility under
    /// other noise. Default: 1e-3.
    pub zscore_floor: f32,
    /// κ: how much of a model's auxiliary loss, such as that of a second agent's state, counts beside
    /// the mean squared error of every noise level. Default: 1, as in training.
    pub auxiliary: f32,
}

impl Default for UtilityConfig {
    fn default() -> Self {
        Self {
            mode: UtilityMode::default(),
            weight: UtilityWeight::default(),
            temperature: 1.0,
            levels: 4,
            from: 0,
            to: 1000,
            target: DistillationTarget::default(),
            snr_floor: 0.05,
            zscore_floor: 1e-3,
            auxiliary: 1.0,
        }
    }
}

impl UtilityConfig {
    /// The noise levels.
    pub fn range(&self) -> Range<usize> {
        self.from..self.to
    }

    /// Checks the settings against a schedule of `steps` noise levels.
    ///
    /// # Errors
    /// [`Error::Setting`] with the one that does not fit.
    pub fn check(&self, steps: usize) -> Result<()> {
        let refuse = |setting, reason| Err(Error::Setting { setting, reason });
        let numbers = [
            ("utility.temperature", self.temperature),
            ("utility.snr_floor", self.snr_floor),
            ("utility.zscore_floor", self.zscore_floor),
        ];
        if let Some((setting, value)) =
            numbers.into_iter().find(|(_, value)| !(*value > 0.0 && value.is_finite()))
        {
            return refuse(setting, format!("{value} is not positive"));
        }
        if !(self.auxiliary >= 0.0 && self.auxiliary.is_finite()) {
            let reason = format!("{} is not zero or more", self.auxiliary);
            return refuse("utility.auxiliary", reason);
        }
        if self.to > steps {
            return refuse("utility.to", format!("{} of {steps} noise levels", self.to));
        }
        if self.range().len() < self.levels.max(1) || self.levels == 0 {
            let reason = format!("{} levels from {:?}", self.levels, self.range());
            return refuse("utility.levels", reason);
        }
        if self.mode == UtilityMode::Vlb && self.weight != UtilityWeight::Eps {
            let reason = format!("{:?} beside the weights of the bound", self.weight);
            return refuse("utility.weight", reason);
        }
        Ok(())
    }

    /// Noise levels and noises for `examples` predictions of `elements` numbers at a step.
    pub fn perturbations(
        &self,
        examples: usize,
        elements: usize,
        seed: u64,
        step: u64,
    ) -> Perturbations {
        let sizes = [examples, self.levels, elements];
        Perturbations::stratified(self.range(), sizes, seed, "utility", step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_that_does_not_fit_is_named() {
        let good = UtilityConfig::default();
        good.check(1000).unwrap();
        for (config, name) in [
            (UtilityConfig { temperature: 0.0, ..good }, "utility.temperature"),
            (UtilityConfig { snr_floor: f32::NAN, ..good }, "utility.snr_floor"),
            (UtilityConfig { auxiliary: -1.0, ..good }, "utility.auxiliary"),
            (UtilityConfig { to: 1001, ..good }, "utility.to"),
            (UtilityConfig { levels: 0, ..good }, "utility.levels"),
            (UtilityConfig { from: 998, ..good }, "utility.levels"),
            (UtilityConfig { from: 900, to: 100, ..good }, "utility.levels"),
            (
                UtilityConfig { mode: UtilityMode::Vlb, weight: UtilityWeight::X0, ..good },
                "utility.weight",
            ),
        ] {
            let error = config.check(1000).unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }

    #[test]
    fn names_are_those_of_the_configuration() {
        let text = serde_json::to_string(&UtilityConfig {
            mode: UtilityMode::Zscore,
            weight: UtilityWeight::Minsnr,
            target: DistillationTarget::UtilityOnly,
            ..UtilityConfig::default()
        });
        let text = text.unwrap();
        for name in ["zscore", "minsnr", "utility-only"] {
            assert!(text.contains(&format!("\"{name}\"")), "{text}");
        }
        assert!(serde_json::from_str::<UtilityConfig>(r#"{ "heat": 1 }"#).is_err());
        let partial: UtilityConfig = serde_json::from_str(r#"{ "levels": 2 }"#).unwrap();
        assert_eq!(partial, UtilityConfig { levels: 2, ..UtilityConfig::default() });
    }
}
