//! Intervals by resampling clips, and seeds where there are several.

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
        let bootstrap = Bootstrap::new(1, values.len(), seed);
        bootstrap.ratio(&[values.to_vec()], &[weights]).unwrap_or(nothing)
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

/// Seeds and clips drawn anew many times; the same draws serve any number of intervals.
///
/// Seeds are drawn first, then clips, once for all seeds of a draw: every seed was judged on the same
/// clips, so a hard clip is hard for all of them, and drawing clips for each seed on its own would count
/// that chance away.
pub(crate) struct Bootstrap {
    seeds: usize,
    count: usize,
    /// Numbers of seeds, [DRAWS, seeds].
    drawn_seeds: Vec<u32>,
    /// Numbers of clips, [DRAWS, count].
    drawn: Vec<u32>,
}

impl Bootstrap {
    /// Draws among `seeds` seeds and `count` clips.
    pub fn new(seeds: usize, count: usize, seed: u64) -> Self {
        let draw = |purpose: &str, among: usize| {
            let mut random = Random::stream(seed, purpose, 0);
            (0..DRAWS * among).map(|_| random.below(among) as u32).collect()
        };
        Self {
            seeds,
            count,
            drawn_seeds: draw("bootstrap-seeds", seeds),
            drawn: draw("bootstrap", count),
        }
    }

    /// The interval of a ratio of means over clips, Σ numerator / Σ denominator, averaged over seeds;
    /// its parts are resampled together. With denominators of 1 it is the interval of a mean.
    ///
    /// `numerators` and `denominators` are [seeds, clips]; a denominator of 0 leaves a clip out. `None`
    /// without clips, or where no seed's denominators sum to more than 0 and the ratio means nothing;
    /// resampled sums of that kind are left out.
    ///
    /// # Panics
    /// If there is not one number of each kind per seed and clip.
    pub fn ratio(&self, numerators: &[Vec<f64>], denominators: &[Vec<f64>]) -> Option<Interval> {
        assert!(numerators.len() == self.seeds && denominators.len() == self.seeds);
        for values in numerators.iter().chain(denominators) {
            assert_eq!(values.len(), self.count);
        }
        let all: Vec<u32> = (0..self.count as u32).collect();
        let own = |places: &[u32], ratios: &mut Vec<Option<f64>>| {
            let parts = numerators.iter().zip(denominators);
            ratios.clear();
            ratios.extend(parts.map(|(above, below)| ratio(above, below, places)));
        };
        let mut ratios = Vec::with_capacity(self.seeds);
        own(&all, &mut ratios);
        let mean = mean(ratios.iter().copied())?;
        let draws = self.drawn_seeds.chunks(self.seeds).zip(self.drawn.chunks(self.count));
        let mut means: Vec<f64> = draws
            .filter_map(|(seeds, places)| {
                own(places, &mut ratios);
                self::mean(seeds.iter().map(|seed| ratios[*seed as usize]))
            })
            .collect();
        let last = means.len().checked_sub(1)? as f64;
        let mut at = |fraction: f64| {
            *means.select_nth_unstable_by((last * fraction).round() as usize, f64::total_cmp).1
        };
        Some(Interval { mean, lo: at(0.025), hi: at(0.975), n: self.count })
    }
}

/// Σ above / Σ below over some clips; `None` where Σ below is not more than 0.
fn ratio(above: &[f64], below: &[f64], places: &[u32]) -> Option<f64> {
    let (mut over, mut under) = (0.0, 0.0);
    for place in places {
        over += above[*place as usize];
        under += below[*place as usize];
    }
    (under > 0.0).then(|| over / under)
}

/// The mean of what there is.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for value in values.flatten() {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / f64::from(count))
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
        let bootstrap = Bootstrap::new(1, 30, 3);
        let interval = bootstrap.ratio(&[numerators], &[denominators]).unwrap();
        assert!((interval.lo - 0.5).abs() < 1e-12 && (interval.hi - 0.5).abs() < 1e-12);
        let of = |above: &[f64], below: &[f64]| {
            Bootstrap::new(1, above.len(), 3).ratio(&[above.to_vec()], &[below.to_vec()])
        };
        let uneven = of(&[1.0, 0.0], &[1.0, 3.0]).unwrap();
        assert_eq!((uneven.mean, uneven.lo, uneven.hi), (0.25, 0.0, 1.0));
        assert_eq!(of(&[1.0, 1.0], &[1.0, -1.0]), None);
        assert_eq!(of(&[], &[]), None);
    }

    /// The interval by its definition, draw by draw, value by value.
    fn reference(
        bootstrap: &Bootstrap,
        numerators: &[Vec<f64>],
        denominators: &[Vec<f64>],
    ) -> Option<[f64; 3]> {
        let statistic = |seeds: &[usize], clips: &[usize]| {
            let mut of_seeds = Vec::new();
            for seed in seeds {
                let above: f64 = clips.iter().map(|clip| numerators[*seed][*clip]).sum();
                let below: f64 = clips.iter().map(|clip| denominators[*seed][*clip]).sum();
                if below > 0.0 {
                    of_seeds.push(above / below);
                }
            }
            let count = of_seeds.len() as f64;
            (count > 0.0).then(|| of_seeds.iter().sum::<f64>() / count)
        };
        let (seeds, clips) = (bootstrap.seeds, bootstrap.count);
        let whole = |drawn: &[u32]| drawn.iter().map(|n| *n as usize).collect::<Vec<usize>>();
        let mut found: Vec<f64> = (0..DRAWS)
            .filter_map(|draw| {
                let own = &bootstrap.drawn_seeds[draw * seeds..(draw + 1) * seeds];
                let clips = &bootstrap.drawn[draw * clips..(draw + 1) * clips];
                statistic(&whole(own), &whole(clips))
            })
            .collect();
        found.sort_by(f64::total_cmp);
        let at = |fraction: f64| found[((found.len() - 1) as f64 * fraction).round() as usize];
        let all: (Vec<usize>, Vec<usize>) = ((0..seeds).collect(), (0..clips).collect());
        Some([statistic(&all.0, &all.1)?, at(0.025), at(0.975)])
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
        #[test]
        fn seeds_and_clips_are_drawn_as_the_definition_says(
            seeds in 1usize..5, clips in 1usize..20, salt: u64, missing in 0.0f32..0.6,
        ) {
            let mut random = Random::stream(salt, "values", 0);
            let mut numbers = |_| -> Vec<(f64, f64)> {
                let number = |_| {
                    let below = if random.uniform() < missing { 0.0 } else { 1.0 + random.below(3) as f64 };
                    (if below > 0.0 { f64::from(random.uniform()) } else { 0.0 }, below)
                };
                (0..clips).map(number).collect()
            };
            let values: Vec<Vec<(f64, f64)>> = (0..seeds).map(&mut numbers).collect();
            let part = |part: fn(&(f64, f64)) -> f64| -> Vec<Vec<f64>> {
                values.iter().map(|row| row.iter().map(part).collect()).collect()
            };
            let (above, below) = (part(|pair| pair.0), part(|pair| pair.1));
            let bootstrap = Bootstrap::new(seeds, clips, salt);
            let found = bootstrap.ratio(&above, &below);
            let found = found.map(|interval| [interval.mean, interval.lo, interval.hi]);
            match (found, reference(&bootstrap, &above, &below)) {
                (Some(found), Some(expected)) => {
                    for (found, expected) in found.into_iter().zip(expected) {
                        proptest::prop_assert!((found - expected).abs() < 1e-12);
                    }
                }
                (found, expected) => proptest::prop_assert_eq!(found, expected),
            }
        }
    }

    /// What differs from clip to clip does not average out over seeds, which share the clips; what
    /// differs from seed to seed widens the interval however many clips there are.
    #[test]
    fn several_seeds_do_not_hide_what_they_share() {
        let mut clips = vec![0.0f32; 100];
        Random::stream(9, "values", 0).fill_normal(&mut clips);
        let clips: Vec<f64> = clips.iter().map(|x| f64::from(*x)).collect();
        let ones = |seeds: usize| vec![vec![1.0; 100]; seeds];
        let width = |values: &[Vec<f64>]| {
            let bootstrap = Bootstrap::new(values.len(), 100, 1);
            let interval = bootstrap.ratio(values, &ones(values.len())).unwrap();
            interval.hi - interval.lo
        };
        let (one, three) = (width(std::slice::from_ref(&clips)), width(&vec![clips.clone(); 3]));
        assert!((one - three).abs() < 1e-12, "{one} {three}");
        let apart: Vec<Vec<f64>> = [-1.0, 0.0, 1.0].map(|seed| vec![seed; 100]).into();
        assert_eq!(width(&apart), 2.0);
        assert_eq!(Interval::of(&clips, 1).hi - Interval::of(&clips, 1).lo, one);
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
