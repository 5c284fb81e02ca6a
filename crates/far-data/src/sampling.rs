//! The stream of training examples: any step can be drawn at any time, by any worker.
//!
//! Every random choice comes from a generator whose key is (seed, purpose, step, number), never
//! from a generator that was advanced. So resuming at step n costs nothing, and one worker or ten
//! give the same examples in the same order.

use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::pool::{evaluation_pool, training_pool};
use crate::sampling_config::{AnchorConfig, AnchorKind, EvaluationConfig, SamplingConfig};
use crate::stream::stream;
use crate::{Anchor, DataError, Dataset, Episode, Result, TrainingExample};

/// Draws training examples from one part of a dataset.
pub struct TrainingSampler<'a> {
    dataset: &'a Dataset,
    config: SamplingConfig,
    episodes: Vec<Source>,
    /// Number of possible current frames in all episodes up to and including each.
    totals: Vec<u64>,
    /// Episodes with at least one anchor, as positions in `episodes`.
    anchored: Vec<(usize, Vec<Stretch>)>,
}

/// What is known of an episode without opening it.
struct Source {
    id: u32,
    frames: u32,
    boundary: u32,
}

/// A run of frames with an anchoring label, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    first: u32,
    last: u32,
}

/// An observation: the current frame with its pool, before goals are drawn.
struct Observation {
    source: usize,
    current: u32,
    anchor: Anchor,
    pool: Arc<[u32]>,
}

impl<'a> TrainingSampler<'a> {
    /// A sampler over `dataset`. Opens episodes only when the settings ask for anchored pairs.
    pub fn new(dataset: &'a Dataset, config: SamplingConfig) -> Result<Self> {
        config.validate()?;
        let mut episodes = Vec::new();
        let mut totals = Vec::new();
        let mut total = 0;
        for id in dataset.select(config.split_rule, config.split)? {
            let (frames, boundary) = dataset.lengths(id)?;
            // A current frame needs a goal after it and at least one memory before the return.
            let possible = u64::from((frames - boundary).saturating_sub(1));
            if boundary > 0 && possible > 0 {
                total += possible;
                episodes.push(Source { id, frames, boundary });
                totals.push(total);
            }
        }
        if episodes.is_empty() {
            let reason = format!(
                "no episode of the {} part has explore frames and two return frames",
                config.split.name()
            );
            return Err(DataError::Setting { setting: "split", reason });
        }
        let anchored = match &config.anchor {
            Some(anchor) if anchor.probability > 0.0 => scan(dataset, &episodes, anchor)?,
            _ => Vec::new(),
        };
        Ok(Self { dataset, config, episodes, totals, anchored })
    }

    /// The settings.
    pub fn config(&self) -> &SamplingConfig {
        &self.config
    }

    /// All examples of a step, in order.
    pub fn batch(&self, step: u64) -> Result<Vec<TrainingExample>> {
        let observations = self.config.batch / self.config.goals_per_observation;
        let drawn: Vec<Vec<TrainingExample>> = (0..observations)
            .into_par_iter()
            .map(|number| self.observation(step, number))
            .collect::<Result<_>>()?;
        Ok(drawn.into_iter().flatten().collect())
    }

    /// The examples of one observation of a step: one per goal, sharing current frame and pool.
    pub fn observation(&self, step: u64, number: u32) -> Result<Vec<TrainingExample>> {
        let observation = self.draw(step, number);
        let source = &self.episodes[observation.source];
        let episode = self.dataset.episode(source.id)?;
        let goals = self.config.goals_per_observation;
        let examples = (0..goals).map(|goal| {
            let index = u64::from(number) * u64::from(goals) + u64::from(goal);
            let target = self.target(source, &observation, &mut self.random("goal", step, index));
            let Observation { current, anchor, ref pool, .. } = observation;
            TrainingExample::new(&episode, current, target, pool.clone(), anchor)
        });
        Ok(examples.collect())
    }

    fn random(&self, purpose: &str, step: u64, index: u64) -> ChaCha8Rng {
        stream(self.config.seed, purpose, step, index)
    }

    fn draw(&self, step: u64, number: u32) -> Observation {
        let mut random = self.random("current", step, u64::from(number));
        let probability = self.config.anchor.as_ref().map_or(0.0, |anchor| anchor.probability);
        // Drawn even when it cannot matter, so that the rest of the stream does not depend on it.
        let anchored = random.random::<f64>() < probability && !self.anchored.is_empty();
        let (source, current, anchor) =
            if anchored { self.anchored(&mut random) } else { self.plain(&mut random) };
        // Memory never reaches past the current frame, wherever the boundary lies.
        let memory = self.episodes[source].boundary.min(current);
        let mut random = self.random("pool", step, u64::from(number));
        let pool = training_pool(&mut random, memory, self.config.pool).into();
        Observation { source, current, anchor, pool }
    }

    /// Any return frame but the last of its episode, all equally likely.
    fn plain(&self, random: &mut ChaCha8Rng) -> (usize, u32, Anchor) {
        let place = random.random_range(0..self.totals[self.totals.len() - 1]);
        let source = self.totals.partition_point(|&total| total <= place);
        let before = source.checked_sub(1).map_or(0, |previous| self.totals[previous]);
        (source, self.episodes[source].boundary + (place - before) as u32, Anchor::None)
    }

    /// A current frame by a random anchor of a random episode that has one.
    fn anchored(&self, random: &mut ChaCha8Rng) -> (usize, u32, Anchor) {
        let anchor = self.config.anchor.as_ref().expect("anchors come from a setting");
        let (source, stretches) = &self.anchored[random.random_range(0..self.anchored.len())];
        let Stretch { first, last } = stretches[random.random_range(0..stretches.len())];
        match anchor.kind {
            AnchorKind::Event => {
                let earliest = self.episodes[*source].boundary;
                let reach = (anchor.horizon / 2).max(1).min(first - earliest);
                (*source, first - random.random_range(1..=reach), Anchor::Event(first))
            }
            AnchorKind::Reveal => {
                (*source, random.random_range(first..=last), Anchor::Reveal(last))
            }
        }
    }

    fn target(&self, source: &Source, observation: &Observation, random: &mut ChaCha8Rng) -> u32 {
        let end = source.frames - 1;
        let current = observation.current;
        let horizon = match (&self.config.anchor, observation.anchor) {
            (Some(anchor), Anchor::Event(_) | Anchor::Reveal(_)) => anchor.horizon,
            _ => self.config.horizon,
        };
        let last = end.min(current.saturating_add(horizon));
        let (low, high) = match observation.anchor {
            Anchor::None => (current + 1, last),
            Anchor::Event(event) => (event, last.min(event + horizon / 2)),
            Anchor::Reveal(passage) if passage < last => (passage + 1, last),
            Anchor::Reveal(_) => (current + 1, last),
        };
        random.random_range(low..=high)
    }
}

/// Finds the anchors of all episodes.
fn scan(
    dataset: &Dataset,
    episodes: &[Source],
    anchor: &AnchorConfig,
) -> Result<Vec<(usize, Vec<Stretch>)>> {
    let description = dataset.description();
    let labels: Vec<u16> =
        anchor.labels.iter().filter_map(|name| description.label(name)).collect();
    if labels.is_empty() {
        let reason = format!(
            "none of {} is a label of the dataset, which has {}",
            anchor.labels.join(", "),
            description.labels.join(", ")
        );
        return Err(DataError::Setting { setting: "anchor.labels", reason });
    }
    let found: Vec<Vec<Stretch>> = episodes
        .par_iter()
        .map(|source| {
            let episode = dataset.episode(source.id)?;
            Ok(stretches(&episode, &labels, anchor.kind))
        })
        .collect::<Result<_>>()?;
    Ok(found.into_iter().enumerate().filter(|(_, stretches)| !stretches.is_empty()).collect())
}

/// Runs of frames with one of the labels that leave room for a current frame and a goal.
fn stretches(episode: &Episode, labels: &[u16], kind: AnchorKind) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    let has = |frame: usize| episode.events(frame).iter().any(|event| labels.contains(event));
    // A passage may begin before the boundary; an event must have a return frame before it.
    let (start, end) = match kind {
        AnchorKind::Event => (episode.boundary() + 1, episode.len()),
        AnchorKind::Reveal => (1, episode.len() - 1),
    };
    for frame in (start..end).filter(|&frame| has(frame)) {
        let frame = frame as u32;
        match stretches.last_mut() {
            Some(stretch) if kind == AnchorKind::Reveal && stretch.last + 1 == frame => {
                stretch.last = frame;
            }
            _ => stretches.push(Stretch { first: frame, last: frame }),
        }
    }
    stretches
}

/// One episode as evaluation walks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationClip {
    /// The episode.
    pub episode: u32,
    /// Explore frames that can be recalled, ascending.
    pub memory: Vec<u32>,
    /// Return frames in the order they are generated; the first is given, not generated.
    pub frames: Vec<u32>,
}

impl EvaluationClip {
    /// The clip of an episode, or `None` when it has no memory or nothing to generate.
    pub fn new(dataset: &Dataset, id: u32, config: &EvaluationConfig) -> Result<Option<Self>> {
        let (length, boundary) = dataset.lengths(id)?;
        let memory = evaluation_pool(boundary, config.pool);
        let frames: Vec<u32> = (boundary..length).step_by(config.stride.max(1) as usize).collect();
        let whole = !memory.is_empty() && frames.len() > 1;
        Ok(whole.then_some(Self { episode: id, memory, frames }))
    }
}
