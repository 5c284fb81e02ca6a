//! Intervals by resampling clips.

use far_tensor::Random;
use serde::{Deserialize, Deserializer, Serialize};

/// How often the clips are drawn anew. The ends of a 95 % interval then vary by about 2 % of its
/// width from seed to seed, well below what they say.
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
    /// How many clips it is over; 0 where a file does not say.
    #[serde(default)]
    pub n: usize,
}

impl Interval {
    /// The interval of one value per clip; all NaN without clips.
    ///
    /// Clips are the unit because steps of one clip are not independent. To compare two rules,
    /// pass their differences clip by clip.
    pub fn of(values: &[f64], seed: u64) -> Self {
        let nothing = Self { mean: f64::NAN, lo: f64::NAN, hi: f64::NAN, n: values.len() };
        let weights = vec![1.0; values.len()];
        Bootstrap::new(values.len(), seed).ratio(values, &weights).unwrap_or(nothing)
    }

    /// Whether zero lies outside. What this says of a difference is for a
    /// [`Verdict`](crate::Verdict), which also asks how many clips there are.
    pub fn excludes_zero(&self) -> bool {
        self.lo > 0.0 || self.hi < 0.0
    }

    /// Whether the interval is wider than its mean is large: the value is then known to its order
    /// of magnitude at best.
    pub fn is_wide(&self) -> bool {
        self.hi - self.lo > self.mean.abs()
    }
}

/// JSON has no NaN: serde writes `null`, and this reads it back.
fn number_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// Clips drawn anew many times; the same draws serve any number of intervals.
pub(crate) struct Bootstrap {
    count: usize,
    /// Numbers of clips, [DRAWS, count].
    drawn: Vec<u32>,
}

impl Bootstrap {
    /// Draws among `count` clips.
    pub fn new(count: usize, seed: u64) -> Self {
        let mut random = Random::stream(seed, "bootstrap", 0);
        let drawn = (0..DRAWS * count).map(|_| random.below(count) as u32).collect();
        Self { count, drawn }
    }

    /// The interval of a ratio of means over clips, Σ numerator / Σ denominator, whose parts are
    /// resampled together; with denominators of 1 it is that of a mean.
    ///
    /// `None` without clips, or where the denominators do not sum to more than 0 and the ratio
    /// means nothing; resampled sums of that kind are left out.
    ///
    /// # Panics
    /// If there is not one number of each kind per clip.
    pub fn ratio(&self, numerators: &[f64], denominators: &[f64]) -> Option<Interval> {
        assert!(numerators.len() == self.count && denominators.len() == self.count);
        let ratio = |places: &mut dyn Iterator<Item = usize>| {
            let (mut above, mut below) = (0.0, 0.0);
            for place in places {
                above += numerators[place];
                below += denominators[place];
            }
            (below > 0.0).then(|| above / below)
        };
        let mean = ratio(&mut (0..self.count))?;
        let draws = self.drawn.chunks(self.count);
        let mut ratios: Vec<f64> =
            draws.filter_map(|draw| ratio(&mut draw.iter().map(|place| *place as usize))).collect();
        let last = ratios.len().checked_sub(1)? as f64;
        let mut at = |fraction: f64| {
            *ratios.select_nth_unstable_by((last * fraction).round() as usize, f64::total_cmp).1
        };
        Some(Interval { mean, lo: at(0.025), hi: at(0.975), n: self.count })
    }
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

    /// A ratio of sums is not the mean of ratios, and its parts are drawn together.
    #[test]
    fn a_ratio_is_of_sums_and_its_parts_stay_together() {
        let denominators: Vec<f64> = (1..=30).map(f64::from).collect();
        let numerators: Vec<f64> = denominators.iter().map(|value| 0.5 * value).collect();
        let bootstrap = Bootstrap::new(30, 3);
        let interval = bootstrap.ratio(&numerators, &denominators).unwrap();
        assert!((interval.lo - 0.5).abs() < 1e-12 && (interval.hi - 0.5).abs() < 1e-12);
        let uneven = Bootstrap::new(2, 3).ratio(&[1.0, 0.0], &[1.0, 3.0]).unwrap();
        assert_eq!((uneven.mean, uneven.lo, uneven.hi), (0.25, 0.0, 1.0));
        assert_eq!(Bootstrap::new(2, 3).ratio(&[1.0, 1.0], &[1.0, -1.0]), None);
        assert_eq!(Bootstrap::new(0, 3).ratio(&[], &[]), None);
    }

    #[test]
    fn equal_values_have_no_width() {
        let interval = Interval::of(&[0.25; 7], 1);
        assert_eq!((interval.lo, interval.mean, interval.hi), (0.25, 0.25, 0.25));
        assert!(interval.excludes_zero() && !interval.is_wide());
        assert_eq!(interval.n, 7);
        assert!(Interval::of(&[], 1).mean.is_nan());
    }

    #[test]
    fn an_interval_wider_than_its_mean_is_wide_on_either_side_of_zero() {
        let interval = |mean, lo, hi| Interval { mean, lo, hi, n: 20 };
        assert!(interval(1.18, 0.15, 9.36).is_wide());
        assert!(interval(-0.02, -0.05, 0.01).is_wide());
        assert!(!interval(-1.1, -1.4, -0.8).is_wide());
        assert!(!interval(f64::NAN, f64::NAN, f64::NAN).is_wide());
    }

    #[test]
    fn files_that_do_not_count_clips_are_read() {
        let read: Interval = serde_json::from_str(r#"{"mean":1,"lo":null,"hi":2}"#).unwrap();
        assert!(read.n == 0 && read.lo.is_nan());
    }
}
