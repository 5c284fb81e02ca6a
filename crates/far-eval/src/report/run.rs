//! What a report needs of one run's folder.

use super::run_file;
use super::trained_part::TrainedPart;
use super::training_log::TrainingLog;
use crate::{BothEndsView, CounterfactualView, Kept, Replay, Result, Results};
use std::path::Path;

/// One run, read from its folder: `results.json` must be there; `replays/`, `probes/`,
/// `metrics.jsonl`, `config.toml`,
/// `command.txt` and the trainings of a comparison's arms are shown when they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportRun {
    /// What the run is called on the page: the name of its folder.
    pub name: String,
    /// What the evaluation found.
    pub results: Results,
    /// Clips to look at.
    pub replays: Vec<Replay>,
    /// Counterfactual pairs to look at.
    pub counterfactuals: Vec<CounterfactualView>,
    /// Both-ends probes to look at.
    pub both_ends: Vec<BothEndsView>,
    /// How training went.
    pub training: TrainingLog,
    /// The resolved configuration, as it stands in the folder.
    pub config: Option<String>,
    /// Trainings inside the folder, where every arm has a world model of its own.
    pub parts: Vec<TrainedPart>,
    /// The command that made the results.
    pub command: Option<String>,
}

impl ReportRun {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// If there are no results, or if a file is there but cannot be understood.
    pub fn read(folder: &Path) -> Result<Self> {
        let results = Results::read(folder)?;
        // A comparison of several seeds keeps what there is to look at with each; the first is shown.
        let seeds = run_file::list(folder, |name| name.starts_with("seed-"))?;
        let shown = seeds.first().filter(|_| !results.seeds.is_empty());
        let shown = shown.map_or(folder, std::path::PathBuf::as_path);
        let text = |name: &str| run_file::read(&folder.join(name));
        Ok(Self {
            name: name(folder),
            replays: Replay::read_all(shown)?,
            counterfactuals: CounterfactualView::read_all(shown)?,
            both_ends: BothEndsView::read_all(shown)?,
            training: TrainingLog::parse(&text("metrics.jsonl")?.unwrap_or_default()),
            config: text("config.toml")?,
            parts: TrainedPart::read_all(shown)?,
            command: text("command.txt")?.map(|line| line.trim().to_owned()),
            results,
        })
    }
}

/// The last part of the path, also of `.` and `runs/demo/`.
pub(super) fn name(folder: &Path) -> String {
    let whole = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    let name = whole.file_name().unwrap_or(folder.as_os_str());
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::report::fixture::{both_ends, counterfactual, replay, results};

    #[test]
    fn only_results_are_needed() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("first");
        std::fs::create_dir(&run).unwrap();
        assert!(matches!(ReportRun::read(&run), Err(Error::MissingFile { .. })));
        results().write(&run).unwrap();
        let bare = ReportRun::read(&run.join(".")).unwrap();
        assert_eq!((bare.name.as_str(), bare.replays.len(), bare.config), ("first", 0, None));
        replay().write(&run).unwrap();
        both_ends().write(&run).unwrap();
        counterfactual().write(&run).unwrap();
        std::fs::write(run.join("metrics.jsonl"), "{\"step\":1,\"loss\":2}\n").unwrap();
        std::fs::write(run.join("config.toml"), "seed = 1\n").unwrap();
        std::fs::write(run.join("command.txt"), "far eval first\n").unwrap();
        std::fs::create_dir(run.join("judge")).unwrap();
        std::fs::write(run.join("judge/metrics.jsonl"), "{\"step\":1,\"loss\":3}\n").unwrap();
        let full = ReportRun::read(&run).unwrap();
        assert_eq!(full.replays, [replay()]);
        assert_eq!(full.both_ends, [both_ends()]);
        assert_eq!(full.counterfactuals, [counterfactual()]);
        assert_eq!(full.training.series["loss"].value, [Some(2.0)]);
        assert_eq!(full.config.as_deref(), Some("seed = 1\n"));
        assert_eq!(full.command.as_deref(), Some("far eval first"));
        assert_eq!(full.parts[0].name, "judge");
    }
}
