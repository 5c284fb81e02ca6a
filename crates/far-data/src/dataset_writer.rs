//! Writes a dataset, by any number of threads, and resumes where an earlier attempt stopped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rayon::prelude::*;

use crate::summary::episode_stem;
use crate::{
    DataError, DatasetDescription, EpisodeFacts, EpisodeSummary, EpisodeWriter, Result, durable,
    episode, index, journal::Journal, write_lock::WriteLock,
};

/// A dataset being recorded.
///
/// Every episode goes to its own file, under a temporary name until it is complete. So a recording
/// that was killed is continued by asking for [`DatasetWriter::missing`] episodes, and the order in
/// which threads finish episodes leaves no trace in the bytes.
///
/// ```
/// use far_data::{DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Picture, Split};
/// use far_memory::Pose;
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("garden");
/// let description = DatasetDescription::new("garden", 10.0, [8, 8], [90.0, 90.0]);
/// let writer = DatasetWriter::create(&folder, description)?;
/// for id in writer.missing(0..3) {
///     let mut episode = writer.episode(id, EpisodeFacts::new("lawn", Split::Train, 7))?;
///     for (step, phase) in [Phase::Explore, Phase::Return].into_iter().enumerate() {
///         let image = FrameImage::Pixels(Picture::filled(8, 8, [0, 99, 0]));
///         episode.push(Frame::new(step as f64 / 10.0, Pose::identity(), phase, image))?;
///     }
///     episode.finish()?;
/// }
/// assert_eq!(writer.finish()?, 3);
/// # Ok::<(), far_data::DataError>(())
/// ```
pub struct DatasetWriter {
    folder: PathBuf,
    description: DatasetDescription,
    finished: Mutex<BTreeMap<u32, EpisodeSummary>>,
    journal: Mutex<Journal>,
    _lock: WriteLock,
}

impl DatasetWriter {
    /// Begins a recording in `folder`, or continues one with the same description.
    pub fn create(folder: &Path, description: DatasetDescription) -> Result<Self> {
        let path = folder.join("dataset.json");
        let wrong = |reason| DataError::Description { path: path.clone(), reason };
        description.validate().map_err(wrong)?;
        refuse_run(folder)?;
        let episodes = folder.join("episodes");
        std::fs::create_dir_all(&episodes).map_err(DataError::io("create", &episodes))?;
        let lock = WriteLock::take(folder)?;
        match std::fs::read(&path) {
            Ok(bytes) => {
                let found = DatasetDescription::parse(&bytes, &path)?;
                refuse_conflict(folder, &found, &description)?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                durable::write(&path, description.to_json().as_bytes())?;
            }
            Err(error) => return Err(DataError::io("read", &path)(error)),
        }
        let journal = Journal::new(folder);
        let finished = recover(folder, &episodes, &description, &journal)?;
        let (folder, finished) = (folder.to_path_buf(), Mutex::new(finished));
        Ok(Self { folder, description, finished, journal: Mutex::new(journal), _lock: lock })
    }

    /// What the dataset has in common.
    pub fn description(&self) -> &DatasetDescription {
        &self.description
    }

    /// Those of `ids` that are not yet complete on the disk, ascending.
    pub fn missing(&self, ids: std::ops::Range<u32>) -> Vec<u32> {
        let finished = self.finished();
        ids.filter(|id| !finished.contains_key(id)).collect()
    }

    /// Begins an episode; an unfinished attempt of the same id is overwritten.
    pub fn episode(&self, id: u32, facts: EpisodeFacts) -> Result<EpisodeWriter<'_>> {
        self.episode_with(id, facts, &[])
    }

    /// Begins an episode with further columns of numbers, by name and width: a cue can be made of each
    /// ([`Frame::numbers`](crate::Frame::numbers)).
    pub fn episode_with(
        &self,
        id: u32,
        facts: EpisodeFacts,
        columns: &[(String, usize)],
    ) -> Result<EpisodeWriter<'_>> {
        EpisodeWriter::begin(self, id, facts, columns)
    }

    /// Writes the index of all complete episodes and returns their number.
    pub fn finish(&self) -> Result<usize> {
        let summaries: Vec<EpisodeSummary> = self.finished().values().cloned().collect();
        index::write(&self.folder.join("episodes.arrow"), &summaries)?;
        self.journal().remove()?;
        Ok(summaries.len())
    }

    /// Gives the whole file of an episode its final name.
    pub(crate) fn publish(&self, summary: EpisodeSummary) -> Result<()> {
        self.journal().note(&summary)?;
        durable::publish(&self.episode_path(summary.id))?;
        self.finished().insert(summary.id, summary);
        Ok(())
    }

    pub(crate) fn episode_path(&self, id: u32) -> PathBuf {
        episode_path(&self.folder, id)
    }

    pub(crate) fn audio_path(&self, id: u32) -> PathBuf {
        audio_path(&self.folder, id)
    }

    fn journal(&self) -> std::sync::MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn finished(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, EpisodeSummary>> {
        self.finished.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The Arrow file of an episode.
pub(crate) fn episode_path(folder: &Path, id: u32) -> PathBuf {
    folder.join("episodes").join(format!("{}.arrow", episode_stem(id)))
}

/// The WAV file of an episode.
pub(crate) fn audio_path(folder: &Path, id: u32) -> PathBuf {
    folder.join("episodes").join(format!("{}.wav", episode_stem(id)))
}

/// Refuses to mix two recordings in one folder, naming the first entry that differs.
fn refuse_conflict(
    folder: &Path,
    found: &DatasetDescription,
    wanted: &DatasetDescription,
) -> Result<()> {
    let entries = |description: &DatasetDescription| {
        serde_json::to_value(description).expect("plain data always serializes")
    };
    let (found, wanted) = (entries(found), entries(wanted));
    let keys = wanted.as_object().map(|object| object.keys()).into_iter().flatten();
    match keys.into_iter().find(|key| found[key.as_str()] != wanted[key.as_str()]) {
        Some(key) => Err(DataError::Conflict {
            path: folder.to_path_buf(),
            field: key.clone(),
            found: found[key.as_str()].to_string(),
            wanted: wanted[key.as_str()].to_string(),
        }),
        None => Ok(()),
    }
}

/// Refuses the folder of a run: it is no dataset.
fn refuse_run(folder: &Path) -> Result<()> {
    let has = |name: &str| folder.join(name).exists();
    if has("config.toml") && has("checkpoints") && !has("dataset.json") {
        return Err(DataError::HoldsRun { path: folder.to_path_buf() });
    }
    Ok(())
}

/// Summaries of the episodes that an earlier attempt completed. One whose file is damaged, or is not
/// the one that the index of an earlier recording or the journal of an unfinished one lists, is left out
/// and so recorded again.
fn recover(
    folder: &Path,
    episodes: &Path,
    description: &DatasetDescription,
    journal: &Journal,
) -> Result<BTreeMap<u32, EpisodeSummary>> {
    let entries = std::fs::read_dir(episodes).map_err(DataError::io("list", episodes))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(DataError::io("list", episodes))?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if path.extension().is_some_and(|extension| extension == "arrow")
            && let Some(id) = stem.and_then(|stem| stem.parse::<u32>().ok())
        {
            paths.push((id, path));
        }
    }
    let listed = index::Index::open(&folder.join("episodes.arrow"), description.splits.len() == 2);
    let noted = journal.read()?;
    let is_listed = |summary: &EpisodeSummary| {
        let row =
            listed.as_ref().ok().and_then(|index| Some(index.summary(index.row(summary.id)?)));
        let same = |listed: &Option<String>, found| listed.is_none() || listed == found;
        let in_index = row.map(|row| {
            same(&row.hash, &summary.hash) && same(&row.audio_hash, &summary.audio_hash)
        });
        let in_journal = noted.as_ref().map(|noted| {
            let hashes = noted.get(&summary.id);
            hashes.is_some_and(|(hash, sound)| {
                summary.hash.as_ref() == Some(hash) && summary.audio_hash == *sound
            })
        });
        // Episodes of a recording by an older program, which kept no journal, are in neither.
        in_index == Some(true) || in_journal.unwrap_or(in_index.is_none())
    };
    let found = paths.into_par_iter().map(|(id, path)| recover_episode(id, &path, description));
    let found: Vec<Option<EpisodeSummary>> = found.collect::<Result<_>>()?;
    let whole = found.into_iter().flatten().filter(is_listed);
    Ok(whole.map(|summary| (summary.id, summary)).collect())
}

/// The summary of a complete episode; `None` if its file, or that of its sound, is damaged.
fn recover_episode(
    id: u32,
    path: &Path,
    description: &DatasetDescription,
) -> Result<Option<EpisodeSummary>> {
    let (facts, frames, boundary) = match episode::recover(id, path, description) {
        Ok(recovered) => recovered,
        Err(error @ DataError::Io { .. }) => return Err(error),
        Err(_) => return Ok(None),
    };
    let audio_hash = match description.audio_rate {
        Some(_) => match durable::hash_file(&path.with_extension("wav")) {
            Err(DataError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(None);
            }
            hash => Some(hash?),
        },
        None => None,
    };
    let hash = Some(durable::hash_file(path)?);
    Ok(Some(EpisodeSummary { id, facts, frames, boundary, hash, audio_hash }))
}
