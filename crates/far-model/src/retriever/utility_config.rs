//! `[utility]`: what a memory is credited with once the future is known.

use crate::{DistillationTarget, Error, Perturbations, Result};
use std::ops::Range;

far_memory::settings! {
    /// Noise levels and scale of predictive utility; the defaults are the printed formula.
    ///
    /// ```
    /// use far_model::UtilityConfig;
    /// let config = UtilityConfig::default();
    /// assert_eq!((config.levels, config.range()), (4, 0..1000));
    /// ```
    #[derive(Copy)]
    pub struct UtilityConfig {
        /// Utilities are divided by it. Default: 1, the printed formula has none.
        pub temperature: f32 = 1.0,
        /// Noise levels per candidate, S, one from each equal part of the range. Paper: 4.
        pub levels: usize = 4,
        /// The first noise level and the end of them. Default: all 1,000; short runs do better with 100 to
        /// 700.
        pub range: [usize; 2] = [0, 1000],
        /// What the retriever is drawn to. Default: posterior.
        pub target: DistillationTarget = DistillationTarget::default(),
    }
}

impl UtilityConfig {
    /// The noise levels.
    pub fn range(&self) -> Range<usize> {
        self.range[0]..self.range[1]
    }

    /// Checks the settings against a schedule of `steps` noise levels.
    ///
    /// # Errors
    /// [`Error::Setting`] with the one that does not fit.
    pub fn check(&self, steps: usize) -> Result<()> {
        let refuse = |setting, reason| Err(Error::Setting { setting, reason });
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            return refuse("utility.temperature", format!("{} is not positive", self.temperature));
        }
        if self.range[1] > steps {
            return refuse("utility.range", format!("{} of {steps} noise levels", self.range[1]));
        }
        if self.range().len() < self.levels.max(1) || self.levels == 0 {
            let reason = format!("{} levels from {:?}", self.levels, self.range());
            return refuse("utility.levels", reason);
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
            (UtilityConfig { temperature: f32::NAN, ..good }, "utility.temperature"),
            (UtilityConfig { range: [0, 1001], ..good }, "utility.range"),
            (UtilityConfig { levels: 0, ..good }, "utility.levels"),
            (UtilityConfig { range: [998, 1000], ..good }, "utility.levels"),
            (UtilityConfig { range: [900, 100], ..good }, "utility.levels"),
        ] {
            let error = config.check(1000).unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }

    #[test]
    fn names_are_those_of_the_configuration() {
        let text = serde_json::to_string(&UtilityConfig {
            target: DistillationTarget::UtilityOnly,
            ..UtilityConfig::default()
        });
        let text = text.unwrap();
        assert!(text.contains("\"utility-only\""), "{text}");
        assert!(serde_json::from_str::<UtilityConfig>(r#"{ "heat": 1 }"#).is_err());
        let partial: UtilityConfig = serde_json::from_str(r#"{ "levels": 2 }"#).unwrap();
        assert_eq!(partial, UtilityConfig { levels: 2, ..UtilityConfig::default() });
    }
}
