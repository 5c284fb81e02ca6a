//! The result of a recall, with the scores behind each choice.

use crate::MemoryId;
use crate::scratch::refill;
use std::sync::Arc;

/// One recalled memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recalled<'a> {
    /// Which record.
    pub id: MemoryId,
    /// Position in the result, from 0.
    pub rank: usize,
    /// The score it was chosen by; larger is better. Where the rule recalls sets, what it repeats is
    /// already subtracted: this is what it adds to those before it.
    pub score: f32,
    /// What was subtracted because it repeats a memory recalled before it; 0 where nothing was.
    pub repeated: f32,
    /// The memory recalled before it that it repeats most, where the rule recalls sets.
    pub repeats: Option<MemoryId>,
    /// The log odds that the world model predicts better with it than with its slot empty, where the rule
    /// may leave slots empty; never below 0.
    pub worth: Option<f32>,
    /// The chunk it represents, counted over pool order; `None` where the rule has no chunks.
    pub chunk: Option<u32>,
    /// Score of each cue before standardization, in the order of [`Recall::cues`]; NaN where the
    /// record has no key for the cue.
    pub raw: &'a [f32],
    /// Score of each cue after standardization; 0 where the cue is missing.
    pub standardized: &'a [f32],
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    id: MemoryId,
    score: f32,
    chunk: Option<u32>,
    repeated: f32,
    repeats: Option<MemoryId>,
    worth: Option<f32>,
}

impl Entry {
    fn new(id: MemoryId, score: f32, chunk: Option<u32>) -> Self {
        Self { id, score, chunk, repeated: 0.0, repeats: None, worth: None }
    }
}

/// The memories that a policy selected, with their scores, best first unless the policy documents
/// another order. Reuse one value for many recalls: its buffers grow once and are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recall {
    cues: Option<Arc<[String]>>,
    weights: Vec<f32>,
    entries: Vec<Entry>,
    raw: Vec<f32>,
    standardized: Vec<f32>,
    not_a_number: usize,
    passed: Vec<(MemoryId, f32)>,
}

impl Recall {
    /// An empty result.
    pub fn new() -> Self {
        Self::default()
    }

    /// Clears the result for a policy whose scores are explained by `cues`, with weight 0 each. A
    /// policy keeps its list of names and passes it every time.
    pub fn begin(&mut self, cues: &Arc<[String]>) {
        if !self.cues.as_ref().is_some_and(|own| Arc::ptr_eq(own, cues)) {
            self.cues = Some(cues.clone());
        }
        refill(&mut self.weights, cues.len(), 0.0);
        self.entries.clear();
        self.raw.clear();
        self.standardized.clear();
        self.not_a_number = 0;
        self.passed.clear();
    }

    /// Sets the weight λ of a cue.
    ///
    /// # Panics
    /// If there is no cue with this index.
    pub fn set_weight(&mut self, cue: usize, weight: f32) {
        self.weights[cue] = weight;
    }

    /// Sets the number of NaN scores.
    pub fn set_not_a_number(&mut self, count: usize) {
        self.not_a_number = count;
    }

    /// Adds the next memory.
    ///
    /// # Panics
    /// If `raw` or `standardized` does not have one number for each cue of [`begin`](Self::begin).
    pub fn push(
        &mut self,
        id: MemoryId,
        score: f32,
        chunk: Option<u32>,
        raw: &[f32],
        standardized: &[f32],
    ) {
        let cues = self.weights.len();
        assert!(raw.len() == cues && standardized.len() == cues, "one score for each cue");
        self.entries.push(Entry::new(id, score, chunk));
        self.raw.extend_from_slice(raw);
        self.standardized.extend_from_slice(standardized);
    }

    /// Adds the next memory and returns its slices of raw and standardized scores by cue.
    pub(crate) fn push_empty(
        &mut self,
        id: MemoryId,
        score: f32,
        chunk: Option<u32>,
    ) -> impl Iterator<Item = (&mut f32, &mut f32)> {
        let first = self.raw.len();
        let cues = self.weights.len();
        self.entries.push(Entry::new(id, score, chunk));
        self.raw.resize(first + cues, 0.0);
        self.standardized.resize(first + cues, 0.0);
        self.raw[first..].iter_mut().zip(&mut self.standardized[first..])
    }

    /// Says what the memory added last repeats of those before it.
    ///
    /// # Panics
    /// If none was added, or there is no such rank.
    pub(crate) fn set_repeated(&mut self, rank: usize, repeated: f32) {
        let repeats = Some(self.entries[rank].id);
        let last = self.entries.last_mut().expect("a memory was added");
        (last.repeated, last.repeats) = (repeated, repeats);
    }

    /// Says what the memory added last is worth.
    ///
    /// # Panics
    /// If none was added.
    pub(crate) fn set_worth(&mut self, worth: Option<f32>) {
        self.entries.last_mut().expect("a memory was added").worth = worth;
    }

    /// Adds a memory that was not worth recalling.
    pub(crate) fn pass_over(&mut self, id: MemoryId, worth: f32) {
        self.passed.push((id, worth));
    }

    /// The names of the cues that explain the scores; empty for rules without cues.
    pub fn cues(&self) -> &[String] {
        self.cues.as_deref().unwrap_or(&[])
    }

    /// The weight λ of each cue; they sum to 1 for policies that fuse cues.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// How many memories were recalled.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many searched records had a NaN score; they are never recalled.
    pub fn not_a_number(&self) -> usize {
        self.not_a_number
    }

    /// The memories that were passed over because they were not worth recalling, best score first in every
    /// slot, each with its worth, which is below 0. Slots stay empty because of them.
    pub fn passed_over(&self) -> &[(MemoryId, f32)] {
        &self.passed
    }

    /// The memory at a rank.
    pub fn get(&self, rank: usize) -> Option<Recalled<'_>> {
        let entry = self.entries.get(rank)?;
        let cues = rank * self.weights.len()..(rank + 1) * self.weights.len();
        Some(Recalled {
            id: entry.id,
            rank,
            score: entry.score,
            repeated: entry.repeated,
            repeats: entry.repeats,
            worth: entry.worth,
            chunk: entry.chunk,
            raw: &self.raw[cues.clone()],
            standardized: &self.standardized[cues],
        })
    }

    /// The memories by rank.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Recalled<'_>> {
        (0..self.len()).map(|rank| self.get(rank).expect("rank below the length"))
    }

    /// The ids by rank.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = MemoryId> + '_ {
        self.entries.iter().map(|entry| entry.id)
    }

    /// Their places in the memory, in the same order.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.ids().map(MemoryId::index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_stay_with_their_memory() {
        let cues: Arc<[String]> = vec!["meta".to_owned(), "vision".to_owned()].into();
        let mut recall = Recall::new();
        recall.begin(&cues);
        for id in [5u64, 1, 3] {
            let score = id as f32;
            recall.push(MemoryId(id), score, None, &[score, -score], &[score + 0.5, 0.0]);
        }
        assert_eq!(recall.ids().map(|id| id.0).collect::<Vec<_>>(), [5, 1, 3]);
        for memory in recall.iter() {
            assert_eq!(memory.raw, [memory.score, -memory.score]);
            assert_eq!(memory.standardized[0], memory.score + 0.5);
        }
    }
}
