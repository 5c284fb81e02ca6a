//! Intervals by resampling clips.

use far_tensor::Random;
use serde::{Deserialize, Deserializer, Serialize};

/// How often the clips are drawn anew.
const DRAWS: usize = 2_000;

/// A mean with the bounds of its 95 % percentile-bootstrap interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The mean over clips.
    #[serde(deserialize_with = "number_or_nan")]
    pub mean: f64,
    /// The 2.5th percentile of resampled means.
    #[serde(deserialize_with = "number_or_nan")]
    pub lo: f64,
    /// The 97.5th percentile of resampled means.
    #[serde(deserialize_with = "number_or_nan")]
    pub hi: f64,
}

impl Interval {
    /// The interval of one value per clip; all NaN without clips.
    ///
    /// Clips are the unit because steps of one clip are not independent. To compare two rules,
    /// pass their differences clip by clip.
    pub fn of(values: &[f64], seed: u64) -> Self {
        let count = values.len();
        if count == 0 {
            return Self { mean: f64::NAN, lo: f64::NAN, hi: f64::NAN };
        }
        let mut random = Random::stream(seed, "bootstrap", 0);
        let mut means: Vec<f64> = (0..DRAWS)
            .map(|_| (0..count).map(|_| values[random.below(count)]).sum::<f64>() / count as f64)
            .collect();
        means.sort_by(f64::total_cmp);
        let at = |fraction: f64| means[((DRAWS - 1) as f64 * fraction).round() as usize];
        Self { mean: values.iter().sum::<f64>() / count as f64, lo: at(0.025), hi: at(0.975) }
    }

    /// Whether zero lies outside, that is, whether a difference is more than chance.
    pub fn excludes_zero(&self) -> bool {
        self.lo > 0.0 || self.hi < 0.0
    }
}

/// JSON has no NaN: serde writes `null`, and this reads it back.
fn number_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_normal_data_is_about_two_standard_errors() {
        let mut values = vec![0.0f32; 400];
        Random::stream(5, "values", 0).fill_normal(&mut values);
        let values: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
        let interval = Interval::of(&values, 1);
        let width = interval.hi - interval.lo;
        assert!((width - 2.0 * 1.96 / 20.0).abs() < 0.03, "{width}");
        assert!(interval.lo < interval.mean && interval.mean < interval.hi);
    }

    #[test]
    fn equal_values_have_no_width() {
        let interval = Interval::of(&[0.25; 7], 1);
        assert_eq!((interval.lo, interval.mean, interval.hi), (0.25, 0.25, 0.25));
        assert!(interval.excludes_zero());
        assert!(Interval::of(&[], 1).mean.is_nan());
    }
}
