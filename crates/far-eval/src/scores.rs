//! What one arm scored on every clip under one seed, in a file small enough to be sent around.
//!
//! An evaluation leaves one such file per arm in `scores/`. Files of several seeds, made on any machines,
//! are merged into [`Results`] whose intervals are over seeds and clips.

use crate::tally::{MeasuredArm, Pooled, Tally};
use crate::{ArmDescription, Error, KeptFile, Metric, Result, Results};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Name of the folder of scores in a run's folder.
pub const SCORES_FOLDER: &str = "scores";
/// The version of the files.
const VERSION: u32 = 1;
/// Significant digits of values and of points of curves: far below what clips differ by.
const DIGITS: [usize; 2] = [6, 4];
/// Largest file that is read: several hundred times what an evaluation writes.
const LARGEST: u64 = 64 << 20;

/// The scores of one arm under one seed, clip by clip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scores {
    version: u32,
    /// The arm's name.
    pub arm: String,
    /// What it is.
    pub description: ArmDescription,
    /// What it shares with all arms of the evaluation.
    pub protocol: Protocol,
    /// Seconds of the arm's training, if known.
    #[serde(default)]
    pub train_seconds: Option<f64>,
    /// Settings that differ from the default ones and decide what is found, all but the seed.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// What metrics mean that are not described by their name.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// What was measured.
    pub measured: MeasuredArm,
}

/// What all arms of an evaluation share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// The seed of training and evaluation.
    pub seed: u64,
    /// The dataset in words: two that differ are never merged.
    pub dataset: String,
    /// The dataset's corpus.
    pub corpus: String,
    /// The episodes of the clips, in the order of the values.
    pub episodes: Vec<u32>,
    /// The judge, as in [`Results`].
    pub judge: String,
    /// Memories per recall.
    pub slots: usize,
    /// What it ran on.
    pub device: String,
}

impl Scores {
    /// The scores of an arm of an evaluation.
    pub(crate) fn new(
        arm: &str,
        description: ArmDescription,
        tally: &Tally,
        protocol: &Protocol,
    ) -> Self {
        let mut measured = tally.measured(arm);
        let values = measured.values.values_mut().flat_map(|column| column.iter_mut().flatten());
        let divisors = measured.divisors.values_mut().flatten();
        values.chain(divisors).for_each(|value| *value = rounded(*value, DIGITS[0]));
        let bins = measured.curves.values_mut().flatten();
        let points = bins.flat_map(|column| column.iter_mut().flatten());
        points.for_each(|value| *value = rounded(*value, DIGITS[1]));
        let mut metrics = tally.descriptions();
        metrics.retain(|metric| {
            measured.values.contains_key(&metric.id) && *metric != Metric::of(&metric.id)
        });
        Self {
            version: VERSION,
            arm: arm.to_owned(),
            description,
            protocol: protocol.clone(),
            train_seconds: None,
            settings: BTreeMap::new(),
            metrics,
            measured,
        }
    }

    /// Writes the file into a run's folder and says where.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, run: &Path) -> Result<PathBuf> {
        let (folder, name) = (SCORES_FOLDER.to_owned(), format!("{}.json", self.arm));
        KeptFile { folder, name, text: self.to_json() }.write(run)
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("scores have only text keys")
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, does not hold scores, or holds values that fit no clip.
    pub fn read(path: &Path) -> Result<Self> {
        let length = std::fs::metadata(path).map_err(Error::file("read", path))?.len();
        if length > LARGEST {
            return Err(Error::malformed(path, format!("{length} bytes are too many for scores")));
        }
        let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
        Self::parse(&bytes).map_err(|reason| Error::malformed(path, reason))
    }

    /// The scores in a file's bytes, or what is wrong with them.
    ///
    /// # Errors
    /// As [`Scores::read`].
    pub fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        let scores: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if scores.version != VERSION {
            return Err(format!("version {} is not known, only {VERSION}", scores.version));
        }
        let known: BTreeSet<&u32> = scores.protocol.episodes.iter().collect();
        if known.len() != scores.protocol.episodes.len() {
            return Err("an episode stands in it twice".to_owned());
        }
        let clips = scores.protocol.episodes.len();
        let bins = scores.measured.curves.values().flatten();
        if let Some(column) = bins.into_iter().find(|column| column.len() > clips) {
            return Err(format!("a curve has {} clips, the file {clips}", column.len()));
        }
        Ok(scores)
    }

    /// All score files in a folder: its own, those in its `scores/`, and those of seeds in it.
    ///
    /// # Errors
    /// If a folder cannot be listed or a file cannot be read.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>> {
        let is_json = |name: &str| name.ends_with(".json");
        let own = folder.file_name().is_some_and(|name| name == SCORES_FOLDER);
        let mut folders = vec![if own { folder.to_path_buf() } else { folder.join(SCORES_FOLDER) }];
        let seeds = crate::report::list(folder, |name| name.starts_with("seed-"))?;
        folders.extend(seeds.iter().map(|seed| seed.join(SCORES_FOLDER)));
        let mut scores = Vec::new();
        for folder in folders {
            for path in crate::report::list(&folder, is_json)? {
                scores.push(Self::read(&path)?);
            }
        }
        Ok(scores)
    }

    /// What they have in common with others of the same comparison, by name.
    fn common(&self) -> [(&'static str, String); 4] {
        [
            ("dataset", self.protocol.dataset.clone()),
            ("judge", self.protocol.judge.clone()),
            ("memories per recall", self.protocol.slots.to_string()),
            ("test walks", walks(&self.protocol.episodes)),
        ]
    }
}

/// Leaves out the metrics that an arm does not have under every seed, as where one machine lacked the
/// weights of LPIPS, and returns them with the seeds that lack them.
pub fn keep_shared_metrics(scores: &mut [Scores]) -> BTreeMap<String, BTreeSet<u64>> {
    let mut lacking: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for each in scores.iter() {
        for other in scores.iter().filter(|other| other.arm == each.arm) {
            let found = &other.measured.values;
            let metrics = each.measured.values.keys().filter(|metric| !found.contains_key(*metric));
            for metric in metrics {
                lacking.entry(metric.clone()).or_default().insert(other.protocol.seed);
            }
        }
    }
    for Scores { metrics, measured, .. } in scores {
        metrics.retain(|metric| !lacking.contains_key(&metric.id));
        measured.values.retain(|metric, _| !lacking.contains_key(metric));
        measured.divisors.retain(|metric, _| !lacking.contains_key(metric));
        measured.curves.retain(|metric, _| !lacking.contains_key(metric));
    }
    lacking
}

/// Scores of the same arms on the same clips under one or several seeds as results.
///
/// # Errors
/// If there are none, an arm stands twice under a seed, or arms, clips or settings differ; the message
/// says in what.
pub fn merge(scores: &[Scores]) -> Result<Results> {
    let first = scores.first().ok_or_else(|| Error::Nothing("there are no scores".to_owned()))?;
    let mut seeds: BTreeMap<u64, BTreeMap<&str, &Scores>> = BTreeMap::new();
    for each in scores {
        for ((what, expected), (_, found)) in first.common().into_iter().zip(each.common()) {
            if expected != found {
                let named =
                    |scores: &Scores| format!("{} of seed {}", scores.arm, scores.protocol.seed);
                let (a, b) = (named(first), named(each));
                return differ(format!("{what}: {a} has {expected}, {b} has {found}"));
            }
        }
        if seeds.entry(each.protocol.seed).or_default().insert(&each.arm, each).is_some() {
            return differ(format!("{} stands twice under seed {}", each.arm, each.protocol.seed));
        }
    }
    let (first_seed, first_arms) = seeds.first_key_value().expect("there are scores");
    for (seed, arms) in &seeds {
        let names: BTreeSet<_> = first_arms.keys().chain(arms.keys()).collect();
        for name in names {
            let (Some(expected), Some(found)) = (first_arms.get(name), arms.get(name)) else {
                let lacking = if arms.contains_key(name) { first_seed } else { seed };
                return differ(format!("seed {lacking} has no arm {name}, another has"));
            };
            compare_settings(expected, found)?;
        }
    }
    let tallies: Vec<Tally> = seeds
        .values()
        .map(|arms| Tally::of(arms.values().map(|scores| (scores.arm.as_str(), &scores.measured))))
        .collect();
    let pooled = Pooled::new(tallies.iter().collect(), *first_seed);
    let devices: BTreeSet<&str> =
        scores.iter().map(|scores| scores.protocol.device.as_str()).collect();
    let mut descriptions: Vec<Metric> = Vec::new();
    for metric in first_arms.values().flat_map(|scores| &scores.metrics) {
        if descriptions.iter().all(|known| known.id != metric.id) {
            descriptions.push(metric.clone());
        }
    }
    Ok(Results {
        corpus: first.protocol.corpus.clone(),
        clips: first.protocol.episodes.len(),
        seed: *first_seed,
        seeds: if seeds.len() > 1 { seeds.keys().copied().collect() } else { Vec::new() },
        left_out: BTreeMap::new(),
        device: devices.into_iter().collect::<Vec<_>>().join(", "),
        train_seconds: scores.iter().filter_map(|scores| scores.train_seconds).reduce(|a, b| a + b),
        judge: first.protocol.judge.clone(),
        slots: first.protocol.slots,
        descriptions,
        arm_descriptions: first_arms
            .iter()
            .map(|(arm, scores)| ((*arm).to_owned(), scores.description.clone()))
            .collect(),
        arms: pooled.arms(),
        by_seed: if seeds.len() > 1 { pooled.by_seed() } else { BTreeMap::new() },
        paired: pooled.paired(),
        curves: pooled.curves(),
    })
}

/// Seeds of an arm must have been trained with the same settings and measured by the same metrics.
fn compare_settings(expected: &Scores, found: &Scores) -> Result<()> {
    let [a, b] = [expected, found].map(|scores| scores.protocol.seed);
    let keys: BTreeSet<_> = expected.settings.keys().chain(found.settings.keys()).collect();
    for key in keys {
        let [x, y] = [expected, found].map(|scores| scores.settings.get(key));
        if x != y {
            let [x, y] = [x, y].map(|value| value.map_or("the default", String::as_str));
            let arm = &found.arm;
            return differ(format!("{arm}: {key} is {x} under seed {a}, {y} under seed {b}"));
        }
    }
    let metrics = |scores: &Scores| scores.measured.values.keys().cloned().collect::<BTreeSet<_>>();
    let [x, y] = [expected, found].map(metrics);
    if let Some(metric) = x.symmetric_difference(&y).next() {
        let lacking = if x.contains(metric) { b } else { a };
        return differ(format!("{} has no {metric} under seed {lacking}, another has", found.arm));
    }
    Ok(())
}

fn differ<T>(reason: String) -> Result<T> {
    Err(Error::Differ(reason))
}

/// Episodes as people compare them.
fn walks(episodes: &[u32]) -> String {
    let shown: Vec<String> = episodes.iter().take(6).map(u32::to_string).collect();
    let more = if episodes.len() > 6 { ", …" } else { "" };
    // A sum tells apart what the first six do not.
    let check = episodes.iter().fold(0u32, |sum, episode| {
        sum.rotate_left(5).wrapping_add(*episode).wrapping_mul(0x9E37_79B1)
    });
    format!("{} episodes ({}{more}; {check:08x})", episodes.len(), shown.join(", "))
}

/// A number with so many significant digits.
fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests;
