//! The noise schedule of diffusion, and what follows from it.
//!
//! Given β_t: ᾱ_t = Π (1 − β), x_t = √ᾱ_t·x_0 + √(1−ᾱ_t)·ε, and the posterior q(x_{t−1} | x_t, x_0)
//! has variance β̃_t = β_t(1 − ᾱ_{t−1}) / (1 − ᾱ_t) with ᾱ_{−1} = 1, and a mean whose dependence on
//! x_0 is β_t·√ᾱ_{t−1} / (1 − ᾱ_t). Tables are in double precision.

use crate::{Error, Result, Shape};

/// The prediction target of a diffusion network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prediction {
    /// The noise ε, so that x_0 = x_t/√ᾱ_t − √(1/ᾱ_t − 1)·ε.
    Noise,
    /// The velocity √ᾱ_t·ε − √(1−ᾱ_t)·x_0, so that x_0 = √ᾱ_t·x_t − √(1−ᾱ_t)·velocity.
    Velocity,
    /// The clean x_0 itself.
    Clean,
}

/// Coefficients of one timestep for the variational bound of a network with learned variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundCoefficients {
    /// ln β̃_t, the smallest log-variance; at t = 0, where β̃ is zero, that of t = 1.
    pub log_variance_low: f64,
    /// ln β_t, the largest log-variance.
    pub log_variance_high: f64,
    /// Change of the posterior mean per unit of prediction error, with opposite sign: the
    /// coefficient of x_0 in the posterior mean times that of the prediction in x_0.
    pub mean_scale: f64,
    /// Whether this is t = 0, where the bound is the likelihood of the data itself.
    pub first: bool,
}

/// A table of β_t and ᾱ_t.
#[derive(Clone, Debug, PartialEq)]
pub struct NoiseSchedule {
    beta: Vec<f64>,
    kept: Vec<f64>,
}

impl NoiseSchedule {
    /// β rising linearly from `first` to `last`; DiT uses 1,000 steps from 10⁻⁴ to 2·10⁻².
    ///
    /// ```
    /// let schedule = far_tensor::NoiseSchedule::linear(1000, 1e-4, 2e-2)?;
    /// assert!((schedule.signal_power(500)? - 0.077797).abs() < 1e-6);
    /// # Ok::<(), far_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are fewer than two steps or a β is not between 0 and 1.
    pub fn linear(steps: usize, first: f64, last: f64) -> Result<Self> {
        let gap = (last - first) / (steps.max(2) - 1) as f64;
        Self::from_beta((0..steps).map(|step| first + gap * step as f64).collect())
    }

    /// A schedule of arbitrary β.
    ///
    /// # Errors
    /// If there are fewer than two steps or a β is not between 0 and 1.
    pub fn from_beta(beta: Vec<f64>) -> Result<Self> {
        let sound = beta.iter().all(|beta| *beta > 0.0 && *beta < 1.0);
        if beta.len() < 2 || !sound {
            return Err(Error::Unsupported {
                operation: "noise_schedule",
                shape: Shape::new(&[beta.len()]),
                requirement: "two steps or more, each β between 0 and 1".into(),
            });
        }
        let mut product = 1.0;
        let kept = beta.iter().map(|beta| {
            product *= 1.0 - beta;
            product
        });
        Ok(Self { kept: kept.collect(), beta })
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.beta.len()
    }

    /// ᾱ_t: the fraction of x_0 in the power of x_t.
    ///
    /// # Errors
    /// If there is no such step.
    pub fn signal_power(&self, timestep: usize) -> Result<f64> {
        let found = self.kept.get(timestep).copied();
        found.ok_or(Error::Index {
            operation: "noise_schedule",
            index: timestep,
            rows: self.steps(),
        })
    }

    /// The coefficients of a timestep for [`crate::Tape::diffusion_loss`].
    ///
    /// # Errors
    /// If there is no such step.
    pub fn coefficients(
        &self,
        timestep: usize,
        prediction: Prediction,
    ) -> Result<BoundCoefficients> {
        let kept = self.signal_power(timestep)?;
        let before = if timestep == 0 { 1.0 } else { self.kept[timestep - 1] };
        let beta = self.beta[timestep];
        let clean_part = beta * before.sqrt() / (1.0 - kept);
        let prediction_part = match prediction {
            Prediction::Noise => (1.0 / kept - 1.0).sqrt(),
            Prediction::Velocity => (1.0 - kept).sqrt(),
            // The only target with which x_0 increases.
            Prediction::Clean => -1.0,
        };
        Ok(BoundCoefficients {
            log_variance_low: self.posterior_variance(timestep.max(1)).ln(),
            log_variance_high: beta.ln(),
            mean_scale: clean_part * prediction_part,
            first: timestep == 0,
        })
    }

    /// β̃_t for t ≥ 1.
    fn posterior_variance(&self, timestep: usize) -> f64 {
        self.beta[timestep] * (1.0 - self.kept[timestep - 1]) / (1.0 - self.kept[timestep])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_customary_schedule_has_its_known_values() {
        let schedule = NoiseSchedule::linear(1000, 1e-4, 2e-2).unwrap();
        assert_eq!(schedule.steps(), 1000);
        for (timestep, expected) in [
            (0, 0.99990),
            (50, 0.96995),
            (100, 0.89514),
            (250, 0.52142),
            (500, 0.077797),
            (750, 3.3002e-3),
            (950, 1.0604e-4),
            (999, 4.0358e-5),
        ] {
            let found = schedule.signal_power(timestep).unwrap();
            assert!((found / expected - 1.0).abs() < 2e-5, "{timestep}: {found}");
        }
    }

    #[test]
    fn the_first_step_borrows_the_variance_of_the_second() {
        let schedule = NoiseSchedule::linear(1000, 1e-4, 2e-2).unwrap();
        let of = |timestep| schedule.coefficients(timestep, Prediction::Noise).unwrap();
        assert_eq!(of(0).log_variance_low, of(1).log_variance_low);
        assert!(of(0).first && !of(1).first);
        // For noise, the weight of the mean error is β/(√α·√(1−ᾱ)) in closed form.
        let beta: f64 = 1e-4 + (2e-2 - 1e-4) * 300.0 / 999.0;
        let kept = schedule.signal_power(300).unwrap();
        let expected = beta / ((1.0 - beta).sqrt() * (1.0 - kept).sqrt());
        assert!((of(300).mean_scale / expected - 1.0).abs() < 1e-12);
    }

    #[test]
    fn bad_schedules_and_steps_are_refused() {
        assert!(NoiseSchedule::linear(1, 1e-4, 2e-2).is_err());
        assert!(NoiseSchedule::linear(10, 0.0, 2e-2).is_err());
        assert!(NoiseSchedule::from_beta(vec![0.1, f64::NAN]).is_err());
        let schedule = NoiseSchedule::linear(10, 1e-4, 2e-2).unwrap();
        let error = schedule.coefficients(10, Prediction::Velocity).unwrap_err();
        assert!(error.to_string().contains("index 10 is outside a table of 10 rows"), "{error}");
    }
}
