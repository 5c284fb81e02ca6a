//! Records a dataset from a world: parallel, resumable, with the same bytes for any number of
//! threads.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use far_data::DatasetWriter;

use crate::error::{Result, WorldError};
use crate::studio::Studio;
use crate::world::{Recording, World, description};

/// Result of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordReport {
    /// Episodes in the dataset now.
    pub episodes: usize,
    /// Episodes that an earlier attempt had finished and that were kept.
    pub kept: usize,
    /// Frames recorded by this call.
    pub frames: u64,
}

/// Progress of a running recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Recording starts.
    Start {
        /// Episodes to record in all.
        episodes: usize,
        /// Episodes found complete.
        kept: usize,
    },
    /// A frame was rendered.
    Frame,
    /// An episode is complete on disk.
    Episode,
}

/// Records episodes `0..episodes` into `folder` with `threads` threads.
///
/// An interrupted recording resumes with the missing episodes; a folder with another recording is
/// rejected. `progress` is called from all threads.
pub fn record(
    world: &dyn World,
    recording: &Recording,
    episodes: u32,
    folder: &Path,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RecordReport> {
    let writer = DatasetWriter::create(folder, description(world, recording))?;
    let missing = writer.missing(0..episodes);
    let kept = episodes as usize - missing.len();
    progress(Progress::Start { episodes: episodes as usize, kept });
    let next = AtomicUsize::new(0);
    let frames = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    // The error of the lowest episode is reported, whichever thread fails first.
    let failure: Mutex<Option<(u32, WorldError)>> = Mutex::new(None);
    let work = || {
        let mut studio = Studio::new(world.camera(), recording.size);
        while !stop.load(Ordering::Relaxed) {
            let Some(&id) = missing.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            match record_episode(world, recording, id, &writer, &mut studio, progress) {
                Ok(count) => {
                    frames.fetch_add(count, Ordering::Relaxed);
                    progress(Progress::Episode);
                }
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    let mut slot =
                        failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    if slot.as_ref().is_none_or(|(other, _)| id < *other) {
                        *slot = Some((id, error));
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(missing.len()).max(1) {
            scope.spawn(work);
        }
        work();
    });
    let failure = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((_, error)) = failure {
        return Err(error);
    }
    let episodes = writer.finish()?;
    Ok(RecordReport { episodes, kept, frames: frames.into_inner() })
}

fn record_episode(
    world: &dyn World,
    recording: &Recording,
    id: u32,
    writer: &DatasetWriter,
    studio: &mut Studio,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<u64> {
    let mut episode = world.episode(recording, id)?;
    let mut file = writer.episode(id, episode.course().facts.clone())?;
    for index in 0..episode.course().poses.len() {
        file.push(episode.frame(index, studio)?)?;
        progress(Progress::Frame);
    }
    Ok(u64::from(file.finish()?.frames))
}
