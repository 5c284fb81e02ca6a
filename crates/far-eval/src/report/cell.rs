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
    /// What it says.
    pub verdict: Verdict,
}

impl Cell {
    /// A value of a metric; it is the best once it has been compared.
    pub(super) fn of(value: Interval, metric: &Metric) -> Self {
        let interval = interval_text(value, |bound| metric.text(bound));
        let (text, wide) = (metric.text(value.mean), value.is_wide());
        Self { value, text, interval, best: false, wide }
    }
}

impl PairedCell {
    /// A difference in a metric.
    pub(super) fn of(value: Interval, metric: &Metric) -> Self {
        let interval = interval_text(value, |bound| metric.signed(bound));
        let verdict = Verdict::of(&value, metric.better);
        Self { value, text: metric.signed(value.mean), interval, verdict }
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
