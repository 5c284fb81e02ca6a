//! Values clip by clip; `pooled.rs` has what they come to.

mod pooled;
#[cfg(test)]
mod tests;

pub(crate) use pooled::Pooled;

use crate::frame_quality::{FRAME_METRICS, FrameValues};
use crate::probe::Measured;
use crate::{Error, Metric, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The share of the return that counts as loop closure.
const CLOSURE: f64 = 0.05;
/// Frame metrics that are reported at loop closure too, by their place in [`FRAME_METRICS`].
const CLOSED: [(usize, &str); 4] =
    [(0, "psnr_closure"), (2, "ssim_closure"), (3, "lpips_closure"), (4, "dreamsim_closure")];
/// Bins of a curve.
const BINS: usize = 20;
/// The metric that is a ratio of sums.
const RECALL_QUALITY: &str = "recall_quality";

/// Values of one metric, one per clip or other row; `None` where a row has none, as all behind the
/// last.
type Column = Vec<Option<f64>>;

/// Everything measured, by arm, metric and clip.
pub(crate) struct Tally {
    values: BTreeMap<String, BTreeMap<String, Column>>,
    /// By arm, metric and bin.
    curves: BTreeMap<String, BTreeMap<String, Vec<Column>>>,
    /// What the values of metrics that are ratios of sums are divided by, by metric and clip: for
    /// recall quality U(oracle) − U(random), summed over questions.
    divisors: BTreeMap<String, Vec<f64>>,
    /// How far the return of each clip leads; empty unless clips differ in it.
    tiers: Vec<Option<u32>>,
    /// The metrics of probes.
    probed: Vec<Metric>,
}

impl Tally {
    /// Nothing measured yet of these arms.
    pub fn new<'a>(arms: impl Iterator<Item = &'a str>) -> Self {
        let values = arms.map(|arm| (arm.to_owned(), BTreeMap::new())).collect();
        let (curves, divisors) = (BTreeMap::new(), BTreeMap::new());
        Self { values, curves, divisors, tiers: Vec::new(), probed: Vec::new() }
    }

    /// The same, that takes note of rollouts by the clips' tiers as well if there are several.
    pub fn with_tiers(mut self, tiers: Vec<Option<u32>>) -> Self {
        let different: BTreeSet<u32> = tiers.iter().flatten().copied().collect();
        self.tiers = if different.len() > 1 { tiers } else { Vec::new() };
        self
    }

    /// The value of an arm's metric in a clip; what the metric comes to is the mean over clips.
    fn set(&mut self, arm: &str, metric: &str, clip: usize, value: f64) {
        let metrics = self.values.entry(arm.to_owned()).or_default();
        *row(metrics.entry(metric.to_owned()).or_default(), clip) = Some(value);
    }

    /// What the sum of a metric's values is divided by the sum of.
    fn divide(&mut self, metric: &str, clip: usize, by: f64) {
        *row(self.divisors.entry(metric.to_owned()).or_default(), clip) = by;
    }

    /// The values of a probe.
    ///
    /// # Errors
    /// If the metric has been measured already.
    pub fn take(&mut self, measured: Measured) -> Result<()> {
        let Measured { metric, values } = measured;
        if self.values.values().any(|arm| arm.contains_key(&metric.id)) {
            return Err(Error::Setting {
                setting: format!("metric {}", metric.id),
                reason: "another probe, or the evaluation itself, measures one of this name"
                    .to_owned(),
            });
        }
        for value in values {
            self.set(&value.arm, &metric.id, value.row, value.value);
            if let Some(of) = value.of {
                self.divide(&metric.id, value.row, of);
            }
        }
        self.probed.push(metric);
        Ok(())
    }

    /// How everything that was measured is shown, in the order of tables.
    pub fn descriptions(&self) -> Vec<Metric> {
        let tiers: BTreeSet<u32> = self.tiers.iter().flatten().copied().collect();
        let tiers = Metric::standard().flat_map(|metric| {
            let of_tier = |tier: &u32| metric.of_tier(*tier);
            tiers.iter().map(of_tier).collect::<Vec<_>>()
        });
        let all = Metric::standard().chain(tiers).chain(self.probed.iter().cloned());
        all.filter(|metric| self.values.values().any(|arm| arm.contains_key(&metric.id))).collect()
    }

    /// The one-step PSNR of an arm's predictions in a clip.
    pub fn one_step(&mut self, arm: &str, clip: usize, values: &[f64]) {
        if !values.is_empty() {
            self.set(arm, "one_step_psnr", clip, mean(values));
        }
    }

    /// What the oracle gains in a clip over all questions.
    pub fn oracle_gain(&mut self, clip: usize, gain: f64) {
        self.divide(RECALL_QUALITY, clip, gain);
    }

    /// What an arm gains in a clip over the same questions.
    pub fn recall_gain(&mut self, arm: &str, clip: usize, gain: f64) {
        self.set(arm, RECALL_QUALITY, clip, gain);
    }

    /// The frames of an arm's rollout of a clip, the first of the `due` that its return has.
    pub fn rollout(&mut self, arm: &str, clip: usize, frames: &[FrameValues], due: usize) {
        for (place, metric) in FRAME_METRICS.into_iter().enumerate() {
            let values: Option<Vec<f64>> = frames.iter().map(|frame| frame[place]).collect();
            let Some(values) = values.filter(|values| !values.is_empty()) else { continue };
            self.set(arm, metric, clip, mean(&values));
            if let Some(tier) = self.tiers.get(clip).copied().flatten() {
                self.set(arm, &Metric::tier_id(metric, tier), clip, mean(&values));
            }
            let closing = (due as f64 * CLOSURE).round().max(1.0) as usize;
            if let Some((_, name)) = CLOSED.into_iter().find(|(closed, _)| *closed == place)
                && values.len() == due
            {
                self.set(arm, name, clip, mean(&values[due - closing..]));
            }
            let metrics = self.curves.entry(arm.to_owned()).or_default();
            let bins = metrics.entry(metric.to_owned()).or_insert_with(|| vec![Vec::new(); BINS]);
            for (column, value) in bins.iter_mut().zip(binned(&values, due)) {
                *row(column, clip) = value;
            }
        }
    }

    /// What was measured of an arm.
    pub fn measured(&self, arm: &str) -> MeasuredArm {
        let values = self.values.get(arm).cloned().unwrap_or_default();
        let divisors = self.divisors.iter().filter(|(metric, _)| values.contains_key(*metric));
        MeasuredArm {
            divisors: divisors.map(|(metric, by)| (metric.clone(), by.clone())).collect(),
            curves: self.curves.get(arm).cloned().unwrap_or_default(),
            values,
        }
    }

    /// The tally in which these arms were measured.
    pub fn of<'a>(arms: impl Iterator<Item = (&'a str, &'a MeasuredArm)>) -> Self {
        let mut tally = Self::new(std::iter::empty());
        for (arm, MeasuredArm { values, divisors, curves }) in arms {
            tally.values.insert(arm.to_owned(), values.clone());
            tally.curves.insert(arm.to_owned(), curves.clone());
            for (metric, by) in divisors {
                tally.divisors.insert(metric.clone(), by.clone());
            }
        }
        tally
    }
}

/// What was measured of one arm, clip by clip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredArm {
    /// Values by metric and row.
    pub(crate) values: BTreeMap<String, Column>,
    /// What they are divided by where a metric is a ratio of sums.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) divisors: BTreeMap<String, Vec<f64>>,
    /// By metric, bin and clip.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) curves: BTreeMap<String, Vec<Column>>,
}

/// The place of a row in a column, which grows where it ends before.
fn row<T: Clone + Default>(column: &mut Vec<T>, row: usize) -> &mut T {
    if column.len() <= row {
        column.resize(row + 1, T::default());
    }
    &mut column[row]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Frames over normalized time: frame i of n fills [i/n, (i + 1)/n], and a bin is the mean of what
/// fills it. So clips of any length have the same axis.
fn binned(values: &[f64], due: usize) -> [Option<f64>; BINS] {
    std::array::from_fn(|bin| {
        // In units of 1 / (n·bins), in which all edges are whole.
        let (start, end) = (bin * due, (bin + 1) * due);
        let (mut sum, mut filled) = (0.0, 0);
        let last = values.len().min(end.div_ceil(BINS));
        for (frame, value) in values.iter().enumerate().take(last).skip(start / BINS) {
            let shared = end.min((frame + 1) * BINS) - start.max(frame * BINS);
            sum += shared as f64 * value;
            filled += shared;
        }
        (filled > 0).then(|| sum / filled as f64)
    })
}
