//! Trainings inside the folder of a comparison: each arm's own, and the judge's.

use super::run_file;
use super::training_log::TrainingLog;
use crate::Result;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// One training of several whose world models were judged together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrainedPart {
    /// The arm, or `judge`: the name of its folder.
    pub name: String,
    /// How training went.
    pub training: TrainingLog,
    /// The resolved configuration, as it stands in the folder.
    pub config: Option<String>,
}

impl TrainedPart {
    /// Reads every folder in `run` and in `run/arms` that holds a training, by name.
    ///
    /// # Errors
    /// If a folder or a file is there but cannot be read.
    pub fn read_all(run: &Path) -> Result<Vec<Self>> {
        let mut parts = Vec::new();
        for folder in [run.to_path_buf(), run.join("arms")] {
            for part in folders(&folder)? {
                parts.extend(Self::read(&part)?);
            }
        }
        parts.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(parts)
    }

    /// The training in a folder; `None` if there is none.
    fn read(folder: &Path) -> Result<Option<Self>> {
        let Some(metrics) = run_file::read(&folder.join("metrics.jsonl"))? else {
            return Ok(None);
        };
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let config = run_file::read(&folder.join("config.toml"))?;
        Ok(Some(Self { name, training: TrainingLog::parse(&metrics), config }))
    }
}

/// The folders in a folder; none if it is not there.
fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = run_file::list(folder, |_| true)?;
    paths.retain(|path| path.is_dir());
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_and_judge_are_found_and_other_folders_are_not() {
        let folder = tempfile::tempdir().unwrap();
        assert!(TrainedPart::read_all(&folder.path().join("nowhere")).unwrap().is_empty());
        for name in ["arms/worldmem", "arms/far-multi", "judge", "replays"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for name in ["arms/worldmem", "arms/far-multi", "judge"] {
            let line = format!("{{\"step\":1,\"loss\":{}}}", name.len());
            std::fs::write(folder.path().join(name).join("metrics.jsonl"), line).unwrap();
        }
        std::fs::write(folder.path().join("arms/worldmem/config.toml"), "seed = 1\n").unwrap();
        let parts = TrainedPart::read_all(folder.path()).unwrap();
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["far-multi", "judge", "worldmem"]);
        assert_eq!(parts[1].training.series["loss"].value, [Some(5.0)]);
        assert_eq!(parts[2].config.as_deref(), Some("seed = 1\n"));
    }
}
