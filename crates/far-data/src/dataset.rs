//! A dataset, open for reading: the index mapped, episodes opened when asked for.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::index::Index;
use crate::{DataError, DatasetDescription, Episode, EpisodeSummary, Result, Split, SplitRule};

/// Episodes that are kept open. An open one is a mapped file and its times and poses; a training set
/// of ordinary size is opened once, and a larger one does not run out of mappings.
const KEPT: usize = 1024;

/// An open dataset. Cheap to open however many episodes it has, and safe to share by threads.
pub struct Dataset {
    folder: PathBuf,
    description: Arc<DatasetDescription>,
    index: Index,
    open: Mutex<HashMap<u32, Arc<Episode>>>,
}

impl Dataset {
    /// Opens the dataset in `folder`: reads `dataset.json`, maps `episodes.arrow` and checks every
    /// row of it. Episode files are not touched.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("dataset.json");
        let bytes = std::fs::read(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => {
                DataError::Missing { what: "dataset.json", path: path.clone() }
            }
            _ => DataError::io("read", &path)(source),
        })?;
        let description = Arc::new(DatasetDescription::parse(&bytes, &path)?);
        let path = folder.join("episodes.arrow");
        if !path.exists() && folder.join("episodes").is_dir() {
            return Err(DataError::Unfinished { path: folder.to_path_buf() });
        }
        let index = Index::open(&path, description.splits.len() == 2)?;
        let (folder, open) = (folder.to_path_buf(), Mutex::default());
        let dataset = Self { folder, description, index, open };
        dataset.check_scenes()?;
        Ok(dataset)
    }

    /// The dataset's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the dataset has in common.
    pub fn description(&self) -> &DatasetDescription {
        &self.description
    }

    /// Number of episodes, at least one.
    #[expect(clippy::len_without_is_empty, reason = "a dataset without episodes does not open")]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Ids of all episodes, ascending.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.index.len()).map(|row| self.index.id(row))
    }

    /// Ids of the episodes in one part under one rule, ascending; under the first of the dataset's
    /// rules if none is given.
    pub fn select(&self, rule: impl Into<Option<SplitRule>>, split: Split) -> Result<Vec<u32>> {
        let rule = rule.into().unwrap_or(self.description.splits[0]);
        let Some(column) = self.description.split_column(rule) else {
            let rules: Vec<_> = self.description.splits.iter().map(|rule| rule.name()).collect();
            let reason =
                format!("the dataset has no {} split, only {}", rule.name(), rules.join(", "));
            return Err(DataError::Setting { setting: "split", reason });
        };
        let rows =
            (0..self.index.len()).filter(|&row| self.index.split(row, column) == Some(split));
        Ok(rows.map(|row| self.index.id(row)).collect())
    }

    /// What the index says of an episode.
    pub fn summary(&self, id: u32) -> Result<EpisodeSummary> {
        Ok(self.index.summary(self.row(id)?))
    }

    /// Number of frames of an episode and index of its first return frame, without opening it.
    pub fn lengths(&self, id: u32) -> Result<(u32, u32)> {
        Ok(self.index.lengths(self.row(id)?))
    }

    /// Opens an episode, or finds it open: checking all rows takes a millisecond, and a training step
    /// asks for a hundred.
    pub fn episode(&self, id: u32) -> Result<Arc<Episode>> {
        // A map of open episodes is whole whenever somebody panics.
        let open = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(episode) = open().get(&id) {
            return Ok(episode.clone());
        }
        // Opened without the lock: two threads may do the same work, none waits for another.
        let summary = self.summary(id)?;
        let episode = Arc::new(Episode::open(&self.folder, self.description.clone(), &summary)?);
        let mut open = open();
        if open.len() >= KEPT {
            open.clear();
        }
        open.insert(id, episode.clone());
        Ok(episode)
    }

    fn row(&self, id: u32) -> Result<usize> {
        self.index.row(id).ok_or_else(|| DataError::Episode {
            episode: id,
            reason: format!("is not one of the dataset's {} episodes", self.index.len()),
        })
    }

    /// A scene-disjoint split must be one.
    fn check_scenes(&self) -> Result<()> {
        let Some(rule) = self.description.split_column(SplitRule::SceneDisjoint) else {
            return Ok(());
        };
        let mut parts: HashMap<&str, Split> = HashMap::new();
        for row in 0..self.index.len() {
            let Some(split) = self.index.split(row, rule) else { continue };
            let scene = self.index.scene(row);
            let first = *parts.entry(scene).or_insert(split);
            if first != split {
                let (first, split) = (first.name(), split.name());
                let reason = format!(
                    "scene \"{scene}\" is in {first} and in {split}, but the split is scene-disjoint"
                );
                let column = if rule == 0 { "split" } else { "second_split" };
                return Err(DataError::Row { episode: None, row, column, reason });
            }
        }
        Ok(())
    }
}
