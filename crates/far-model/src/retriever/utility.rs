//! Predictive utility: how much better a future is predicted with one memory than with another.
//!
//! û_i = −(1/S)·Σ_s E·ℓ_is with ℓ_is the world model's mean squared error per element at noise level
//! τ_s with memory i as its only context, and E the elements of a latent: minus the sum of squared
//! errors, as the paper prints it. A temperature divides.
//!
//! A model that is also taught something else, such as a state at the goal, has an auxiliary loss
//! a_i per candidate. It counts as in training, beside the mean squared error: ℓ_is + a_i. So its
//! share in the utility is the share that it has in the loss, whatever the number of elements.

use crate::{Error, Result};

/// Turns losses of candidates into utilities.
///
/// ```
/// use far_model::UtilityEstimator;
/// let estimator = UtilityEstimator { temperature: 1.0, elements: 256 };
/// // Two candidates at two noise levels: the second predicts better by 1/64 per element.
/// let utilities = estimator.utilities(&[0.5, 0.75, 0.484375, 0.734375], 2)?;
/// assert_eq!(utilities[1] - utilities[0], 4.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UtilityEstimator {
    /// Utilities are divided by it.
    pub temperature: f32,
    /// Numbers E of a latent.
    pub elements: usize,
}

impl UtilityEstimator {
    /// Utilities of A candidates in nats from their losses [A, S] for one future, all at the same S
    /// noise levels.
    ///
    /// # Errors
    /// If there is no noise level, the losses are not S per candidate, or one is not finite.
    pub fn utilities(&self, losses: &[f32], levels: usize) -> Result<Vec<f32>> {
        let credits = self.credits(losses, levels)?;
        let utilities = credits.chunks_exact(levels).map(|levels| levels.iter().sum::<f64>());
        let temperature = f64::from(self.temperature);
        Ok(utilities.map(|utility| (utility / temperature) as f32).collect())
    }

    /// For each noise level the deviation over candidates of what it adds to their utility, in
    /// nats before the temperature. A level whose spread dwarfs the others decides alone.
    ///
    /// # Errors
    /// As [`UtilityEstimator::utilities`].
    pub fn spread(&self, losses: &[f32], levels: usize) -> Result<Vec<f32>> {
        let credits = self.credits(losses, levels)?;
        let spread = |level| deviation(credits.iter().skip(level).step_by(levels).copied()) as f32;
        Ok((0..levels).map(spread).collect())
    }

    /// What each level adds to each candidate's utility: [A, S].
    fn credits(&self, losses: &[f32], levels: usize) -> Result<Vec<f64>> {
        if levels == 0 {
            return Err(Error::Length { what: "the noise levels", found: 0, expected: 1 });
        }
        let whole = losses.len().next_multiple_of(levels);
        Error::check_length("the losses of candidates", losses.len(), whole)?;
        Error::check_finite("the losses of candidates", losses)?;
        let elements = self.elements as f64;
        let credit = |loss: &f32| -elements * f64::from(*loss) / levels as f64;
        Ok(losses.iter().map(credit).collect())
    }
}

/// Losses [A, S] with the auxiliary losses of the same A candidates, if there are any, counted
/// beside them at every level.
///
/// # Errors
/// If there are not S losses per candidate.
pub fn with_auxiliary(losses: &[f32], auxiliary: Option<&[f32]>) -> Result<Vec<f32>> {
    let Some(auxiliary) = auxiliary else { return Ok(losses.to_vec()) };
    let levels = losses.len() / auxiliary.len().max(1);
    Error::check_length("the losses of candidates", losses.len(), levels * auxiliary.len())?;
    let own = auxiliary.iter().flat_map(|value| std::iter::repeat_n(value, levels));
    Ok(losses.iter().zip(own).map(|(loss, own)| loss + own).collect())
}

/// The population deviation; zero for no value.
fn deviation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESTIMATOR: UtilityEstimator = UtilityEstimator { temperature: 1.0, elements: 4 };

    fn assert_near(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    #[test]
    fn values_are_those_computed_by_hand() {
        let losses = [1.0, 2.0, 0.5, 3.0];
        // −4·(1 + 2)/2 and −4·(0.5 + 3)/2.
        assert_near(&ESTIMATOR.utilities(&losses, 2).unwrap(), &[-6.0, -7.0]);
        let warm = UtilityEstimator { temperature: 4.0, ..ESTIMATOR };
        assert_near(&warm.utilities(&losses, 2).unwrap(), &[-1.5, -1.75]);
    }

    #[test]
    fn an_auxiliary_loss_counts_beside_the_error_of_every_level() {
        let losses = [1.0, 2.0, 0.5, 3.0];
        let with = with_auxiliary(&losses, Some(&[2.0, 0.0])).unwrap();
        assert_eq!(with, [3.0, 4.0, 0.5, 3.0]);
        // −4·(1 + 2)/2 less 4·2, and −4·(0.5 + 3)/2.
        assert_near(&ESTIMATOR.utilities(&with, 2).unwrap(), &[-14.0, -7.0]);
        assert_eq!(with_auxiliary(&losses, None).unwrap(), losses);
        assert!(with_auxiliary(&losses, Some(&[1.0; 3])).is_err());
    }

    #[test]
    fn the_spread_is_taken_over_candidates_at_each_level() {
        let estimator = UtilityEstimator { temperature: 9.0, ..ESTIMATOR };
        // Level 0: −2·{1, 3}, deviation 2; level 1: equal.
        assert_near(&estimator.spread(&[1.0, 5.0, 3.0, 5.0], 2).unwrap(), &[2.0, 0.0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(matches!(ESTIMATOR.utilities(&[1.0; 3], 2), Err(Error::Length { .. })));
        let bad = ESTIMATOR.utilities(&[1.0, f32::NAN], 2);
        assert!(matches!(bad, Err(Error::NotFinite { place: 1, .. })));
        assert!(ESTIMATOR.utilities(&[], 2).unwrap().is_empty());
        assert!(matches!(ESTIMATOR.spread(&[1.0], 0), Err(Error::Length { .. })));
    }
}
