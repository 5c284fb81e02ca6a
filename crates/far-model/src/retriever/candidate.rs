//! The memories that get credit in a retriever step: the K recalled (the global pool) and the chunk
//! of one of them (the local pool).
//!
//! The representative of the drawn chunk is in both pools; its utility is computed once.

use crate::Result;
use far_memory::{Error as MemoryError, MemoryId, PoolView, Recall};
use far_tensor::Random;

/// The candidates of one example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
}

impl CandidatePools {
    /// The candidates after a recall from `pool`: a recalled memory is drawn, all alike, and its chunk
    /// of `chunk_size` becomes the local pool; `extra` memories drawn at random join the global pool,
    /// fewer if there are no more. Nothing recalled gives empty pools.
    ///
    /// # Errors
    /// If a recalled memory is not in the pool.
    pub fn draw(
        recall: &Recall,
        pool: &PoolView<'_>,
        chunk_size: usize,
        extra: usize,
        random: &mut Random,
    ) -> Result<Self> {
        let mut pools = Self::default();
        for id in recall.ids() {
            let position = position(pool, id).ok_or_else(|| MemoryError::Query {
                reason: format!("memory {} was recalled from another pool", id.0),
            })?;
            let place = pools.place(id, position);
            pools.global.push(place);
        }
        if pools.ids.is_empty() {
            return Ok(pools);
        }
        let chunk_size = chunk_size.max(1);
        let drawn = pools.positions[random.below(pools.positions.len())];
        let spare = pool.len() - pools.ids.len();
        for _ in 0..extra.min(spare) {
            // The n-th position that is no candidate yet.
            let mut position = random.below(pool.len() - pools.ids.len());
            let mut taken = pools.positions.clone();
            taken.sort_unstable();
            taken.iter().for_each(|taken| position += usize::from(*taken <= position));
            let place = pools.place(pool.id(position), position);
            pools.global.push(place);
        }
        let first = drawn / chunk_size * chunk_size;
        for position in first..(first + chunk_size).min(pool.len()) {
            let place = pools.place(pool.id(position), position);
            pools.local.push(place);
        }
        Ok(pools)
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
        CandidatePools::draw(recall, &pool, 4, extra, &mut random).unwrap()
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
        let error = CandidatePools::draw(&recall(&[12]), &view, 4, 0, &mut random).unwrap_err();
        assert!(error.to_string().contains("memory 12"), "{error}");
    }
}
