//! The folder of a run: what was computed, in files that are whole whenever the program dies.
//!
//! ```text
//! config.toml        the resolved configuration, with a comment above every setting
//! metrics.jsonl      one line per logged step, retriever step and evaluation
//! checkpoints/       step-000000250.safetensors, …: everything needed to resume training
//! tokenizer.safetensors, encoder-vision.safetensors, …   what was made before the first step
//! retrievers/        what it learned to recall by, when all steps are made
//! results.json       the evaluation at the end
//! environment.json   where and when it ran; the only file that is not a function of the configuration
//! lock               held while somebody trains here
//! ```
//!
//! The rules that make `kill -9` harmless at any moment:
//!
//! 1. Files are replaced whole: written beside their place, synced, renamed, and the folder synced.
//! 2. A checkpoint of step n is published only after the lines of `metrics.jsonl` up to n are synced.
//! 3. Opening a run again cuts the lines after the checkpoint that it resumes from.
//! 4. Older checkpoints are removed only after a newer one is published.
//!
//! So a run that was interrupted anywhere resumes from the newest checkpoint and writes the same bytes
//! as an uninterrupted one.

mod checkpoints;
mod environment;
mod folder_lock;
mod metrics_file;
mod occupant;
mod saved_run;
mod unfinished;

pub(crate) use checkpoints::checkpoint_name;
pub use environment::{Environment, Session};
pub use folder_lock::FolderLock;
pub use saved_run::SavedRun;
pub(crate) use saved_run::newest_checkpoint;

use crate::{Error, Result, TrainConfig, TrainingSettings};
use checkpoints::{CHECKPOINTS, Checkpoints};
use far_memory::store::{Disk, LocalDisk};
use metrics_file::MetricsFile;
use occupant::{Found, check_is_run, compare, discard, remove_made_of_it};
use std::io;
use std::path::{Path, PathBuf};
use unfinished::PARTIAL;

const CONFIG: &str = "config.toml";
const METRICS: &str = "metrics.jsonl";
const RESULTS: &str = "results.json";
const ENVIRONMENT: &str = "environment.json";
const LOCK: &str = "lock";
const RETRIEVERS: &str = "retrievers";

/// What to do with a run that is already in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Resume it; refuse another configuration.
    Resume,
    /// Delete it.
    Discard,
}

/// The folder of a run, locked for this process.
pub struct RunFolder {
    path: PathBuf,
    disk: Box<dyn Disk>,
    checkpoints: Checkpoints,
    /// It says how many checkpoints stay.
    training: TrainingSettings,
    metrics: MetricsFile,
    environment: Environment,
    _lock: Box<dyn Send + Sync>,
}

impl RunFolder {
    /// Opens the folder for a run with this configuration, making it if it is not there.
    ///
    /// # Errors
    /// If another process trains here, the folder holds a run with another configuration or
    /// something that is no run, or the disk refuses.
    pub fn open(
        path: &Path,
        config: &TrainConfig,
        existing: Existing,
        session: Session,
    ) -> Result<Self> {
        // A folder that is nothing of ours must stay as it is: no lock, no subfolder.
        if path.is_dir() {
            let disk = LocalDisk::open(path).map_err(Error::file("open", path))?;
            check_is_run(path, &disk)?;
        }
        let make = |path: &Path| LocalDisk::create(path).map_err(Error::file("create", path));
        let (disk, checkpoints) = (make(path)?, make(&path.join(CHECKPOINTS))?);
        Self::open_on(path, Box::new(disk), Box::new(checkpoints), config, existing, session)
    }

    /// What [`RunFolder::open`] would find, without changing anything: the step of the newest
    /// checkpoint from which a run would go on, or `None` where it would begin.
    ///
    /// # Errors
    /// If it would refuse; a lock held by another process is found only by opening.
    pub fn look(path: &Path, config: &TrainConfig, existing: Existing) -> Result<Option<u64>> {
        if !path.is_dir() {
            return match path.exists() {
                false => Ok(None),
                true => Err(Error::file("open", path)(io::ErrorKind::NotADirectory.into())),
            };
        }
        let open = |path: &Path| LocalDisk::open(path).map_err(Error::file("open", path));
        let disk = open(path)?;
        check_is_run(path, &disk)?;
        let folder = path.join(CHECKPOINTS);
        if existing == Existing::Discard || !folder.is_dir() {
            return Ok(None);
        }
        let saved = Checkpoints::of(path, Box::new(open(&folder)?));
        compare(path, &disk, &saved, config)?;
        Ok(saved.steps()?.first().copied())
    }

    /// As [`RunFolder::open`], over two disks: the folder's own files and its checkpoints.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(
        path: &Path,
        disk: Box<dyn Disk>,
        checkpoints: Box<dyn Disk>,
        config: &TrainConfig,
        existing: Existing,
        session: Session,
    ) -> Result<Self> {
        let lock = folder_lock::take(path, &*disk, LOCK)?;
        let checkpoints = Checkpoints::of(path, checkpoints);
        if existing == Existing::Discard {
            // While the configuration is there, whatever is left when this is interrupted is a run's folder.
            remove_made_of_it(path)?;
            discard(path, &*disk, &checkpoints)?;
        }
        // Evaluations have a lock of their own, and write over what one of them has left.
        let evaluation = format!("{RESULTS}{PARTIAL}");
        unfinished::remove(path, &*disk, |name| name != evaluation)?;
        checkpoints.remove_unfinished()?;
        match compare(path, &*disk, &checkpoints, config)? {
            Found::Same => {}
            Found::Replaceable => {
                replace(path, &*disk, CONFIG, config.to_commented_toml().as_bytes())?;
            }
            Found::Unprepared => {
                discard(path, &*disk, &checkpoints)?;
                replace(path, &*disk, CONFIG, config.to_commented_toml().as_bytes())?;
            }
        }
        // A log: a run does not depend on it.
        let text = read(&*disk, ENVIRONMENT, path).unwrap_or_default();
        let mut environment = text.map(|text| Environment::parse(&text)).unwrap_or_default();
        environment.sessions.push(session);
        replace(path, &*disk, ENVIRONMENT, environment.to_json().as_bytes())?;
        let metrics = MetricsFile::open(&path.join(METRICS), &*disk, METRICS)?;
        let (path, training) = (path.to_path_buf(), config.training.clone());
        Ok(Self { path, disk, checkpoints, training, metrics, environment, _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the retrievers go that the run trains, for `far eval --retriever`, Rust and Python.
    pub fn retrievers(&self) -> PathBuf {
        self.path.join(RETRIEVERS)
    }

    /// Removes them: they are of fewer steps than this run goes on to make.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn remove_retrievers(&self) -> Result<()> {
        remove_all(&self.retrievers())
    }

    /// Steps of all checkpoints, newest first.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub fn checkpoint_steps(&self) -> Result<Vec<u64>> {
        self.checkpoints.steps()
    }

    /// Where the checkpoint of a step lies.
    pub fn checkpoint_path(&self, step: u64) -> PathBuf {
        self.checkpoints.path(step)
    }

    /// Resumes from the newest checkpoint that `load` accepts, and cuts the metrics to it. Returns
    /// its step, or `None` if there is no checkpoint at all, and what was wrong with newer ones.
    ///
    /// # Errors
    /// If there are checkpoints and none of them can be loaded.
    pub fn resume(
        &mut self,
        mut load: impl FnMut(&Path) -> Result<()>,
    ) -> Result<(Option<u64>, Vec<Error>)> {
        let mut refused = Vec::new();
        for step in self.checkpoint_steps()? {
            match load(&self.checkpoint_path(step)) {
                Ok(()) => {
                    self.metrics.cut_after(step)?;
                    // Those that were refused would count among the newest; this run writes them
                    // again.
                    self.checkpoints.remove(|other| other > step)?;
                    self.remove_old()?;
                    return Ok((Some(step), refused));
                }
                Err(error) => refused.push(error),
            }
        }
        if refused.is_empty() {
            self.metrics.cut(0)?;
            return Ok((None, refused));
        }
        let folder = self.path.join(CHECKPOINTS);
        Err(Error::NoCheckpoint { folder, source: Box::new(refused.remove(0)) })
    }

    /// Appends a record to `metrics.jsonl`.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn log(&mut self, record: &crate::Record) -> Result<()> {
        self.metrics.append(record)
    }

    /// Publishes the checkpoint of a step, which `save` writes to the path that it is given, and
    /// removes those that are no longer kept. `seconds` of training belong to this session so far.
    ///
    /// # Errors
    /// If saving fails or the disk refuses; the older checkpoints are then still there.
    pub fn checkpoint(
        &mut self,
        step: u64,
        seconds: f64,
        save: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        self.metrics.sync()?;
        self.checkpoints.publish(step, save)?;
        if let Some(session) = self.environment.sessions.last_mut() {
            (session.last_step, session.seconds) = (step, seconds);
        }
        let environment = self.environment.to_json();
        replace(&self.path, &*self.disk, ENVIRONMENT, environment.as_bytes())?;
        self.remove_old()
    }

    /// Seconds of training up to the last checkpoint, over all sessions.
    pub fn seconds(&self) -> f64 {
        self.environment.seconds()
    }

    /// Removes what the retention does not keep; a kill may have come before it the last time.
    fn remove_old(&self) -> Result<()> {
        let TrainingSettings { keep_checkpoints, milestone_every, .. } = self.training;
        let newest = keep_checkpoints.saturating_sub(1);
        let kept = self.checkpoint_steps()?.into_iter().nth(newest).unwrap_or(0);
        let is_milestone = |step: u64| milestone_every > 0 && step.is_multiple_of(milestone_every);
        self.checkpoints.remove(|step| step < kept && !is_milestone(step))
    }
}

/// Removes a file, or a folder with all that is in it, if there is one.
fn remove_all(place: &Path) -> Result<()> {
    let removed = match std::fs::symlink_metadata(place) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(place),
        Ok(_) => std::fs::remove_file(place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.map_err(Error::file("remove", place))
}

/// Replaces a file whole.
fn replace(path: &Path, disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<()> {
    let partial = format!("{name}{PARTIAL}");
    let write = || {
        let mut file = disk.create(&partial)?;
        file.write_at(0, bytes)?;
        file.sync()?;
        disk.rename(&partial, name)?;
        disk.sync_directory()
    };
    write().map_err(Error::file("write", &path.join(name)))
}

/// The text of a file; `None` if there is none.
fn read(disk: &dyn Disk, name: &str, path: &Path) -> Result<Option<String>> {
    let path = path.join(name);
    match disk.read(name) {
        Ok(bytes) => String::from_utf8(bytes.to_vec())
            .map(Some)
            .map_err(|_| Error::Corrupt { path, reason: "it is not text".to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", &path)(error)),
    }
}
