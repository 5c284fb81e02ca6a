//! Scores that know the set: in each slot, a memory's score less what it repeats of those already
//! recalled, `s_i − β·max_j o_ij` with the overlap of `overlap.rs`. Where slots may stay empty, the best
//! memory is recalled only if it is worth that (`worth.rs`). One that is not is passed over for good, and the
//! next best is asked; after [`MOST_PASSED_OVER`] and one more nothing else is recalled.
//!
//! A penalty lies between 0 and β. So whoever is recalled in any slot scores at least the best but K + P − 1
//! less β without it, P of them passed over: such memories are shortlisted in one pass over the fused scores,
//! and what they repeat is computed only for those that could still win. The choice is that of the plain
//! loops in [`SetTerm::select_reference`].

use crate::cosine::cosines;
use crate::overlap::{OVERLAP_FEATURES, Sighting, line_of_sight, overlap_features, positive};
use crate::selection::Ranked;
use crate::worth::{Worth, WorthBuffers, worth_relation};
use crate::{FeatureScale, Keys, PoolView, RecallQuery, Snapshot};
use pulp::{Arch, Simd, WithSimd};

/// Memories that are passed over before recall ends, where slots may stay empty. Fewer cost ordinary walks more
/// than they keep foreign memories out (`docs/retriever-training.md`).
pub const MOST_PASSED_OVER: usize = 24;

/// The learned term of a set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetTerm {
    scale: FeatureScale,
    /// Logarithms of the weights w of the overlap's features.
    overlap: Vec<f32>,
    /// w.
    weights: [f32; OVERLAP_FEATURES],
    /// Logarithm of β.
    strength: Vec<f32>,
    /// What memories are worth, where slots may stay empty.
    pub(crate) worth: Option<Box<Worth>>,
}

/// What was taken into a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Taken {
    /// Position, and score with what it repeats subtracted.
    pub(crate) ranked: Ranked,
    /// What was subtracted.
    pub(crate) repeated: f32,
    /// The rank of the memory that it repeats most, if any was taken before.
    pub(crate) repeats: Option<usize>,
    /// What it is worth, where slots may stay empty.
    pub(crate) worth: Option<f32>,
}

/// A shortlisted memory.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Position, and score without the set.
    ranked: Ranked,
    /// With how many taken memories it has been compared.
    compared: usize,
    /// The largest logarithm of an overlap so far, and with whom.
    nearest: (f32, usize),
    taken: bool,
}

/// What selections reuse.
#[derive(Default)]
pub(crate) struct SetBuffers {
    candidates: Vec<Candidate>,
    sightings: Vec<Sighting>,
    /// Keys of the taken memories, one after another; which of them have one.
    keys: Vec<f32>,
    has_key: Vec<bool>,
    widened: Vec<f32>,
    worth: WorthBuffers,
    pub(crate) taken: Vec<Taken>,
    /// The memories that were not worth recalling, by their positions, and what they are worth.
    pub(crate) passed: Vec<(usize, f32)>,
}

impl SetBuffers {
    /// Empties the shortlist of a pool.
    pub(crate) fn begin(&mut self, pool: usize) {
        self.candidates.clear();
        // Once for the largest shortlist there can be, so that later recalls allocate nothing.
        self.candidates.reserve(pool);
    }

    /// Adds a memory to the shortlist.
    #[inline]
    pub(crate) fn push(&mut self, score: f32, position: usize) {
        let (ranked, nearest) = (Ranked { score, position }, (f32::NEG_INFINITY, 0));
        self.candidates.push(Candidate { ranked, compared: 0, nearest, taken: false });
    }

    fn key(&self, rank: usize) -> Option<&[f32]> {
        let dimension = self.keys.len() / self.has_key.len().max(1);
        self.has_key[rank].then(|| &self.keys[rank * dimension..(rank + 1) * dimension])
    }
}

/// Where the memories of a selection are.
#[derive(Clone, Copy)]
pub(crate) struct Searched<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) pool: PoolView<'a>,
    pub(crate) query: &'a RecallQuery,
    /// Index in the schema of the cue whose keys are compared, and numbers of a key.
    pub(crate) key: Option<(usize, usize)>,
    /// Raw scores of the pool, cue by cue.
    pub(crate) raw: &'a [f32],
}

impl<'a> Searched<'a> {
    fn sighting(&self, position: usize) -> Sighting {
        let index = self.pool.id(position).index();
        Sighting::new(self.snapshot.time(index), self.snapshot.pose(index).as_ref())
    }

    fn key(&self, position: usize) -> Option<Keys<'a>> {
        self.snapshot.key(self.key?.0, self.pool.id(position).index())
    }

    /// What the worth of a memory is computed from.
    fn worth_inputs(
        &self,
        worth: &Worth,
        scale: FeatureScale,
        position: usize,
        inputs: &mut Vec<f32>,
    ) {
        let index = self.pool.id(position).index();
        let (time, pose) = (self.snapshot.time(index), self.snapshot.pose(index));
        let relation = worth_relation(self.query, time, pose.as_ref(), scale);
        worth.read(relation, |cue| self.raw[cue * self.pool.len() + position], inputs);
    }
}

impl SetTerm {
    /// From parameters whose lengths were checked.
    pub(crate) fn new(
        scale: FeatureScale,
        overlap: Vec<f32>,
        strength: Vec<f32>,
        worth: Option<Box<Worth>>,
    ) -> Self {
        debug_assert!(overlap.len() == OVERLAP_FEATURES && strength.len() == 1);
        let weights = std::array::from_fn(|feature| positive(overlap[feature]));
        Self { scale, overlap, weights, strength, worth }
    }

    /// The parameters by the last part of their names.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&'static str, &[f32])> {
        let learned = [("overlap", self.overlap.as_slice()), ("strength", &self.strength)];
        learned.into_iter().chain(self.worth.iter().flat_map(|worth| worth.parameters()))
    }

    /// Memories that may be passed over.
    pub(crate) fn passed(&self) -> usize {
        self.worth.as_ref().map_or(0, |_| MOST_PASSED_OVER)
    }

    /// β.
    pub(crate) fn strength(&self) -> f32 {
        positive(self.strength[0])
    }

    fn log_overlap(&self, features: [f32; OVERLAP_FEATURES]) -> f32 {
        -features.iter().zip(&self.weights).map(|(value, weight)| value * weight).sum::<f32>()
    }

    /// Fills the slots from the shortlist.
    pub(crate) fn select(&self, searched: &Searched<'_>, slots: usize, buffers: &mut SetBuffers) {
        let (strength, sight) = (self.strength(), line_of_sight(searched.query));
        let mut candidates = std::mem::take(&mut buffers.candidates);
        candidates.sort_unstable_by(|a, b| a.ranked.order(&b.ranked));
        buffers.taken.clear();
        buffers.passed.clear();
        buffers.sightings.clear();
        buffers.keys.clear();
        buffers.has_key.clear();
        while buffers.taken.len() < slots {
            let mut best: Option<(usize, Taken)> = None;
            for (place, candidate) in candidates.iter_mut().enumerate() {
                if candidate.taken {
                    continue;
                }
                // What is repeated only lowers scores: nobody after this one can win.
                if best.is_some_and(|(_, best)| candidate.ranked.score < best.ranked.score) {
                    break;
                }
                self.compare(searched, sight, buffers, candidate);
                let (logarithm, nearest) = candidate.nearest;
                let repeated = strength * logarithm.exp();
                let Ranked { score, position } = candidate.ranked;
                let ranked = Ranked { score: score - repeated, position };
                if best.is_none_or(|(_, best)| ranked.beats(&best.ranked)) {
                    let repeats = (!buffers.taken.is_empty()).then_some(nearest);
                    best = Some((place, Taken { ranked, repeated, repeats, worth: None }));
                }
            }
            let Some((place, mut best)) = best else { break };
            let position = best.ranked.position;
            candidates[place].taken = true;
            best.worth = self.worth.as_ref().map(|worth| {
                searched.worth_inputs(worth, self.scale, position, &mut buffers.worth.inputs);
                worth.of(&mut buffers.worth)
            });
            if let Some(worth) = best.worth.filter(|worth| *worth < 0.0) {
                buffers.passed.push((position, worth));
                if buffers.passed.len() > self.passed() {
                    break;
                }
                continue;
            }
            Self::remember(searched, position, buffers);
            buffers.taken.push(best);
        }
        buffers.candidates = candidates;
    }

    /// Compares a candidate with the memories that were taken since it was last looked at.
    fn compare(
        &self,
        searched: &Searched<'_>,
        sight: [f32; 3],
        buffers: &mut SetBuffers,
        candidate: &mut Candidate,
    ) {
        if candidate.compared == buffers.taken.len() {
            return;
        }
        let position = candidate.ranked.position;
        let (own, key) = (searched.sighting(position), searched.key(position));
        for rank in candidate.compared..buffers.taken.len() {
            let mut widened = std::mem::take(&mut buffers.widened);
            let cosine = key.zip(buffers.key(rank)).map(|(key, other)| {
                Arch::new().dispatch(Cosine { key, other, widened: &mut widened })
            });
            buffers.widened = widened;
            let other = &buffers.sightings[rank];
            let features = overlap_features(sight, &own, other, cosine, self.scale);
            let logarithm = self.log_overlap(features);
            if logarithm > candidate.nearest.0 {
                candidate.nearest = (logarithm, rank);
            }
        }
        candidate.compared = buffers.taken.len();
    }

    /// Keeps what later candidates are compared with.
    fn remember(searched: &Searched<'_>, position: usize, buffers: &mut SetBuffers) {
        buffers.sightings.push(searched.sighting(position));
        let first = buffers.keys.len();
        buffers.keys.resize(first + searched.key.map_or(0, |(_, dimension)| dimension), 0.0);
        let key = searched.key(position);
        if let Some(key) = key {
            key.copy_to(&mut buffers.keys[first..]);
        }
        buffers.has_key.push(key.is_some());
    }

    /// Fills the slots from all scores in plain loops, everything computed anew in every slot: the
    /// reference. What is taken, and what was passed over.
    pub(crate) fn select_reference(
        &self,
        searched: &Searched<'_>,
        scores: &[f32],
        slots: usize,
    ) -> (Vec<Taken>, Vec<(usize, f32)>) {
        let sight = line_of_sight(searched.query);
        let (mut taken, mut passed): (Vec<Taken>, Vec<(usize, f32)>) = Default::default();
        while taken.len() < slots && passed.len() <= self.passed() {
            let mut best: Option<Taken> = None;
            for (position, &score) in scores.iter().enumerate() {
                let known = taken.iter().any(|taken| taken.ranked.position == position)
                    || passed.iter().any(|(passed, _)| *passed == position);
                if known || score.is_nan() || score == f32::NEG_INFINITY {
                    continue;
                }
                let mut most = (0.0, None);
                for (rank, other) in taken.iter().enumerate() {
                    let position_of = other.ranked.position;
                    let key = searched.key(position_of).map(|key| {
                        let mut numbers = vec![0.0; key.len()];
                        key.copy_to(&mut numbers);
                        numbers
                    });
                    let cosine = searched.key(position).zip(key).map(|(own, key)| own.dot(&key));
                    let pair = (searched.sighting(position), searched.sighting(position_of));
                    let features = overlap_features(sight, &pair.0, &pair.1, cosine, self.scale);
                    let overlap = self.log_overlap(features).exp();
                    if most.1.is_none() || overlap > most.0 {
                        most = (overlap, Some(rank));
                    }
                }
                let repeated = self.strength() * most.0;
                let ranked = Ranked { score: score - repeated, position };
                if best.is_none_or(|best| ranked.beats(&best.ranked)) {
                    best = Some(Taken { ranked, repeated, repeats: most.1, worth: None });
                }
            }
            let Some(mut best) = best else { break };
            let position = best.ranked.position;
            best.worth = self.worth.as_ref().map(|worth| {
                let mut inputs = Vec::new();
                searched.worth_inputs(worth, self.scale, position, &mut inputs);
                worth.of_reference(&inputs)
            });
            match best.worth.filter(|worth| *worth < 0.0) {
                Some(worth) => passed.push((position, worth)),
                None => taken.push(best),
            }
        }
        (taken, passed)
    }
}

/// The cosine of two stored keys.
struct Cosine<'a> {
    key: Keys<'a>,
    other: &'a [f32],
    widened: &'a mut Vec<f32>,
}

impl WithSimd for Cosine<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let mut cosine = [0.0];
        cosines(simd, self.key, self.other, self.widened, &mut cosine);
        cosine[0]
    }
}
