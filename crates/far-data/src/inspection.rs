//! What a dataset holds, in numbers.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

use crate::dataset_writer::{audio_path, episode_path};
use crate::{Coverage, Dataset, OverlapRule, Result, Signal, Staleness};

/// Numbers that describe a dataset; `far data inspect --json` prints this.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Inspection {
    /// Name of the corpus.
    pub corpus: String,
    /// Variant of the corpus.
    pub variant: String,
    /// Episodes in the dataset.
    pub episodes: u64,
    /// Different scenes.
    pub scenes: u64,
    /// Frames of all episodes.
    pub frames: u64,
    /// Of those, return frames.
    pub return_frames: u64,
    /// Hours of experience.
    pub hours: f64,
    /// Episodes per part, for each split rule.
    pub splits: BTreeMap<String, BTreeMap<String, u64>>,
    /// Episodes per route and tier.
    pub routes: BTreeMap<String, u64>,
    /// Episodes that were opened for the numbers below.
    pub opened: u64,
    /// Bytes on disk per frame of the opened episodes, sound included.
    pub bytes_per_frame: f64,
    /// Frames per event label.
    pub events: BTreeMap<String, u64>,
    /// Frames with a changed region.
    pub changed_frames: u64,
    /// Frames with the second agent in view.
    pub agent_frames: u64,
    /// What memory has seen of the return leg, when the dataset lists visible faces.
    pub coverage: Option<Coverage>,
    /// Share of the return frames that some memory covers.
    pub covered_share: Option<f64>,
    /// Share of the covered frames for which overlap alone picks a memory that does not cover them.
    pub misled_share: Option<f64>,
    /// How outdated pose-matched memories are, when the dataset lists visible states.
    pub staleness: Option<Staleness>,
    /// Share of the judged frames whose newest pose-matched memory is stale.
    pub stale_share: Option<f64>,
    /// Share of the judged frames whose changed states memory shows, or their making.
    pub known_share: Option<f64>,
}

impl Inspection {
    /// Counts what the index says of all episodes.
    pub fn of_index(dataset: &Dataset) -> Result<Self> {
        let description = dataset.description();
        let mut inspection = Self {
            corpus: description.corpus.clone(),
            variant: description.variant.clone(),
            ..Self::default()
        };
        let mut scenes = std::collections::BTreeSet::new();
        for id in dataset.ids() {
            let summary = dataset.summary(id)?;
            inspection.episodes += 1;
            inspection.frames += u64::from(summary.frames);
            inspection.return_frames += u64::from(summary.return_frames());
            let parts = [Some(summary.facts.split), summary.facts.second_split];
            for (rule, part) in description.splits.iter().zip(parts) {
                let counts = inspection.splits.entry(rule.name().into()).or_default();
                *counts.entry(part.map_or("none", |part| part.name()).into()).or_default() += 1;
            }
            let tier = summary.facts.tier.map(|tier| format!("{tier} m"));
            let route = [Some(summary.facts.route).filter(|route| !route.is_empty()), tier];
            let route: Vec<String> = route.into_iter().flatten().collect();
            if !route.is_empty() {
                *inspection.routes.entry(route.join(" ")).or_default() += 1;
            }
            scenes.insert(summary.facts.scene);
        }
        inspection.scenes = scenes.len() as u64;
        inspection.hours = inspection.frames as f64 / f64::from(description.fps) / 3600.0;
        Ok(inspection)
    }

    /// Opens the episodes `ids`, on all threads, and adds what only their files tell. `done` is
    /// called after each.
    pub fn open(mut self, dataset: &Dataset, ids: &[u32], done: impl Fn() + Sync) -> Result<Self> {
        let description = dataset.description();
        let rule = OverlapRule::new(description.camera(), description.overlap_radius);
        let opened: Vec<Opened> = ids
            .par_iter()
            .map(|&id| {
                let opened = Opened::of(dataset, id, &rule);
                done();
                opened
            })
            .collect::<Result<_>>()?;
        let mut total = Opened::default();
        for one in opened {
            total.frames += one.frames;
            total.bytes += one.bytes;
            total.changed += one.changed;
            total.agent += one.agent;
            total.coverage = total.coverage.merge(one.coverage);
            total.staleness = total.staleness.merge(one.staleness);
            for (event, count) in one.events {
                *total.events.entry(event).or_default() += count;
            }
        }
        self.opened = ids.len() as u64;
        self.bytes_per_frame = total.bytes as f64 / (total.frames as f64).max(1.0);
        self.changed_frames = total.changed;
        self.agent_frames = total.agent;
        self.events = total
            .events
            .into_iter()
            .filter_map(|(event, count)| {
                Some((description.labels.get(usize::from(event))?.clone(), count))
            })
            .collect();
        self.coverage = description.has(Signal::VisibleFaces).then_some(total.coverage);
        self.covered_share = self.coverage.and_then(|coverage| coverage.covered_share());
        self.misled_share = self.coverage.and_then(|coverage| coverage.misled_share());
        self.staleness = description.has(Signal::States).then_some(total.staleness);
        self.stale_share = self.staleness.and_then(|staleness| staleness.stale_share());
        self.known_share = self.staleness.and_then(|staleness| staleness.known_share());
        Ok(self)
    }
}

/// What the file of one episode adds.
#[derive(Default)]
struct Opened {
    frames: u64,
    bytes: u64,
    changed: u64,
    agent: u64,
    events: BTreeMap<u16, u64>,
    coverage: Coverage,
    staleness: Staleness,
}

impl Opened {
    fn of(dataset: &Dataset, id: u32, rule: &OverlapRule) -> Result<Self> {
        let episode = dataset.episode(id)?;
        let size = |path: std::path::PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
        let bytes =
            size(episode_path(dataset.folder(), id)) + size(audio_path(dataset.folder(), id));
        let mut opened = Self { frames: episode.len() as u64, bytes, ..Self::default() };
        for frame in 0..episode.len() {
            for &event in episode.events(frame) {
                *opened.events.entry(event).or_default() += 1;
            }
            opened.changed += u64::from(episode.is_changed(frame));
            opened.agent += u64::from(episode.agent(frame).visible);
        }
        let description = dataset.description();
        if description.has(Signal::VisibleFaces) {
            opened.coverage = Coverage::of(&episode, rule);
        }
        if description.has(Signal::States) {
            opened.staleness = Staleness::of(&episode);
        }
        Ok(opened)
    }
}
