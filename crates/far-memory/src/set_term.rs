//! Scores that know the set: in each slot, a memory's score less what it repeats of those already
//! recalled, `s_i − β·max_j o_ij` with the overlap of `overlap.rs`, and the score of the empty memory,
//! `w·[1, whether any is recalled, max, μ, σ of every cue's raw scores]`. Where the empty memory is best,
//! the slot and all after it stay empty: nothing would change for them.
//!
//! A penalty lies between 0 and β. So whoever is recalled in any slot scores at least the K-th best less
//! β without it: such memories are shortlisted in one pass over the fused scores, and what they
//! repeat is computed only for those that could still win. The choice is that of the plain loops
//! in [`SetTerm::select_reference`].

use crate::cosine::cosines;
use crate::overlap::{OVERLAP_FEATURES, Sighting, line_of_sight, overlap_features, positive};
use crate::selection::Ranked;
use crate::standardization::Statistics;
use crate::{FeatureScale, Keys, PoolView, RecallQuery, Snapshot};
use pulp::{Arch, Simd, WithSimd};

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
    /// Weights of the empty memory's score, if it is a candidate.
    empty: Option<Vec<f32>>,
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
    pub(crate) taken: Vec<Taken>,
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
}

impl<'a> Searched<'a> {
    fn sighting(&self, position: usize) -> Sighting {
        let index = self.pool.id(position).index();
        Sighting::new(self.snapshot.time(index), self.snapshot.pose(index).as_ref())
    }

    fn key(&self, position: usize) -> Option<Keys<'a>> {
        self.snapshot.key(self.key?.0, self.pool.id(position).index())
    }
}

impl SetTerm {
    /// How many numbers the empty memory's score has, for so many cues.
    pub(crate) fn empty_weights(cues: usize) -> usize {
        2 + 3 * cues
    }

    /// From parameters whose lengths were checked.
    pub(crate) fn new(
        scale: FeatureScale,
        overlap: Vec<f32>,
        strength: Vec<f32>,
        empty: Option<Vec<f32>>,
    ) -> Self {
        debug_assert!(overlap.len() == OVERLAP_FEATURES && strength.len() == 1);
        let weights = std::array::from_fn(|feature| positive(overlap[feature]));
        Self { scale, overlap, weights, strength, empty }
    }

    /// The parameters by the last part of their names.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&'static str, &[f32])> {
        let learned = [("overlap", self.overlap.as_slice()), ("strength", &self.strength)];
        learned.into_iter().chain(self.empty.as_deref().map(|empty| ("empty", empty)))
    }

    /// Makes the empty memory no candidate.
    pub(crate) fn fill_every_slot(&mut self) {
        self.empty = None;
    }

    /// β.
    pub(crate) fn strength(&self) -> f32 {
        positive(self.strength[0])
    }

    /// The empty memory's score before and after anything is recalled, if it is a candidate.
    pub(crate) fn empty_scores(&self, statistics: &[Option<Statistics>]) -> Option<[f32; 2]> {
        let weights = self.empty.as_deref()?;
        let cues = statistics.iter().zip(weights[2..].chunks_exact(3));
        let said = cues.map(|(statistics, weights)| {
            statistics.map_or(0.0, |known| {
                weights[0] * known.maximum + weights[1] * known.mean + weights[2] * known.deviation
            })
        });
        let first = weights[0] + said.sum::<f32>();
        Some([first, first + weights[1]])
    }

    fn log_overlap(&self, features: [f32; OVERLAP_FEATURES]) -> f32 {
        -features.iter().zip(&self.weights).map(|(value, weight)| value * weight).sum::<f32>()
    }

    /// Fills the slots from the shortlist.
    pub(crate) fn select(
        &self,
        searched: &Searched<'_>,
        slots: usize,
        empty: Option<[f32; 2]>,
        buffers: &mut SetBuffers,
    ) {
        let (strength, sight) = (self.strength(), line_of_sight(searched.query));
        let mut candidates = std::mem::take(&mut buffers.candidates);
        candidates.sort_unstable_by(|a, b| a.ranked.order(&b.ranked));
        buffers.taken.clear();
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
                    best = Some((place, Taken { ranked, repeated, repeats }));
                }
            }
            let Some((place, best)) = best else { break };
            let silence = empty.map(|scores| scores[usize::from(!buffers.taken.is_empty())]);
            if silence.is_some_and(|silence| silence > best.ranked.score) {
                break;
            }
            candidates[place].taken = true;
            Self::remember(searched, best.ranked.position, buffers);
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
    /// reference.
    pub(crate) fn select_reference(
        &self,
        searched: &Searched<'_>,
        scores: &[f32],
        slots: usize,
        empty: Option<[f32; 2]>,
    ) -> Vec<Taken> {
        let sight = line_of_sight(searched.query);
        let sighting = |position: usize| {
            let index = searched.pool.id(position).index();
            Sighting::new(searched.snapshot.time(index), searched.snapshot.pose(index).as_ref())
        };
        let mut taken: Vec<Taken> = Vec::new();
        while taken.len() < slots {
            let mut best: Option<Taken> = None;
            for (position, &score) in scores.iter().enumerate() {
                let known = taken.iter().any(|taken| taken.ranked.position == position);
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
                    let pair = (sighting(position), sighting(position_of));
                    let features = overlap_features(sight, &pair.0, &pair.1, cosine, self.scale);
                    let overlap = self.log_overlap(features).exp();
                    if most.1.is_none() || overlap > most.0 {
                        most = (overlap, Some(rank));
                    }
                }
                let repeated = self.strength() * most.0;
                let ranked = Ranked { score: score - repeated, position };
                if best.is_none_or(|best| ranked.beats(&best.ranked)) {
                    best = Some(Taken { ranked, repeated, repeats: most.1 });
                }
            }
            let Some(best) = best else { break };
            if empty
                .is_some_and(|scores| scores[usize::from(!taken.is_empty())] > best.ranked.score)
            {
                break;
            }
            taken.push(best);
        }
        taken
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
