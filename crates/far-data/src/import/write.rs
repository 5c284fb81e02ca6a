//! Writes a planned import, episode by episode, and resumes where an earlier attempt stopped.

use std::path::Path;

use super::ImportPlan;
use super::picture_reader::PictureReader;
use crate::{DatasetWriter, Frame, FrameImage, Phase, Result};

/// Frames whose pictures are in memory at once.
const CHUNK: usize = 32;

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportProgress {
    /// Episodes that were complete before.
    Start {
        /// Frames of these.
        kept_frames: u64,
    },
    /// Frames that were just written.
    Frames(u64),
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportResult {
    /// Episodes in the dataset.
    pub episodes: usize,
    /// Of those, episodes that were there before.
    pub kept: usize,
    /// Frames written this time.
    pub frames: u64,
}

impl ImportPlan {
    /// Writes the dataset. What an earlier attempt with the same options completed is kept; if nothing
    /// at all is complete when an error comes, nothing is left behind.
    ///
    /// # Errors
    /// If a picture cannot be read, or `out` holds something else.
    pub fn write(&self, out: &Path, progress: &dyn Fn(ImportProgress)) -> Result<ImportResult> {
        let fresh = !out.exists();
        let result = self.write_episodes(out, progress);
        if result.is_err() && fresh && no_episode(out) {
            // Only what this call made can be there.
            let _ = std::fs::remove_dir_all(out);
        }
        result
    }

    fn write_episodes(
        &self,
        out: &Path,
        progress: &dyn Fn(ImportProgress),
    ) -> Result<ImportResult> {
        let writer = DatasetWriter::create(out, self.description.clone())?;
        let count = self.episodes.len() as u32;
        let missing = writer.missing(0..count);
        let is_missing = |id: usize| missing.binary_search(&(id as u32)).is_ok();
        let kept_frames = self
            .episodes
            .iter()
            .enumerate()
            .filter(|(id, _)| !is_missing(*id))
            .map(|(_, episode)| episode.frames.len() as u64)
            .sum();
        progress(ImportProgress::Start { kept_frames });
        let mut frames = 0;
        let mut reader = PictureReader::default();
        for &id in &missing {
            frames += self.write_episode(&writer, id, &mut reader, progress)?;
        }
        writer.finish()?;
        Ok(ImportResult { episodes: count as usize, kept: count as usize - missing.len(), frames })
    }

    fn write_episode(
        &self,
        writer: &DatasetWriter,
        id: u32,
        reader: &mut PictureReader,
        progress: &dyn Fn(ImportProgress),
    ) -> Result<u64> {
        let planned = &self.episodes[id as usize];
        let frames = &self.recordings[planned.recording].frames[planned.frames.clone()];
        let poses = self.poses.get(planned.recording).map(|poses| &poses[planned.frames.clone()]);
        let columns = &self.recordings[planned.recording].columns;
        let mut episode = writer.episode_with(id, planned.facts.clone(), columns)?;
        for chunk in frames.chunks(CHUNK) {
            for (frame, bytes) in chunk.iter().zip(reader.read(chunk, &self.rule)?) {
                let returns = episode.frames() as usize >= planned.boundary;
                let phase = if returns { Phase::Return } else { Phase::Explore };
                let time = frame.time - frames[0].time;
                let pose = poses.map(|poses| poses[episode.frames() as usize]);
                let mut row = Frame::new(time, pose, phase, FrameImage::Encoded(bytes));
                row.numbers.clone_from(&frame.numbers);
                episode.push(row)?;
            }
            progress(ImportProgress::Frames(chunk.len() as u64));
        }
        episode.finish()?;
        Ok(frames.len() as u64)
    }
}

/// Whether the folder holds no complete episode.
fn no_episode(out: &Path) -> bool {
    let entries = std::fs::read_dir(out.join("episodes"));
    entries
        .into_iter()
        .flatten()
        .flatten()
        .all(|entry| entry.path().extension().is_none_or(|extension| extension != "arrow"))
}
