//! Top-K and chunked Top-K, in one total order for every policy.
//!
//! Order: the higher score wins; among equal scores the later position in pool order, that is the
//! more recent record. NaN ranks as −∞ and is counted; a score of −∞ means "not eligible" and is
//! never selected. A chunk is a run of `chunk_size` consecutive positions, counted from the oldest;
//! its representative is its best record, and chunked Top-K takes the K best representatives, so
//! never two from one chunk.

use std::cmp::Ordering;

/// A candidate: its score and its position in pool order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The score, never NaN.
    pub score: f32,
    /// Position in pool order.
    pub position: usize,
}

impl Ranked {
    /// Whether this candidate comes before `other`: higher score, then later position.
    #[inline]
    pub fn beats(&self, other: &Self) -> bool {
        self.score > other.score || (self.score == other.score && self.position > other.position)
    }

    pub(crate) fn order(&self, other: &Self) -> Ordering {
        // Scores are never NaN here, and +0 equals −0 as in `beats`.
        let scores = other.score.partial_cmp(&self.score).unwrap_or(Ordering::Equal);
        scores.then(other.position.cmp(&self.position))
    }
}

/// The K best candidates of a stream, kept as a heap with the worst on top.
#[derive(Clone, Debug, Default)]
pub struct TopK {
    slots: usize,
    heap: Vec<Ranked>,
    not_a_number: usize,
}

impl TopK {
    /// Empties the selection and sets K.
    pub fn begin(&mut self, slots: usize) {
        self.slots = slots;
        self.heap.clear();
        self.not_a_number = 0;
    }

    /// Offers a candidate; positions may come in any order.
    #[inline]
    pub fn push(&mut self, score: f32, position: usize) {
        if score.is_nan() {
            self.not_a_number += 1;
        } else if score > f32::NEG_INFINITY {
            self.offer(Ranked { score, position });
        }
    }

    /// The lowest score with which a candidate can still be selected.
    #[inline]
    pub fn threshold(&self) -> f32 {
        match self.heap.first() {
            Some(worst) if self.heap.len() == self.slots => worst.score,
            _ if self.slots == 0 => f32::INFINITY,
            _ => f32::NEG_INFINITY,
        }
    }

    fn offer(&mut self, candidate: Ranked) {
        if self.heap.len() < self.slots {
            self.heap.push(candidate);
            let mut child = self.heap.len() - 1;
            while child > 0 {
                let parent = (child - 1) / 2;
                if !self.heap[parent].beats(&self.heap[child]) {
                    break;
                }
                self.heap.swap(parent, child);
                child = parent;
            }
        } else if self.heap.first().is_some_and(|worst| candidate.beats(worst)) {
            self.heap[0] = candidate;
            let mut parent = 0;
            loop {
                let mut worst = parent;
                for child in [2 * parent + 1, 2 * parent + 2] {
                    if child < self.heap.len() && self.heap[worst].beats(&self.heap[child]) {
                        worst = child;
                    }
                }
                if worst == parent {
                    break;
                }
                self.heap.swap(parent, worst);
                parent = worst;
            }
        }
    }

    /// How many scores were NaN.
    pub fn not_a_number(&self) -> usize {
        self.not_a_number
    }

    /// The selected candidates, best first. Call [`begin`](Self::begin) before offering more.
    pub fn finish(&mut self) -> &[Ranked] {
        self.heap.sort_unstable_by(Ranked::order);
        &self.heap
    }
}

/// The K best chunk representatives of a stream that comes in pool order.
#[derive(Clone, Debug, Default)]
pub struct ChunkTopK {
    top: TopK,
    chunk_size: usize,
    /// The best of the chunk that ends at position `chunk_end`.
    best: Option<Ranked>,
    chunk_end: usize,
}

impl ChunkTopK {
    /// Empties the selection and sets K and the chunk size (0 counts as 1: plain Top-K).
    pub fn begin(&mut self, slots: usize, chunk_size: usize) {
        self.top.begin(slots);
        self.chunk_size = chunk_size.max(1);
        self.best = None;
        self.chunk_end = 0;
    }

    /// Offers the next candidate; positions must not decrease.
    #[inline]
    pub fn push(&mut self, score: f32, position: usize) {
        if score.is_nan() {
            self.top.not_a_number += 1;
            return;
        }
        if position >= self.chunk_end {
            self.close();
            self.chunk_end = (position / self.chunk_size + 1) * self.chunk_size;
        }
        let candidate = Ranked { score, position };
        if score > f32::NEG_INFINITY && self.best.is_none_or(|best| candidate.beats(&best)) {
            self.best = Some(candidate);
        }
    }

    /// The lowest score with which a representative can still be selected. Candidates below it may
    /// be left out of the stream without changing the result.
    #[inline]
    pub fn threshold(&self) -> f32 {
        self.top.threshold()
    }

    fn close(&mut self) {
        if let Some(best) = self.best.take() {
            self.top.offer(best);
        }
    }

    /// How many scores were NaN.
    pub fn not_a_number(&self) -> usize {
        self.top.not_a_number
    }

    /// The selected representatives, best first. Call [`begin`](Self::begin) before offering more.
    pub fn finish(&mut self) -> &[Ranked] {
        self.close();
        self.top.finish()
    }
}

/// Chunked Top-K by sorting all representatives: the reference.
pub fn chunk_top_k_reference(scores: &[f32], chunk_size: usize, slots: usize) -> Vec<Ranked> {
    let mut representatives = Vec::new();
    for (chunk, members) in scores.chunks(chunk_size.max(1)).enumerate() {
        let mut best: Option<Ranked> = None;
        for (place, &score) in members.iter().enumerate() {
            let candidate = Ranked { score, position: chunk * chunk_size.max(1) + place };
            let eligible = score > f32::NEG_INFINITY;
            if eligible && best.is_none_or(|best| candidate.beats(&best)) {
                best = Some(candidate);
            }
        }
        representatives.extend(best);
    }
    representatives.sort_by(Ranked::order);
    representatives.truncate(slots);
    representatives
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn score() -> impl Strategy<Value = f32> {
        // Few distinct values, so that ties are common.
        prop_oneof![
            8 => (-4..4i32).prop_map(|level| level as f32 * 0.5),
            1 => Just(f32::NAN),
            1 => Just(f32::NEG_INFINITY),
            1 => Just(-0.0f32),
        ]
    }

    proptest! {
        #[test]
        fn heap_and_sort_agree(
            scores in prop::collection::vec(score(), 0..200),
            slots in 0usize..20,
            chunk_size in 0usize..30,
        ) {
            let mut top = TopK::default();
            top.begin(slots);
            let mut chunked = ChunkTopK::default();
            chunked.begin(slots, chunk_size);
            for (position, &score) in scores.iter().enumerate() {
                top.push(score, position);
                if score.is_nan() || score >= chunked.threshold() {
                    chunked.push(score, position);
                }
            }
            let nans = scores.iter().filter(|score| score.is_nan()).count();
            prop_assert_eq!((top.not_a_number(), chunked.not_a_number()), (nans, nans));
            let expected = chunk_top_k_reference(&scores, 1, slots);
            prop_assert_eq!(top.finish(), expected.as_slice());
            let expected = chunk_top_k_reference(&scores, chunk_size, slots);
            prop_assert_eq!(chunked.finish(), expected.as_slice());
        }
    }

    #[test]
    fn chunk_top_k_takes_one_per_chunk_and_ties_go_to_the_more_recent() {
        let scores = [1.0, 3.0, 2.0, 3.0, 3.0, 0.0, f32::NAN, 9.0];
        let chosen: Vec<_> =
            chunk_top_k_reference(&scores, 3, 5).iter().map(|ranked| ranked.position).collect();
        assert_eq!(chosen, [7, 4, 1]);
    }
}
