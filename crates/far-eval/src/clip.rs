//! One episode as an evaluation sees it: the way out as memory, the way back as questions.
//!
//! A question stands at a frame of the way back and asks for memories of the view some frames
//! ahead. What it is judged by is the future: of the surfaces that the coming view shows and the
//! present one does not, how many are in a recalled memory? Nothing but memory can supply those.

use crate::thumbnail::{DIMENSION, thumbnail};
use crate::{Error, Result};
use far_data::{Dataset, Episode, Signal};
use far_memory::{Cue, Memory, MemoryId, Observation, RecallQuery, Schema, Snapshot};

/// How questions are asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipConfig {
    /// Frames from the present to the view in question.
    pub stride: usize,
    /// The most questions per clip, evenly spaced.
    pub questions: usize,
    /// A question is asked only if the coming view shows at least this many new surfaces.
    pub new_surfaces: usize,
}

impl Default for ClipConfig {
    fn default() -> Self {
        Self { stride: 16, questions: 24, new_surfaces: 8 }
    }
}

/// One question: frames of the episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClipQuery {
    /// The present.
    pub current: usize,
    /// The view in question.
    pub goal: usize,
}

/// An episode with its memory and its questions.
pub struct Clip {
    episode: Episode,
    snapshot: Snapshot,
    queries: Vec<ClipQuery>,
    /// The questions as policies receive them, made once: each decodes a frame.
    asked: Vec<RecallQuery>,
}

impl Clip {
    /// Opens an episode: its explore frames become the memory, with thumbnails as vision keys.
    ///
    /// # Errors
    /// If the episode cannot be read or does not record visible surfaces.
    pub fn open(dataset: &Dataset, id: u32, config: ClipConfig) -> Result<Self> {
        if !dataset.description().has(Signal::VisibleFaces) {
            return Err(Error::Nothing(
                "the dataset does not record which surfaces a frame shows".to_owned(),
            ));
        }
        let episode = dataset.episode(id)?;
        let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", DIMENSION)])?;
        let mut memory = Memory::new(schema);
        for frame in 0..episode.boundary() {
            let key = thumbnail(&episode.picture(frame)?);
            let observation = Observation::new(episode.times()[frame], episode.poses()[frame]);
            memory.append(&observation.with_key("vision", &key))?;
        }
        let snapshot = memory.snapshot();
        let mut clip = Self { snapshot, episode, queries: Vec::new(), asked: Vec::new() };
        let last = clip.episode.len().saturating_sub(config.stride);
        let asked = (clip.episode.boundary()..last)
            .map(|current| ClipQuery { current, goal: current + config.stride })
            .filter(|query| clip.new_surfaces(*query).count() >= config.new_surfaces);
        let asked: Vec<ClipQuery> = asked.collect();
        let kept = asked.len().min(config.questions);
        clip.queries = (0..kept).map(|index| asked[index * asked.len() / kept]).collect();
        let asked = clip.queries.iter().map(|query| clip.ask(*query));
        clip.asked = asked.collect::<Result<_>>()?;
        Ok(clip)
    }

    /// The episode.
    pub fn episode(&self) -> &Episode {
        &self.episode
    }

    /// The memory of the way out.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The questions of the way back.
    pub fn queries(&self) -> &[ClipQuery] {
        &self.queries
    }

    /// A question as policies receive it: the present, where the camera will go, and nothing of
    /// what it will see.
    ///
    /// # Panics
    /// If there is no question with this index.
    pub fn recall_query(&self, question: usize) -> &RecallQuery {
        &self.asked[question]
    }

    fn ask(&self, query: ClipQuery) -> Result<RecallQuery> {
        let (times, poses) = (self.episode.times(), self.episode.poses());
        let key = thumbnail(&self.episode.picture(query.current)?);
        let horizon = &poses[query.current + 1..=query.goal];
        let stride = times[query.goal] - times[query.current];
        Ok(RecallQuery::new(times[query.current], poses[query.current], poses[query.goal])
            .with_horizon(horizon)
            .with_stride(stride as f32)
            .with_key("vision", &key)
            .with_seed(query.current as u64))
    }

    /// Surfaces that the view in question shows and the present one does not.
    fn new_surfaces(&self, query: ClipQuery) -> impl Iterator<Item = u32> {
        let present = self.episode.visible_faces(query.current);
        let coming = self.episode.visible_faces(query.goal).iter().copied();
        coming.filter(|face| present.binary_search(face).is_err())
    }

    /// The share of the new surfaces that at least one of these memories shows.
    pub fn coverage(&self, query: ClipQuery, memories: &[MemoryId]) -> f64 {
        let shows = |face: u32, id: &MemoryId| {
            self.episode.visible_faces(id.index()).binary_search(&face).is_ok()
        };
        let (mut seen, mut all) = (0, 0);
        for face in self.new_surfaces(query) {
            all += 1;
            seen += usize::from(memories.iter().any(|id| shows(face, id)));
        }
        if all == 0 { 0.0 } else { seen as f64 / all as f64 }
    }
}
