//! What an evaluation found: the same shape everywhere, `results.json` in a run's folder.

use crate::{
    ArmDescription, Error, Interval, Kept, KeptFile, Metric, Result, SCORES_FOLDER, Scores, report,
};
use far_data::Picture;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Values of one arm by metric; those that were not measured are left out.
///
/// | metric | what |
/// |---|---|
/// | `psnr`, `ssim`, `lpips`, `dreamsim` | mean over the frames of a rollout, then over clips, against the decoded truth |
/// | `psnr_raw` | the same against the frame as it was recorded |
/// | `psnr_closure`, `ssim_closure`, `lpips_closure`, `dreamsim_closure` | of the last 5 % of the return, at least one frame |
/// | `one_step_psnr` | of predictions from real frames |
/// | `recall_quality` | 1 is the oracle, 0 is chance |
///
/// Those of probes are listed in `docs/metrics.md`, and described in [`Results::descriptions`].
pub type ArmResults = BTreeMap<String, Interval>;

/// The results of all arms on the same clips.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The dataset's corpus.
    pub corpus: String,
    /// How many clips were judged.
    pub clips: usize,
    /// The seed of the evaluation's noise and of the intervals.
    pub seed: u64,
    /// All seeds where there are several; values are then means over them, and intervals over seeds
    /// and clips.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<u64>,
    /// Metrics that a merge of seeds left out, with the seeds under which they were not measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, BTreeSet<u64>>,
    /// What it ran on.
    pub device: String,
    /// Seconds of training, if known.
    pub train_seconds: Option<f64>,
    /// Who judged: "common" if one world model read every arm's memories, "own" if each arm's did.
    pub judge: String,
    /// Memories per recall.
    #[serde(default)]
    pub slots: usize,
    /// What each metric means, in the order in which tables show them; empty in files of before there
    /// were any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub descriptions: Vec<Metric>,
    /// What each arm is; empty in files of before arms were described.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arm_descriptions: BTreeMap<String, ArmDescription>,
    /// Each arm's values.
    pub arms: BTreeMap<String, ArmResults>,
    /// Each arm's values by metric and seed, in the order of `seeds`; empty for one seed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_seed: BTreeMap<String, BTreeMap<String, Vec<Option<f64>>>>,
    /// Differences clip by clip: first arm minus second, by metric.
    #[serde(default)]
    pub paired: BTreeMap<String, BTreeMap<String, ArmResults>>,
    /// Metrics along the return, by arm and metric.
    #[serde(default)]
    pub curves: BTreeMap<String, BTreeMap<String, Curve>>,
}

impl Results {
    /// What a metric means: as it is described, or else what its key alone says.
    pub fn metric(&self, id: &str) -> Metric {
        let described = self.descriptions.iter().find(|metric| metric.id == id);
        described.cloned().unwrap_or_else(|| Metric::of(id))
    }

    /// What an arm is: as it is described, or else what its name alone says.
    pub fn arm(&self, name: &str) -> ArmDescription {
        let described = self.arm_descriptions.get(name);
        described.cloned().unwrap_or_else(|| ArmDescription::of_name(name))
    }

    /// These metrics in the order in which tables show them: first those that are described.
    pub(crate) fn metrics<'a>(&self, ids: impl Iterator<Item = &'a String>) -> Vec<Metric> {
        let ids: BTreeSet<&String> = ids.collect();
        let mut metrics: Vec<Metric> = ids.into_iter().map(|id| self.metric(id)).collect();
        metrics.sort_by_cached_key(|metric| {
            let described = self.descriptions.iter().position(|known| known.id == metric.id);
            (metric.table, described.unwrap_or(usize::MAX), metric.place())
        });
        metrics
    }
}

/// A metric over normalized time, with intervals over clips.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Centers of the bins, from 0 at the beginning of the return to 1 at its end.
    pub time: Vec<f64>,
    /// The values there.
    pub values: Vec<Interval>,
}

/// The folders of what an evaluation keeps, in that of a run.
pub const KEPT_FOLDERS: [&str; 3] = [Replay::FOLDER, "probes", SCORES_FOLDER];

/// What an evaluation keeps for the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// Clips as every arm predicted them.
    pub replays: Vec<Replay>,
    /// What probes keep.
    pub probes: Vec<KeptFile>,
    /// What each arm scored, clip by clip.
    pub scores: Vec<Scores>,
}

impl Shown {
    /// Writes everything into a run's folder, and removes what an earlier evaluation kept there: of
    /// other clips or arms, it would be shown beside these results.
    ///
    /// # Errors
    /// If a folder or a file cannot be written, or an old file cannot be removed.
    pub fn write(&self, run: &Path) -> Result<()> {
        let mut written = BTreeSet::new();
        for replay in &self.replays {
            written.insert(replay.write(run)?);
        }
        for file in &self.probes {
            written.insert(file.write(run)?);
        }
        for scores in &self.scores {
            written.insert(scores.write(run)?);
        }
        for folder in KEPT_FOLDERS {
            for path in report::list(&run.join(folder), |name| name.ends_with(".json"))? {
                if !written.contains(&path) {
                    std::fs::remove_file(&path).map_err(Error::file("remove", &path))?;
                }
            }
        }
        Ok(())
    }
}

/// One clip as every arm predicted it, for the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The episode.
    pub episode: u32,
    /// The first frame of the return.
    pub boundary: usize,
    /// East, north and heading of every frame of the episode; empty without poses.
    pub path: Vec<[f32; 3]>,
    /// Frames of the episode that were generated, in order; a step per frame.
    pub frames: Vec<usize>,
    /// The truth of each step as it was recorded.
    pub truth: Vec<Picture>,
    /// The truth of each step after the tokenizer: the ceiling.
    pub decoded: Vec<Picture>,
    /// Every memory frame that any arm recalled.
    pub memories: BTreeMap<usize, Picture>,
    /// What was heard in the second before the present of each step and before each memory, by
    /// frame: a spectrogram, left ear above, right ear below. Empty without sound.
    pub sounds: BTreeMap<usize, Picture>,
    /// What each arm did; the control `tokenizer` is `decoded`.
    pub arms: BTreeMap<String, Vec<ReplayStep>>,
}

/// One generated frame of one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayStep {
    /// What was generated.
    pub picture: Picture,
    /// Its PSNR against the decoded truth, in dB.
    pub psnr: f64,
    /// What was recalled for it, best first.
    pub recalled: Vec<RecalledFrame>,
    /// The cues that were weighed, with their weights λ; empty for rules without cues.
    pub weights: Vec<(String, f32)>,
}

/// A recalled memory and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecalledFrame {
    /// The frame of the episode.
    pub frame: usize,
    /// Its score by the rule; `None` where it has none that is a number.
    pub score: Option<f32>,
    /// Its raw and standardized score by cue, in the order of the step's weights.
    pub cues: Vec<[Option<f32>; 2]>,
    /// Its utility in nats above the mean of the pool, measured by the common world model from the
    /// true present.
    pub utility: Option<f32>,
    /// The frame recalled before it that it repeats most, and what that cost it, where sets are recalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<(usize, f32)>,
}
