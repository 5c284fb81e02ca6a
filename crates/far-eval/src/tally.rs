//! Values clip by clip, and what they come to: means with intervals, differences, curves.

use crate::bootstrap::{Bootstrap, Interval};
use crate::frame_quality::{FRAME_METRICS, FrameValues};
use crate::results::{ArmResults, Curve};
use std::collections::BTreeMap;

/// The share of the return that counts as loop closure.
const CLOSURE: f64 = 0.05;
/// Frame metrics that are reported at loop closure too, by their place in [`FRAME_METRICS`].
const CLOSED: [(usize, &str); 3] = [(0, "psnr_closure"), (2, "ssim_closure"), (3, "lpips_closure")];
/// Bins of a curve.
const BINS: usize = 20;
/// The metric that is a ratio of sums.
const RECALL_QUALITY: &str = "recall_quality";

/// Values of one metric, one per clip; `None` where a clip has none.
type Column = Vec<Option<f64>>;

/// Everything measured, by arm, metric and clip.
pub(crate) struct Tally {
    clips: usize,
    values: BTreeMap<String, BTreeMap<String, Column>>,
    /// By arm, metric and bin.
    curves: BTreeMap<String, BTreeMap<&'static str, Vec<Column>>>,
    /// What the values of metrics that are ratios of sums are divided by, by metric and clip: for
    /// recall quality U(oracle) − U(random), summed over questions.
    divisors: BTreeMap<String, Vec<f64>>,
    /// How far the return of each clip leads; empty unless clips differ in it.
    tiers: Vec<Option<u32>>,
}

impl Tally {
    /// Nothing measured yet of these arms on this many clips.
    pub fn new<'a>(arms: impl Iterator<Item = &'a str>, clips: usize) -> Self {
        let values = arms.map(|arm| (arm.to_owned(), BTreeMap::new())).collect();
        let (curves, divisors, tiers) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { clips, values, curves, divisors, tiers }
    }

    /// The same, that takes note of rollouts by the clips' tiers as well if there are several.
    pub fn with_tiers(mut self, tiers: Vec<Option<u32>>) -> Self {
        let several =
            tiers.iter().flatten().any(|tier| Some(*tier) != tiers.iter().flatten().min().copied());
        self.tiers = if several { tiers } else { Vec::new() };
        self
    }

    /// The value of an arm's metric in a clip; what the metric comes to is the mean over clips.
    pub fn set(&mut self, arm: &str, metric: &str, clip: usize, value: f64) {
        let metrics = self.values.entry(arm.to_owned()).or_default();
        let column = metrics.entry(metric.to_owned());
        column.or_insert_with(|| vec![None; self.clips])[clip] = Some(value);
    }

    /// How often an arm was right in a clip, of so many times that are the same for every arm; what
    /// the metric comes to is the share over all clips.
    pub fn share(&mut self, arm: &str, metric: &str, clip: usize, right: f64, of: f64) {
        self.set(arm, metric, clip, right);
        self.divide(metric, clip, of);
    }

    /// What was set of a metric in a clip, and what it is divided by.
    #[cfg(test)]
    pub fn sums(&self, arm: &str, metric: &str, clip: usize) -> (f64, f64) {
        let value = self.values[arm][metric][clip].expect("a value");
        (value, self.divisors[metric][clip])
    }

    fn divide(&mut self, metric: &str, clip: usize, by: f64) {
        let divisors = self.divisors.entry(metric.to_owned());
        divisors.or_insert_with(|| vec![0.0; self.clips])[clip] = by;
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
                self.set(arm, &format!("{metric}_tier_{tier}"), clip, mean(&values));
            }
            let closing = (due as f64 * CLOSURE).round().max(1.0) as usize;
            if let Some((_, name)) = CLOSED.into_iter().find(|(closed, _)| *closed == place)
                && values.len() == due
            {
                self.set(arm, name, clip, mean(&values[due - closing..]));
            }
            let metrics = self.curves.entry(arm.to_owned()).or_default();
            let empty = || vec![vec![None; self.clips]; BINS];
            let bins = metrics.entry(metric).or_insert_with(empty);
            for (column, value) in bins.iter_mut().zip(binned(&values, due)) {
                column[clip] = value;
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
                below.push(divisors.map_or(1.0, |divisors| divisors[clip]));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(values: &[f64]) -> Vec<FrameValues> {
        values.iter().map(|value| [Some(*value), None, Some(0.5), None]).collect()
    }

    #[test]
    fn tiers_are_told_apart_where_there_are_several() {
        let roll = |tiers: Vec<Option<u32>>| {
            let mut tally = Tally::new(["a", "b"].into_iter(), 4).with_tiers(tiers);
            for clip in 0..4 {
                tally.rollout("a", clip, &frames(&[f64::from(clip as u32)]), 1);
                tally.rollout("b", clip, &frames(&[1.0]), 1);
            }
            let draws = &mut Draws::new(0);
            (tally.arms(draws), tally.paired(draws))
        };
        let (arms, paired) = roll(vec![Some(5), Some(15), Some(5), None]);
        assert_eq!(arms["a"]["psnr"].mean, 1.5);
        assert_eq!(arms["a"]["psnr_tier_5"].mean, 1.0);
        assert_eq!(arms["a"]["psnr_tier_15"].mean, 1.0);
        assert_eq!(paired["a"]["b"]["psnr_tier_5"].mean, 0.0);
        assert_eq!(
            (paired["a"]["b"]["psnr_tier_5"].lo, paired["a"]["b"]["psnr_tier_5"].hi),
            (-1.0, 1.0)
        );
        for tiers in [vec![None; 4], vec![Some(5); 4], vec![Some(5), None, None, None]] {
            assert!(roll(tiers).0["a"].keys().all(|metric| !metric.contains("tier")));
        }
    }

    #[test]
    fn closure_is_the_last_twentieth_of_a_whole_return() {
        let mut tally = Tally::new(["unheard"].into_iter(), 1);
        let values: Vec<f64> = (0..40).map(f64::from).collect();
        tally.rollout("whole", 0, &frames(&values), 40);
        tally.rollout("cut", 0, &frames(&values[..30]), 40);
        tally.rollout("short", 0, &frames(&values[..3]), 3);
        let arms = tally.arms(&mut Draws::new(0));
        assert_eq!(arms["whole"]["psnr"].mean, 19.5);
        assert_eq!(arms["whole"]["psnr_closure"].mean, 38.5);
        assert_eq!(arms["short"]["psnr_closure"].mean, 2.0);
        assert_eq!(arms["whole"]["ssim_closure"].mean, 0.5);
        assert!(!arms["cut"].contains_key("psnr_closure"));
        assert!(!arms["whole"].contains_key("lpips"));
        assert!(arms["unheard"].is_empty());
    }

    /// The mean of the bins is the mean of the frames, whatever their number.
    #[test]
    fn bins_share_frames_by_the_time_they_fill() {
        for count in [1, 3, 19, 20, 21, 57] {
            let values: Vec<f64> = (0..count).map(|n| f64::from(n * n % 7)).collect();
            let bins = binned(&values, values.len()).map(|bin| bin.expect("all are filled"));
            assert!((mean(&bins) - mean(&values)).abs() < 1e-9, "{count}");
        }
        assert_eq!(binned(&[1.0, 3.0], 2)[9..11], [Some(1.0), Some(3.0)]);
        // Three frames of four fill fifteen bins of twenty.
        assert_eq!(binned(&[1.0; 3], 4).iter().flatten().count(), 15);
    }

    #[test]
    fn recall_quality_is_a_ratio_of_sums_and_so_are_its_differences() {
        let mut tally = Tally::new([].into_iter(), 2);
        for (clip, oracle, good, poor) in [(0, 4.0, 4.0, 1.0), (1, 1.0, 0.0, 0.0)] {
            tally.oracle_gain(clip, oracle);
            tally.recall_gain("good", clip, good);
            tally.recall_gain("poor", clip, poor);
        }
        let draws = &mut Draws::new(0);
        assert_eq!(tally.arms(draws)["good"][RECALL_QUALITY].mean, 0.8);
        assert_eq!(tally.arms(draws)["poor"][RECALL_QUALITY].mean, 0.2);
        let difference = tally.paired(draws)["good"]["poor"][RECALL_QUALITY].mean;
        assert!((difference - 0.6).abs() < 1e-12);
    }

    #[test]
    fn differences_count_clips_that_both_have() {
        let mut tally = Tally::new([].into_iter(), 2);
        tally.one_step("left", 0, &[0.0, 2.0]);
        tally.one_step("left", 1, &[5.0]);
        tally.one_step("right", 0, &[2.0]);
        let draws = &mut Draws::new(0);
        assert_eq!(tally.paired(draws)["left"]["right"]["one_step_psnr"].mean, -1.0);
        assert_eq!(tally.arms(draws)["left"]["one_step_psnr"].mean, 3.0);
    }
}
