//! What a probe measured: a metric that says what it means, with its values.

use crate::Metric;

/// One metric with its values by arm and row. A row is what intervals resample: a clip, or whatever
/// else a probe counts, such as a pair of clips. Differences of arms are taken row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub(crate) metric: Metric,
    pub(crate) values: Vec<MeasuredValue>,
}

/// The value of one arm in one row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeasuredValue {
    pub arm: String,
    pub row: usize,
    pub value: f64,
    /// What the sum of values is divided by the sum of; `None` counts every row alike.
    pub of: Option<f64>,
}

impl Measured {
    /// No value yet.
    pub fn new(metric: Metric) -> Self {
        Self { metric, values: Vec::new() }
    }

    /// A value; the metric comes to the mean over rows.
    pub fn set(&mut self, arm: &str, row: usize, value: f64) {
        self.values.push(MeasuredValue { arm: arm.to_owned(), row, value, of: None });
    }

    /// Whether an answer is right; the metric comes to the share of right ones.
    pub fn answer(&mut self, arm: &str, row: usize, is_right: bool) {
        self.set(arm, row, f64::from(u8::from(is_right)));
    }

    /// How many of several answers are right, of as many for every arm; the metric comes to the
    /// share over all rows.
    pub fn share(&mut self, arm: &str, row: usize, right: usize, of: usize) {
        let (value, of) = (right as f64, Some(of as f64));
        self.values.push(MeasuredValue { arm: arm.to_owned(), row, value, of });
    }

    /// What it means.
    pub fn metric(&self) -> &Metric {
        &self.metric
    }

    /// The value of an arm in a row, and what it is a share of.
    #[cfg(test)]
    pub fn value(&self, arm: &str, row: usize) -> Option<(f64, Option<f64>)> {
        let mut values = self.values.iter();
        let found = values.find(|value| value.arm == arm && value.row == row)?;
        Some((found.value, found.of))
    }
}
