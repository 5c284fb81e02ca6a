//! The memories that get credit in a retriever step: the K recalled (the global pool) and the chunk
//! of one of them (the local pool).
//!
//! The representative of the drawn chunk is in both pools; its utility is computed once.
//!
//! Credit for sets has candidates for one slot: those that would be recalled next, given the memories
//! recalled before it. Where slots may stay empty, what no memory is worth is measured beside those for the
//! first.

use crate::Result;
use far_memory::{
    Error as MemoryError, FEATURES, FeatureScale, MemoryId, OVERLAP_FEATURES, PoolView, Recall,
    RecallQuery, RetrieverConfig, Sighting, Snapshot, line_of_sight, overlap_features,
    worth_relation,
};
use far_tensor::Random;

/// How candidates are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolDraw {
    /// Memories of a chunk, the local pool.
    pub chunk_size: usize,
    /// Random memories that join the global pool: any for the first slot, for a later one such as may repeat
    /// a taken memory, within a chunk's length of it.
    pub extra: usize,
    /// So many of the recalled memories compete; all when 0.
    pub competing: usize,
    /// Whether the empty memory is measured too, as for the first slot where slots may stay empty.
    pub empty: bool,
    /// Whether the memories are of another place.
    pub foreign: bool,
}

/// The candidates of one example.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CandidatePools {
    /// Every candidate once: the recalled by rank, random extras, then the rest of the chunk in pool
    /// order.
    pub ids: Vec<MemoryId>,
    /// The position of each candidate in pool order, which is its slot in a batch of scores.
    pub positions: Vec<usize>,
    /// RowIndex in `ids` of the global pool.
    pub global: Vec<usize>,
    /// RowIndex in `ids` of the local pool, in pool order.
    pub local: Vec<usize>,
    /// So many of them, the first, would be recalled.
    pub competing: usize,
    /// The memories recalled before, which every candidate is credited together with.
    pub taken: Vec<MemoryId>,
    /// Whether the empty memory is measured too, so that worth can be learned; its utility
    /// comes after those of `ids`.
    pub empty: bool,
    /// Whether the memories are of another place: they compete for nothing, but teach what memories are
    /// worth.
    pub foreign: bool,
    /// How far each candidate is from each taken memory, candidate by candidate, where scores know it.
    pub overlaps: Vec<[f32; OVERLAP_FEATURES]>,
    /// What the worth of each candidate reads of its time and pose, where slots may stay empty.
    pub relations: Vec<[f32; FEATURES]>,
}

impl CandidatePools {
    /// The candidates for the slot after `taken`, from a recall from `pool`: the recalled but not taken are
    /// the global pool; one of them is drawn, all alike, and its chunk becomes the local pool; `extra`
    /// memories drawn at random join the global pool, fewer if there are no more. Nothing left of the
    /// recall gives empty pools.
    ///
    /// # Errors
    /// If a recalled memory is not in the pool.
    pub fn draw(
        recall: &Recall,
        taken: &[MemoryId],
        pool: &PoolView<'_>,
        draw: &PoolDraw,
        random: &mut Random,
    ) -> Result<Self> {
        let PoolDraw { empty, foreign, .. } = *draw;
        let mut pools = Self { empty, foreign, taken: taken.to_vec(), ..Self::default() };
        let competing = if draw.competing == 0 { usize::MAX } else { draw.competing };
        let place_of = |id: MemoryId| {
            position(pool, id).ok_or_else(|| MemoryError::Query {
                reason: format!("memory {} was recalled from another pool", id.0),
            })
        };
        let others = recall.ids().filter(|id| !taken.contains(id)).take(competing);
        for id in others {
            let place = pools.place(id, place_of(id)?);
            pools.global.push(place);
        }
        pools.competing = pools.ids.len();
        let taken = taken.iter().map(|id| place_of(*id)).collect::<Result<Vec<usize>, _>>()?;
        if pools.ids.is_empty() {
            return Ok(pools);
        }
        let chunk_size = draw.chunk_size.max(1);
        let drawn = pools.positions[random.below(pools.positions.len())];
        let near = |position: &usize| {
            taken.is_empty() || taken.iter().any(|taken| taken.abs_diff(*position) <= chunk_size)
        };
        let known =
            |position: &usize| pools.positions.contains(position) || taken.contains(position);
        let mut open: Vec<usize> =
            (0..pool.len()).filter(near).filter(|position| !known(position)).collect();
        for _ in 0..draw.extra.min(open.len()) {
            let position = open.remove(random.below(open.len()));
            let place = pools.place(pool.id(position), position);
            pools.global.push(place);
        }
        let first = drawn / chunk_size * chunk_size;
        let chunk = first..(first + chunk_size).min(pool.len());
        for position in chunk.filter(|position| !taken.contains(position)) {
            let place = pools.place(pool.id(position), position);
            pools.local.push(place);
        }
        Ok(pools)
    }

    /// Compares the candidates with the taken memories, where the retriever's scores know the set, and with the
    /// query, where slots may stay empty.
    ///
    /// # Errors
    /// If the memory lacks the cue whose keys are compared.
    pub fn compare(
        &mut self,
        config: &RetrieverConfig,
        query: &RecallQuery,
        memory: &Snapshot,
    ) -> Result<()> {
        let Some(set) = &config.set else { return Ok(()) };
        let named = |name: &String| config.cues.iter().position(|cue| cue.name == *name);
        let cue = set.key.as_ref().and_then(named);
        let cue = cue.map(|cue| config.cue_index(cue, memory.schema())).transpose()?.flatten();
        let scale = FeatureScale { length: set.length_scale, time: set.time_scale };
        let sight = line_of_sight(query);
        let seen = |id: &MemoryId| {
            let index = id.index();
            let key = cue.and_then(|cue| memory.key(cue, index)).map(|key| {
                let mut numbers = vec![0.0; key.len()];
                key.copy_to(&mut numbers);
                numbers
            });
            (Sighting::new(memory.time(index), memory.pose(index).as_ref()), key)
        };
        let taken: Vec<_> = self.taken.iter().map(seen).collect();
        self.overlaps.clear();
        self.relations.clear();
        for id in &self.ids {
            if set.abstains {
                let (time, pose) = (memory.time(id.index()), memory.pose(id.index()));
                self.relations.push(worth_relation(query, time, pose.as_ref(), scale));
            }
            let (own, key) = seen(id);
            for (other, others) in &taken {
                let cosine = key.as_ref().zip(others.as_ref());
                let cosine = cosine.map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b).sum());
                self.overlaps.push(overlap_features(sight, &own, other, cosine, scale));
            }
        }
        Ok(())
    }

    /// What a candidate was compared with.
    pub(crate) fn overlaps_of(&self, place: usize) -> &[[f32; OVERLAP_FEATURES]] {
        let taken = self.taken.len();
        self.overlaps.get(place * taken..(place + 1) * taken).unwrap_or(&[])
    }

    /// The place of a candidate, added if it is new.
    fn place(&mut self, id: MemoryId, position: usize) -> usize {
        let known = self.positions.iter().position(|known| *known == position);
        known.unwrap_or_else(|| {
            self.ids.push(id);
            self.positions.push(position);
            self.ids.len() - 1
        })
    }
}

/// Where a memory stands in a pool, whose ids ascend.
fn position(pool: &PoolView<'_>, id: MemoryId) -> Option<usize> {
    let (mut low, mut high) = (0, pool.len());
    while low < high {
        let middle = low.midpoint(high);
        if pool.id(middle) < id { low = middle + 1 } else { high = middle }
    }
    (low < pool.len() && pool.id(low) == id).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_memory::Pool;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// A recall of these ids.
    fn recall(ids: &[u64]) -> Recall {
        let cues: Arc<[String]> = Arc::new([]);
        let mut recall = Recall::new();
        recall.begin(&cues);
        ids.iter().for_each(|id| recall.push(MemoryId(*id), 0.0, None, &[], &[]));
        recall
    }

    fn draw(recall: &Recall, pool: &Pool, extra: usize, step: u64) -> CandidatePools {
        let pool = PoolView::new(pool, None, 1000).unwrap();
        let mut random = Random::stream(3, "candidates", step);
        let draw = PoolDraw { chunk_size: 4, extra, ..PoolDraw::default() };
        CandidatePools::draw(recall, &[], &pool, &draw, &mut random).unwrap()
    }

    #[test]
    fn the_representative_is_in_both_pools_once() {
        // Positions are ids less 100; chunks are 100–103, 104–107, 108–110.
        let pool = Pool::Range(100..111);
        let mut chunks = BTreeSet::new();
        for step in 0..40 {
            let pools = draw(&recall(&[109, 101, 106]), &pool, 0, step);
            assert_eq!(pools.global, [0, 1, 2]);
            let ids: BTreeSet<_> = pools.ids.iter().collect();
            assert_eq!(ids.len(), pools.ids.len(), "each candidate once");
            let local: Vec<u64> = pools.local.iter().map(|place| pools.ids[*place].0).collect();
            match local[0] {
                100 => assert_eq!(local, [100, 101, 102, 103]),
                104 => assert_eq!(local, [104, 105, 106, 107]),
                _ => assert_eq!(local, [108, 109, 110]),
            }
            assert_eq!(pools.local.iter().filter(|place| **place < 3).count(), 1);
            for (id, position) in pools.ids.iter().zip(&pools.positions) {
                assert_eq!(id.index(), 100 + position);
            }
            assert_eq!(pools, draw(&recall(&[109, 101, 106]), &pool, 0, step));
            chunks.insert(local[0]);
        }
        assert_eq!(chunks.len(), 3, "every recalled memory's chunk is drawn");
    }

    #[test]
    fn extra_candidates_are_new_and_reach_the_whole_pool() {
        let pool = Pool::ids((0..10).map(|id| MemoryId(7 * id)));
        let mut seen = BTreeSet::new();
        for step in 0..60 {
            let pools = draw(&recall(&[63, 21]), &pool, 3, step);
            assert_eq!(pools.global, [0, 1, 2, 3, 4]);
            let global: BTreeSet<_> = pools.global.iter().map(|place| pools.ids[*place]).collect();
            assert_eq!(global.len(), 5);
            seen.extend(pools.ids[2..5].iter().map(|id| id.0));
        }
        let others = (0..10).map(|id| 7 * id).filter(|id| ![63, 21].contains(id));
        assert_eq!(seen, others.collect());
        // No more than there are.
        assert_eq!(draw(&recall(&[63, 21]), &pool, 99, 0).global.len(), 10);
    }

    #[test]
    fn nothing_recalled_has_no_candidates_and_a_foreign_memory_is_refused() {
        let pool = Pool::Range(0..10);
        assert_eq!(draw(&recall(&[]), &pool, 2, 0), CandidatePools::default());
        let view = PoolView::new(&pool, None, 10).unwrap();
        let mut random = Random::stream(3, "candidates", 0);
        let draw = PoolDraw { chunk_size: 4, ..PoolDraw::default() };
        let error =
            CandidatePools::draw(&recall(&[12]), &[], &view, &draw, &mut random).unwrap_err();
        assert!(error.to_string().contains("memory 12"), "{error}");
    }

    #[test]
    fn what_is_taken_is_no_candidate_and_no_more_compete_than_asked() {
        let ids = Pool::Range(0..12);
        let pool = PoolView::new(&ids, None, 12).unwrap();
        for step in 0..20 {
            let mut random = Random::stream(3, "candidates", step);
            let draw =
                PoolDraw { chunk_size: 4, extra: 3, competing: 2, empty: true, foreign: false };
            let (recalled, taken) = (recall(&[9, 6, 1, 8, 3]), [9, 1].map(MemoryId));
            let pools = CandidatePools::draw(&recalled, &taken, &pool, &draw, &mut random).unwrap();
            assert_eq!(pools.taken, taken);
            assert_eq!(pools.ids[..2], [6, 8].map(MemoryId));
            assert_eq!(pools.competing, 2);
            // Extras may repeat what is taken: 9 and 1, within four.
            let near = |id: &MemoryId| id.0.abs_diff(9) <= 4 || id.0.abs_diff(1) <= 4;
            assert!(pools.ids[2..5].iter().all(near));
            assert_eq!(pools.global, [0, 1, 2, 3, 4]);
            let candidates: BTreeSet<_> = pools.ids.iter().collect();
            assert_eq!(candidates.len(), pools.ids.len());
            assert!(!pools.ids.iter().any(|id| pools.taken.contains(id)));
            let local: Vec<u64> = pools.local.iter().map(|place| pools.ids[*place].0).collect();
            assert!(local == [4, 5, 6, 7] || local == [8, 10, 11], "{local:?}");
            assert!(pools.empty);
        }
    }
}
