//! The reference of a recall, which tests compare the fast one with.

use super::{CueScorer, Retriever};
use crate::fusion::fuse_reference;
use crate::selection::chunk_top_k_reference;
use crate::standardization::{MISSING, Statistics};
use crate::{Error, MemoryId, Recall, RecallQuery, Snapshot};

impl Retriever {
    /// What [`crate::RecallPolicy::recall`] computes, in plain loops from the equations and with newly
    /// allocated memory: the reference.
    ///
    /// # Errors
    /// As [`crate::RecallPolicy::recall`].
    pub fn recall_reference(
        &self,
        snapshot: &Snapshot,
        query: &RecallQuery,
        slots: usize,
    ) -> Result<Recall, Error> {
        query.check(snapshot.schema())?;
        let pool = snapshot.pool(&query.pool, self.cap(query))?;
        let mut raw = Vec::new();
        for (cue, scorer) in self.scorers.iter().enumerate() {
            let index = self.config.cue_index(cue, snapshot.schema())?;
            let embedding = query.key(&self.names[cue]);
            let score = |id: MemoryId| match (scorer, index, embedding) {
                (CueScorer::Metadata(scorer), ..) => {
                    let index = id.index();
                    let pose = snapshot.pose(index);
                    let score = scorer.score_reference(query, snapshot.time(index), pose.as_ref());
                    score.unwrap_or(MISSING)
                }
                (CueScorer::Cosine(adapter), Some(cue), Some(embedding)) => snapshot
                    .key(cue, id.index())
                    .map_or(MISSING, |key| key.dot(&adapter.apply_reference(embedding))),
                _ => MISSING,
            };
            raw.push(pool.iter().map(score).collect::<Vec<f32>>());
        }
        let statistics: Vec<_> = raw.iter().map(|raw| Statistics::reference(raw)).collect();
        let mut weights = vec![0.0; raw.len()];
        self.weigh(&statistics, query.stride, &mut weights);
        let record = |position: usize| raw.iter().map(|raw| raw[position]).collect::<Vec<f32>>();
        let fused: Vec<f32> = (0..pool.len())
            .map(|position| fuse_reference(&statistics, &weights, &record(position)))
            .collect();
        let mut recall = Recall::new();
        recall.begin(&self.names);
        recall.set_not_a_number(fused.iter().filter(|score| score.is_nan()).count());
        for (cue, weight) in weights.iter().enumerate() {
            recall.set_weight(cue, *weight);
        }
        let score = |position: usize, cue: usize| raw[cue][position];
        if let Some(set) = &self.set {
            let flat = raw.concat();
            let searched = self.searched(snapshot, query, pool, &flat)?;
            let (taken, passed) = set.select_reference(&searched, &fused, slots);
            self.explain_set(&pool, &statistics, &taken, &passed, score, &mut recall);
        } else {
            for chosen in chunk_top_k_reference(&fused, self.config.chunk_size, slots) {
                let raw = |cue: usize| score(chosen.position, cue);
                self.explain(&pool, &statistics, chosen, raw, &mut recall);
            }
        }
        Ok(recall)
    }
}
