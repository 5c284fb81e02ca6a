//! Values clip by clip, and what they come to: means with intervals, differences, curves.

#[cfg(test)]
mod tests;

use crate::bootstrap::{Bootstrap, Interval};
use crate::frame_quality::{FRAME_METRICS, FrameValues};
use crate::probe::Measured;
use crate::results::{ArmResults, Curve};
use crate::{Error, Metric, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The share of the return that counts as loop closure.
const CLOSURE: f64 = 0.05;
/// Frame metrics that are reported at loop closure too, by their place in [`FRAME_METRICS`].
const CLOSED: [(usize, &str); 3] = [(0, "psnr_closure"), (2, "ssim_closure"), (3, "lpips_closure")];
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
    curves: BTreeMap<String, BTreeMap<&'static str, Vec<Column>>>,
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
            let bins = metrics.entry(metric).or_insert_with(|| vec![Vec::new(); BINS]);
            for (column, value) in bins.iter_mut().zip(binned(&values, due)) {
                *row(column, clip) = value;
            }
        }
    }

    /// The interval of one number per clip; a metric with divisors is a ratio of sums.
    fn interval(
        &self,
        metric: &str,
        values: impl Iterator<Item = Option<f64>>,
        draws: &mut Draws,
    ) -> Option<Interval> {
        let divisors = self.divisors.get(metric);
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for (clip, value) in values.enumerate() {
            if let Some(value) = value {
                above.push(value);
                below.push(
                    divisors.map_or(1.0, |divisors| divisors.get(clip).copied().unwrap_or(0.0)),
                );
            }
        }
        draws.of(above.len()).ratio(&above, &below)
    }

    /// Each arm's values.
    pub fn arms(&self, draws: &mut Draws) -> BTreeMap<String, ArmResults> {
        let arms = self.values.iter().map(|(arm, metrics)| {
            let results = metrics.iter().filter_map(|(metric, column)| {
                let interval = self.interval(metric, column.iter().copied(), draws)?;
                Some((metric.clone(), interval))
            });
            (arm.clone(), results.collect())
        });
        arms.collect()
    }

    /// Differences of every arm to every other, on clips where both have a value.
    pub fn paired(&self, draws: &mut Draws) -> BTreeMap<String, BTreeMap<String, ArmResults>> {
        let mut paired = BTreeMap::new();
        for (left, left_metrics) in &self.values {
            let mut others = BTreeMap::new();
            for (right, right_metrics) in self.values.iter().filter(|(right, _)| *right != left) {
                let results: ArmResults = left_metrics
                    .iter()
                    .filter_map(|(metric, left)| {
                        let pairs = left.iter().zip(right_metrics.get(metric)?);
                        let differences = pairs.map(|(left, right)| Some((*left)? - (*right)?));
                        let interval = self.interval(metric, differences, draws)?;
                        Some((metric.clone(), interval))
                    })
                    .collect();
                others.insert(right.clone(), results);
            }
            paired.insert(left.clone(), others);
        }
        paired
    }

    /// Metrics over normalized time; bins that no clip reaches are left out.
    pub fn curves(&self, draws: &mut Draws) -> BTreeMap<String, BTreeMap<String, Curve>> {
        let mut curves = BTreeMap::new();
        for (arm, metrics) in &self.curves {
            let mut own = BTreeMap::new();
            for (metric, bins) in metrics {
                let mut curve = Curve::default();
                for (bin, column) in bins.iter().enumerate() {
                    let interval = self.interval(metric, column.iter().copied(), draws);
                    if let Some(interval) = interval {
                        curve.time.push((bin as f64 + 0.5) / BINS as f64);
                        curve.values.push(interval);
                    }
                }
                own.insert((*metric).to_owned(), curve);
            }
            curves.insert(arm.clone(), own);
        }
        curves
    }
}

/// Resampled clips by their number, drawn once each.
pub(crate) struct Draws {
    seed: u64,
    by_count: BTreeMap<usize, Bootstrap>,
}

impl Draws {
    /// No draw yet.
    pub fn new(seed: u64) -> Self {
        Self { seed, by_count: BTreeMap::new() }
    }

    fn of(&mut self, count: usize) -> &Bootstrap {
        self.by_count.entry(count).or_insert_with(|| Bootstrap::new(count, self.seed))
    }
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
