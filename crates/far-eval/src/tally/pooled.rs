//! What tallies of one or several seeds come to: means with intervals, differences, curves.

use super::{BINS, Column, Tally};
use crate::bootstrap::{Bootstrap, Interval};
use crate::results::{ArmResults, Curve};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Tallies of the same arms on the same clips, one per seed.
pub(crate) struct Pooled<'a> {
    tallies: Vec<&'a Tally>,
    seed: u64,
    /// Draws by the number of clips, made once each.
    draws: RefCell<BTreeMap<usize, Bootstrap>>,
}

impl<'a> Pooled<'a> {
    /// These tallies, with intervals that are drawn by `seed`.
    pub fn new(tallies: Vec<&'a Tally>, seed: u64) -> Self {
        Self { tallies, seed, draws: RefCell::default() }
    }

    /// Each arm's values.
    pub fn arms(&self) -> BTreeMap<String, ArmResults> {
        let arms = self.each_arm().map(|(arm, metrics)| {
            let results = metrics.keys().filter_map(|metric| {
                let columns = self.columns(arm, metric);
                Some((metric.clone(), self.interval(metric, &columns)?))
            });
            (arm.clone(), results.collect())
        });
        arms.collect()
    }

    /// Each arm's values seed by seed; `None` where a seed has none.
    pub fn by_seed(&self) -> BTreeMap<String, BTreeMap<String, Vec<Option<f64>>>> {
        let arms = self.each_arm().map(|(arm, metrics)| {
            let values = metrics.keys().map(|metric| {
                let (above, below) = self.parts(metric, &self.columns(arm, metric));
                let own = above.iter().zip(&below).map(|(above, below)| quotient(above, below));
                (metric.clone(), own.collect())
            });
            (arm.clone(), values.collect())
        });
        arms.collect()
    }

    /// Differences of every arm to every other, on clips where both have a value.
    pub fn paired(&self) -> BTreeMap<String, BTreeMap<String, ArmResults>> {
        let mut paired = BTreeMap::new();
        for (left, metrics) in self.each_arm() {
            let mut others = BTreeMap::new();
            for (right, right_metrics) in self.each_arm().filter(|(right, _)| *right != left) {
                let shared = metrics.keys().filter(|metric| right_metrics.contains_key(*metric));
                let results = shared.filter_map(|metric| {
                    let columns = self.columns(left, metric).into_iter();
                    let columns = columns.zip(self.columns(right, metric)).map(difference);
                    Some((metric.clone(), self.interval(metric, &columns.collect::<Vec<_>>())?))
                });
                others.insert(right.clone(), results.collect());
            }
            paired.insert(left.clone(), others);
        }
        paired
    }

    /// Metrics over normalized time; bins that no clip reaches are left out.
    pub fn curves(&self) -> BTreeMap<String, BTreeMap<String, Curve>> {
        let mut curves = BTreeMap::new();
        for (arm, metrics) in self.tallies.first().map_or(&BTreeMap::new(), |first| &first.curves) {
            let mut own = BTreeMap::new();
            for metric in metrics.keys() {
                let mut curve = Curve::default();
                for bin in 0..BINS {
                    let bins = self.tallies.iter().map(|tally| {
                        let bins = tally.curves.get(arm).and_then(|own| own.get(metric));
                        bins.and_then(|bins| bins.get(bin)).cloned().unwrap_or_default()
                    });
                    if let Some(interval) = self.interval(metric, &bins.collect::<Vec<_>>()) {
                        curve.time.push((bin as f64 + 0.5) / BINS as f64);
                        curve.values.push(interval);
                    }
                }
                own.insert(metric.clone(), curve);
            }
            curves.insert(arm.clone(), own);
        }
        curves
    }

    /// Every arm with its metrics, as the first seed has them.
    fn each_arm(&self) -> impl Iterator<Item = (&'a String, &'a BTreeMap<String, Column>)> {
        self.tallies.first().into_iter().flat_map(|first| &first.values)
    }

    /// The values of an arm by seed and clip.
    fn columns(&self, arm: &str, metric: &str) -> Vec<Column> {
        let of = |tally: &&Tally| tally.values.get(arm)?.get(metric).cloned();
        self.tallies.iter().map(|tally| of(tally).unwrap_or_default()).collect()
    }

    /// The interval of one number per seed and clip.
    fn interval(&self, metric: &str, columns: &[Column]) -> Option<Interval> {
        let (above, below) = self.parts(metric, columns);
        let (seeds, count) = (self.tallies.len(), above.first()?.len());
        let mut draws = self.draws.borrow_mut();
        let draws = draws.entry(count).or_insert_with(|| Bootstrap::new(seeds, count, self.seed));
        draws.ratio(&above, &below)
    }

    /// Numerators and denominators by seed and clip: a metric with divisors is a ratio of sums. Rows
    /// that no seed has a value in are left out.
    fn parts(&self, metric: &str, columns: &[Column]) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
        let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
        let value = |column: &Column, row: usize| column.get(row).copied().flatten();
        let told = |row: &usize| columns.iter().any(|column| value(column, *row).is_some());
        let told: Vec<usize> = (0..rows).filter(told).collect();
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for (tally, column) in self.tallies.iter().zip(columns) {
            let divisors = tally.divisors.get(metric);
            let divisor = |row: usize| {
                divisors.map_or(1.0, |divisors| divisors.get(row).copied().unwrap_or(0.0))
            };
            let pairs = told.iter().map(|row| match value(column, *row) {
                Some(value) => (value, divisor(*row)),
                None => (0.0, 0.0),
            });
            let (over, under): (Vec<f64>, Vec<f64>) = pairs.unzip();
            above.push(over);
            below.push(under);
        }
        (above, below)
    }
}

/// Σ above / Σ below; `None` where Σ below is not more than 0.
fn quotient(above: &[f64], below: &[f64]) -> Option<f64> {
    let (above, below): (f64, f64) = (above.iter().sum(), below.iter().sum());
    (below > 0.0).then(|| above / below)
}

/// Left minus right, where both have a value.
fn difference((left, right): (Column, Column)) -> Column {
    left.into_iter().zip(right).map(|(left, right)| Some(left? - right?)).collect()
}
