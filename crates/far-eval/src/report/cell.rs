//! Values and differences as people read them.

use super::metric::Metric;
use super::verdict::Verdict;
use crate::Interval;
use serde::Serialize;

/// One value with its interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The numbers.
    pub value: Interval,
    /// The mean for people, without its unit.
    pub text: String,
    /// The interval for people.
    pub interval: String,
    /// The spread of seeds, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Whether no other arm is better; controls do not compete.
    pub best: bool,
    /// Whether the interval is wider than the mean is large, which asks for caution.
    pub wide: bool,
}

/// One difference with its interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairedCell {
    /// The numbers.
    pub value: Interval,
    /// The mean for people, with its sign, without its unit.
    pub text: String,
    /// The interval for people.
    pub interval: String,
    /// The spread of seeds, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// What it says.
    pub verdict: Verdict,
}

impl Cell {
    /// A value of a metric; it is the best once it has been compared.
    pub(super) fn of(value: Interval, seeds: &[Option<f64>], metric: &Metric) -> Self {
        let interval = interval_text(value, |bound| metric.text(bound));
        let (text, wide) = (metric.text(value.mean), value.is_wide());
        let spread = Spread::of(seeds, metric, |value| metric.text(value));
        Self { value, text, interval, spread, best: false, wide }
    }
}

impl PairedCell {
    /// A difference in a metric.
    pub(super) fn of(value: Interval, seeds: &[Option<f64>], metric: &Metric) -> Self {
        let interval = interval_text(value, |bound| metric.signed(bound));
        let verdict = Verdict::of(&value, metric.better);
        let spread = Spread::of(seeds, metric, |value| metric.signed(value));
        Self { value, text: metric.signed(value.mean), interval, spread, verdict }
    }
}

/// How far seeds lie apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The least and the most value for people.
    pub range: String,
    /// The standard deviation over seeds for people.
    pub deviation: String,
    /// Seeds with a value.
    pub seeds: usize,
    /// Those of them whose value is above and below zero.
    pub signs: [usize; 2],
}

impl Spread {
    /// The spread of one value per seed; `None` for fewer than two.
    fn of(seeds: &[Option<f64>], metric: &Metric, text: impl Fn(f64) -> String) -> Option<Self> {
        let values: Vec<f64> = seeds.iter().copied().flatten().filter(|x| x.is_finite()).collect();
        let count = values.len();
        if count < 2 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let (least, most) = values
            .iter()
            .fold((f64::MAX, f64::MIN), |(a, b), value| (a.min(*value), b.max(*value)));
        Some(Self {
            range: format!("{} to {}", text(least), text(most)),
            deviation: metric.text((squares / (count - 1) as f64).sqrt()),
            seeds: count,
            signs: [1.0, -1.0]
                .map(|sign| values.iter().filter(|value| sign * **value > 0.0).count()),
        })
    }

    /// How many seeds have the sign of the mean, as "3 of 3 seeds".
    pub fn agreement(&self, mean: f64) -> String {
        let agree = self.signs[usize::from(mean < 0.0)];
        format!("{agree} of {} seeds", self.seeds)
    }
}

fn interval_text(value: Interval, text: impl Fn(f64) -> String) -> String {
    if value.lo.is_nan() || value.hi.is_nan() {
        return "–".to_owned();
    }
    // Drawing anew from one clip gives that clip: no width, and no knowledge.
    if value.n == 1 {
        return "one clip".to_owned();
    }
    format!("{} to {}", text(value.lo), text(value.hi))
}
