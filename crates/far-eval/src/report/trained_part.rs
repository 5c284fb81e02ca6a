//! Trainings inside the folder of a comparison: each arm's own, and the judge's.

use super::training_log::{Series, TrainingLog};
use super::{run, run_file};
use crate::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One training of several whose world models were judged together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainedPart {
    /// The arm, or `judge`: the name of its folder.
    pub name: String,
    /// How training went.
    pub training: TrainingLog,
    /// The resolved configuration, as it stands in the folder.
    pub config: Option<String>,
}

/// Curves that belong together: of a world model, or of one of several retrievers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Training {
    /// The training's name, with a slash before that of a retriever.
    pub name: String,
    /// The arm that learned, or the training's name.
    pub arm: String,
    /// One curve per number.
    pub series: BTreeMap<String, Series>,
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
    ///
    /// # Errors
    /// If a file is there but cannot be read.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let Some(metrics) = run_file::read(&folder.join("metrics.jsonl"))? else {
            return Ok(None);
        };
        let (name, config) = (run::name(folder), run_file::read(&folder.join("config.toml"))?);
        Ok(Some(Self { name, training: TrainingLog::parse(&metrics), config }))
    }

    /// Its curves: those of the world model, and those of every retriever that learned beside it. A
    /// retriever that learned alone needs no name of its own.
    pub fn trainings(&self) -> Vec<Training> {
        let TrainedPart { name, training: TrainingLog { series, arms, .. }, .. } = self;
        let mut own = Training { name: name.clone(), arm: name.clone(), series: series.clone() };
        if arms.len() < 2 {
            own.series
                .extend(arms.values().flatten().map(|(id, curve)| (id.clone(), curve.clone())));
        }
        let mut trainings = vec![own];
        if arms.len() > 1 {
            trainings.extend(arms.iter().map(|(arm, series)| Training {
                name: format!("{name}/{arm}"),
                arm: arm.clone(),
                series: series.clone(),
            }));
        }
        trainings.retain(|training| !training.series.is_empty());
        trainings
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

    #[test]
    fn retrievers_that_learn_together_have_curves_of_their_own() {
        let line = |arm: &str| {
            format!("{{\"kind\":\"retriever\",\"step\":1,\"arm\":\"{arm}\",\"loss\":2}}\n")
        };
        let named = |text: String| {
            let training = TrainingLog::parse(&text);
            let part = TrainedPart { name: "common".into(), training, config: None };
            let told = |each: Training| (each.name, each.arm, each.series.into_keys().collect());
            part.trainings().into_iter().map(told).collect::<Vec<(_, _, Vec<String>)>>()
        };
        let loss = String::from("{\"step\":1,\"loss\":1}\n");
        let both = named(loss.clone() + &line("far-multi") + &line("far-meta"));
        let of = |name: &str, arm: &str, series: &[&str]| {
            let series = series.iter().map(|id| (*id).to_owned()).collect();
            (name.to_owned(), arm.to_owned(), series)
        };
        let expected = [
            of("common", "common", &["loss"]),
            of("common/far-meta", "far-meta", &["retriever.loss"]),
            of("common/far-multi", "far-multi", &["retriever.loss"]),
        ];
        assert_eq!(both, expected);
        let alone = named(loss + &line("far-multi"));
        assert_eq!(alone, [of("common", "common", &["loss", "retriever.loss"])]);
        assert!(named(String::new()).is_empty());
    }
}
