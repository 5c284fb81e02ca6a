//! Predictive utility: how much better a future is predicted with one memory than with another.
//!
//! û_i = −(1/S)·Σ_s c_s·ℓ_is with ℓ_is the world model's mean squared error per element at noise level
//! τ_s with memory i as its only context, and c_s the nats that a unit of that error is worth:
//!
//! | mode | c_s |
//! |---|---|
//! | sum, zscore | E·w(τ_s) |
//! | mean | w(τ_s) |
//! | vlb | E·T·m²/(2β̃), with m the error of the posterior mean per error of the prediction |
//!
//! An error of the predicted noise is √share times the network's own error: share = 1 where it
//! predicts noise, ᾱ where it predicts velocity. So w = 1 (eps), share/max(SNR, floor) (minsnr) or
//! share/SNR (x0), with SNR = ᾱ/(1 − ᾱ).
//!
//! A model that is also taught something else, such as where a second agent is, has an auxiliary loss
//! a_i per candidate. It counts as in training, beside the mean squared error: ℓ_is + κ·a_i. So its
//! share in the credit is the share that it has in the loss, whatever the scale.

use crate::{Error, Result, UtilityConfig, UtilityMode, UtilityWeight};
use far_tensor::{NoiseSchedule, Prediction};

/// Turns losses of candidates into utilities.
///
/// ```
/// use far_model::{UtilityConfig, UtilityEstimator};
/// use far_tensor::{NoiseSchedule, Prediction};
/// let schedule = NoiseSchedule::linear(1000, 1e-4, 2e-2)?;
/// let estimator = UtilityEstimator {
///     config: UtilityConfig::default(),
///     schedule: &schedule,
///     prediction: Prediction::Noise,
///     elements: 256,
/// };
/// // Two candidates at two noise levels: the second predicts better by 1/64 per element.
/// let utilities = estimator.utilities(&[0.5, 0.75, 0.484375, 0.734375], &[100, 600])?;
/// assert_eq!(utilities[1] - utilities[0], 4.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UtilityEstimator<'a> {
    /// Scale and weights.
    pub config: UtilityConfig,
    /// The world model's noise schedule.
    pub schedule: &'a NoiseSchedule,
    /// What the world model predicts.
    pub prediction: Prediction,
    /// Numbers E of a latent.
    pub elements: usize,
}

impl UtilityEstimator<'_> {
    /// Utilities of A candidates in nats from their losses [A, S] for one future, all at the same S
    /// noise levels.
    ///
    /// # Errors
    /// If there is no noise level or one does not exist, the losses are not S per candidate, or one is
    /// not finite.
    pub fn utilities(&self, losses: &[f32], timesteps: &[usize]) -> Result<Vec<f32>> {
        let credits = self.credits(losses, timesteps)?;
        let mut utilities: Vec<f64> =
            credits.chunks_exact(timesteps.len()).map(|levels| levels.iter().sum()).collect();
        if self.config.mode == UtilityMode::Zscore {
            let (mean, deviation) = moments(utilities.iter().copied());
            let size = deviation + f64::from(self.config.zscore_floor);
            utilities.iter_mut().for_each(|utility| *utility = (*utility - mean) / size);
        }
        let temperature = f64::from(self.config.temperature);
        Ok(utilities.iter().map(|utility| (utility / temperature) as f32).collect())
    }

    /// Losses [A, S] with the auxiliary losses of the same A candidates, if there are any, counted
    /// beside them at every level.
    ///
    /// # Errors
    /// If there are not S losses per candidate.
    pub fn with_auxiliary(&self, losses: &[f32], auxiliary: Option<&[f32]>) -> Result<Vec<f32>> {
        let Some(auxiliary) = auxiliary else { return Ok(losses.to_vec()) };
        let levels = losses.len() / auxiliary.len().max(1);
        Error::check_length("the losses of candidates", losses.len(), levels * auxiliary.len())?;
        let own = auxiliary.iter().flat_map(|value| std::iter::repeat_n(value, levels));
        let kappa = self.config.auxiliary;
        Ok(losses.iter().zip(own).map(|(loss, own)| loss + kappa * own).collect())
    }

    /// For each noise level the deviation over candidates of what it adds to their utility, in
    /// nats before temperature and z-score. A level whose spread dwarfs the others decides alone.
    ///
    /// # Errors
    /// As [`UtilityEstimator::utilities`].
    pub fn spread(&self, losses: &[f32], timesteps: &[usize]) -> Result<Vec<f32>> {
        let credits = self.credits(losses, timesteps)?;
        let levels = timesteps.len();
        let spread =
            |level: usize| moments(credits.iter().skip(level).step_by(levels).copied()).1 as f32;
        Ok((0..levels).map(spread).collect())
    }

    /// What each level adds to each candidate's utility: [A, S].
    fn credits(&self, losses: &[f32], timesteps: &[usize]) -> Result<Vec<f64>> {
        let levels = timesteps.len();
        if levels == 0 {
            return Err(Error::Length { what: "the noise levels", found: 0, expected: 1 });
        }
        let whole = losses.len().next_multiple_of(levels);
        Error::check_length("the losses of candidates", losses.len(), whole)?;
        Error::check_finite("the losses of candidates", losses)?;
        let scales = timesteps.iter().map(|timestep| self.scale(*timestep));
        let scales = scales.collect::<far_tensor::Result<Vec<f64>>>()?;
        let rows = losses.chunks_exact(levels);
        Ok(rows
            .flat_map(|row| row.iter().zip(&scales))
            .map(|(loss, scale)| -scale * f64::from(*loss) / levels as f64)
            .collect())
    }

    /// c_s: nats per unit of mean squared error at a noise level.
    fn scale(&self, timestep: usize) -> far_tensor::Result<f64> {
        let elements = self.elements as f64;
        Ok(match self.config.mode {
            UtilityMode::Sum | UtilityMode::Zscore => elements * self.weight(timestep)?,
            UtilityMode::Mean => self.weight(timestep)?,
            UtilityMode::Vlb => {
                let bound = self.schedule.coefficients(timestep, self.prediction)?;
                let variance = bound.log_variance_low.exp();
                let steps = self.schedule.steps() as f64;
                elements * steps * bound.mean_scale.powi(2) / (2.0 * variance)
            }
        })
    }

    /// w: how a noise level counts.
    fn weight(&self, timestep: usize) -> far_tensor::Result<f64> {
        let kept = self.schedule.signal_power(timestep)?;
        let ratio = kept / (1.0 - kept);
        let share = match self.prediction {
            Prediction::Noise => 1.0,
            Prediction::Velocity => kept,
            // The noise that x_0 leaves is off by SNR as much in power.
            Prediction::Clean => ratio,
        };
        Ok(match self.config.weight {
            UtilityWeight::Eps => 1.0,
            UtilityWeight::Minsnr => share / ratio.max(f64::from(self.config.snr_floor)),
            UtilityWeight::X0 => share / ratio,
        })
    }
}

/// Mean and population deviation; zeros for no value.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two steps with ᾱ = 1/2 and 1/4: SNR 1 and 1/3.
    fn schedule() -> NoiseSchedule {
        NoiseSchedule::from_beta(vec![0.5, 0.5]).unwrap()
    }

    fn found(config: UtilityConfig, prediction: Prediction, losses: &[f32]) -> Vec<f32> {
        let schedule = schedule();
        let estimator = UtilityEstimator { config, schedule: &schedule, prediction, elements: 4 };
        estimator.utilities(losses, &[0, 1]).unwrap()
    }

    fn assert_near(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    #[test]
    fn values_are_those_computed_by_hand() {
        let losses = [1.0, 2.0, 0.5, 3.0];
        let of = |mode, weight, prediction| {
            let snr_floor = 0.5;
            let config = UtilityConfig { mode, weight, snr_floor, ..UtilityConfig::default() };
            found(config, prediction, &losses)
        };
        let (noise, velocity) = (Prediction::Noise, Prediction::Velocity);
        let (eps, minsnr, x0) = (UtilityWeight::Eps, UtilityWeight::Minsnr, UtilityWeight::X0);
        // −4·(1 + 2)/2 and −4·(0.5 + 3)/2.
        assert_near(&of(UtilityMode::Sum, eps, noise), &[-6.0, -7.0]);
        assert_near(&of(UtilityMode::Sum, eps, velocity), &[-6.0, -7.0]);
        assert_near(&of(UtilityMode::Mean, eps, noise), &[-1.5, -1.75]);
        // 1/SNR is 1 and 3; errors of velocity are worth ᾱ as much: 1/2 and 3/4.
        assert_near(&of(UtilityMode::Sum, x0, noise), &[-14.0, -19.0]);
        assert_near(&of(UtilityMode::Sum, x0, velocity), &[-4.0, -5.0]);
        // 1/max(SNR, 1/2) is 1 and 2, for velocity 1/2 and 1/2.
        assert_near(&of(UtilityMode::Sum, minsnr, noise), &[-10.0, -13.0]);
        assert_near(&of(UtilityMode::Sum, minsnr, velocity), &[-3.0, -3.5]);
        // w_1 = β²/(2β̃α(1−ᾱ)) = 1/4 / (2·1/3·1/2·3/4) = 1, and w_0 borrows β̃ = 1/3:
        // 1/4 / (2·1/3·1/2·1/2) = 3/2. Times T = 2 and E = 4.
        assert_near(&of(UtilityMode::Vlb, eps, noise), &[-14.0, -15.0]);
        // Velocity errors are worth ᾱ as much: 3/4 and 1/4.
        assert_near(&of(UtilityMode::Vlb, eps, velocity), &[-5.0, -4.5]);
        // Errors of x_0 are worth SNR as much as those of noise: 1 and 1/3 of them.
        let clean = Prediction::Clean;
        assert_near(&of(UtilityMode::Sum, eps, clean), &[-6.0, -7.0]);
        assert_near(&of(UtilityMode::Sum, x0, clean), &[-6.0, -7.0]);
        assert_near(&of(UtilityMode::Sum, minsnr, clean), &[-14.0 / 3.0, -5.0]);
        assert_near(&of(UtilityMode::Vlb, eps, clean), &[-26.0 / 3.0, -7.0]);
    }

    #[test]
    fn temperature_divides_and_the_z_score_forgets_the_scale() {
        let losses = [1.0, 2.0, 0.5, 3.0, 0.0, 2.0];
        let plain = found(UtilityConfig::default(), Prediction::Noise, &losses);
        let warm = UtilityConfig { temperature: 4.0, ..UtilityConfig::default() };
        let halved: Vec<f32> = plain.iter().map(|utility| utility / 4.0).collect();
        assert_near(&found(warm, Prediction::Noise, &losses), &halved);
        // −6, −7, −4: mean −17/3, deviation √(14)/3.
        let config = UtilityConfig {
            mode: UtilityMode::Zscore,
            zscore_floor: 1e-9,
            ..UtilityConfig::default()
        };
        let size = 14f32.sqrt();
        let expected = [-1.0 / size, -4.0 / size, 5.0 / size];
        assert_near(&found(config, Prediction::Noise, &losses), &expected);
        assert_eq!(found(config, Prediction::Noise, &[1.0; 6]), [0.0; 3]);
    }

    #[test]
    fn the_customary_schedule_has_the_known_weights() {
        let schedule = NoiseSchedule::linear(1000, 1e-4, 2e-2).unwrap();
        let scale = |mode, weight, timestep| {
            let config = UtilityConfig { mode, weight, ..UtilityConfig::default() };
            let prediction = Prediction::Noise;
            let estimator =
                UtilityEstimator { config, schedule: &schedule, prediction, elements: 1 };
            estimator.scale(timestep).unwrap()
        };
        for (timestep, bound, ratio) in [
            (50, 0.019, None),
            (125, 8.4e-3, Some(5.4)),
            (375, 5.0e-3, Some(0.31)),
            (625, 6.5e-3, Some(0.019)),
            (875, 8.9e-3, Some(4.2e-4)),
        ] {
            let found = scale(UtilityMode::Vlb, UtilityWeight::Eps, timestep) / 1000.0;
            assert!((found / bound - 1.0).abs() < 0.03, "{timestep}: {found}");
            if let Some(ratio) = ratio {
                let found = 1.0 / scale(UtilityMode::Mean, UtilityWeight::X0, timestep);
                assert!((found / ratio - 1.0).abs() < 0.03, "{timestep}: {found}");
                let floored = 1.0 / scale(UtilityMode::Mean, UtilityWeight::Minsnr, timestep);
                assert!((floored / f64::max(ratio, 0.05) - 1.0).abs() < 0.03, "{floored}");
            }
        }
    }

    #[test]
    fn an_auxiliary_loss_counts_beside_the_error_of_every_level() {
        let schedule = schedule();
        let config = UtilityConfig { auxiliary: 0.5, ..UtilityConfig::default() };
        let prediction = Prediction::Noise;
        let estimator = UtilityEstimator { config, schedule: &schedule, prediction, elements: 4 };
        let losses = [1.0, 2.0, 0.5, 3.0];
        let with = estimator.with_auxiliary(&losses, Some(&[2.0, 0.0])).unwrap();
        assert_eq!(with, [2.0, 3.0, 0.5, 3.0]);
        // −4·(1 + 2)/2 less 4·0.5·2, and −4·(0.5 + 3)/2.
        assert_near(&estimator.utilities(&with, &[0, 1]).unwrap(), &[-10.0, -7.0]);
        assert_eq!(estimator.with_auxiliary(&losses, None).unwrap(), losses);
        assert!(estimator.with_auxiliary(&losses, Some(&[1.0; 3])).is_err());
    }

    #[test]
    fn the_spread_is_taken_over_candidates_at_each_level() {
        let schedule = schedule();
        let config = UtilityConfig { temperature: 9.0, ..UtilityConfig::default() };
        let prediction = Prediction::Noise;
        let estimator = UtilityEstimator { config, schedule: &schedule, prediction, elements: 4 };
        // Level 0: −2·{1, 3}, deviation 2; level 1: equal.
        assert_near(&estimator.spread(&[1.0, 5.0, 3.0, 5.0], &[0, 1]).unwrap(), &[2.0, 0.0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let schedule = schedule();
        let config = UtilityConfig::default();
        let prediction = Prediction::Noise;
        let estimator = UtilityEstimator { config, schedule: &schedule, prediction, elements: 4 };
        assert!(matches!(estimator.utilities(&[1.0; 3], &[0, 1]), Err(Error::Length { .. })));
        let bad = estimator.utilities(&[1.0, f32::NAN], &[0, 1]);
        assert!(matches!(bad, Err(Error::NotFinite { place: 1, .. })));
        assert!(matches!(estimator.utilities(&[1.0, 1.0], &[0, 2]), Err(Error::Tensor(_))));
        assert!(estimator.utilities(&[], &[0, 1]).unwrap().is_empty());
        assert!(matches!(estimator.spread(&[1.0], &[]), Err(Error::Length { .. })));
    }
}
