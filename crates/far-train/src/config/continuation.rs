//! Which configurations may go on with a run that another one began.

use super::TrainConfig;
use std::path::Path;

/// Settings by which what is made before the first step cannot change: everything else in these
/// tables, and the seed, decides tokenizer, encoders and detector.
const PREPARATION: [&str; 8] =
    ["data", "tokenizer", "conditioning", "audio", "encoder", "longlive", "detector", "cues"];
const HARMLESS: [&str; 4] =
    ["data.folder", "data.batch", "data.goals_per_observation", "data.memory_megabytes"];
const SEED: &str = "training.seed";

impl TrainConfig {
    /// The first setting that keeps this configuration from going on with a run of another, with both
    /// values, its own first. A run may get more steps, and its dataset may have moved.
    pub fn first_obstacle(&self, found: &Self) -> Option<(String, String, String)> {
        self.differences(found).find(|(key, ..)| match key.as_str() {
            "training.steps" => self.training.steps < found.training.steps,
            "data.folder" => !has_moved(&found.data.folder, &self.data.folder),
            _ => true,
        })
    }

    /// Whether what another configuration made before the first step can serve this one.
    pub(crate) fn shares_preparation(&self, found: &Self) -> bool {
        let same_data = has_moved(&found.data.folder, &self.data.folder);
        same_data && !self.differences(found).any(|(key, ..)| decides_preparation(&key))
    }
}

fn decides_preparation(key: &str) -> bool {
    let table = key.split('.').next().unwrap_or_default();
    key == SEED || PREPARATION.contains(&table) && !HARMLESS.contains(&key)
}

/// Whether a dataset may have gone from one folder to another: both are the same place, or nothing is
/// left where it was.
fn has_moved(from: &Path, to: &Path) -> bool {
    let place = |folder: &Path| std::fs::canonicalize(folder).ok();
    from == to || place(from).is_none() || place(from) == place(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(sets: &[&str]) -> TrainConfig {
        TrainConfig::resolve("quick", sets).expect("a configuration")
    }

    #[test]
    fn a_run_may_get_more_steps_and_its_dataset_may_move() {
        let folder = tempfile::tempdir().expect("a folder");
        let here = format!("data.folder={:?}", folder.path().to_string_lossy());
        let begun = config(&["training.steps=10", "data.folder=gone"]);
        assert_eq!(config(&["training.steps=20", &here]).first_obstacle(&begun), None);
        let fewer = config(&["training.steps=5", &here]);
        let (key, wanted, found) = fewer.first_obstacle(&begun).expect("fewer steps");
        assert_eq!((key.as_str(), &*wanted, &*found), ("training.steps", "5", "10"));
        let there = config(&["training.steps=10", &here]);
        let other = config(&["training.steps=10", "data.folder=\"/\""]);
        assert_eq!(other.first_obstacle(&there).expect("another dataset").0, "data.folder");
    }

    #[test]
    fn encoders_outlive_settings_that_do_not_make_them() {
        let begun = config(&[]);
        for set in ["data.batch=32", "training.learning_rate=0.5", "arm.id=random"] {
            assert!(config(&[set]).shares_preparation(&begun), "{set}");
        }
        for set in ["training.seed=3", "encoder.pretraining.steps=7", "data.horizon=5"] {
            assert!(!config(&[set]).shares_preparation(&begun), "{set}");
        }
    }
}
