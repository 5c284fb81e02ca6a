//! Future-Aware Recall at inference: the policy `far`.
//!
//! One pass over the searched records scores every cue tile by tile and sums the statistics; then
//! the gate weighs the cues, and a second pass over the scores alone fuses them and selects. Mean
//! and deviation are needed before scores can be fused, so two passes are the minimum. Recall by sets
//! shortlists in a third, again over the scores alone.

mod config;
mod file;
mod parameters;
mod reference;

pub use config::{
    Activation, AdapterKind, CueConfig, FeatureSet, GateConfig, RetrieverConfig, ScorerConfig,
    SetConfig,
};
pub use file::RETRIEVER_VERSION;

use crate::cosine::QueryAdapter;
use crate::fusion::{CueTerm, FuseAndSelect, FuseAndShortlist, FusedScores};
use crate::gate::Gate;
use crate::metadata_scorer::MetadataScorer;
use crate::policy::{KeyCues, Requirements};
use crate::recall_pass::{Buffers, PreparedCue, RecallPass};
use crate::selection::Ranked;
use crate::set_term::{Searched, SetTerm, Taken};
use crate::standardization::{MISSING, Statistics, merge};
use crate::{Error, FeatureScale, PoolView, Recall, RecallPolicy, RecallQuery, Scratch, Snapshot};
use pulp::Arch;
use std::sync::Arc;

/// How one cue is scored, with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CueScorer {
    Metadata(MetadataScorer),
    Cosine(QueryAdapter),
}

/// A trained retriever: the policy `far`.
///
/// Load one with [`Retriever::load`], or make one from parameters with [`Retriever::from_tensors`].
/// A cue gets weight 0 if the query has no embedding or the searched records have no key for it. If
/// no cue is left, all scores are 0 and the most recent chunks are recalled.
#[derive(Clone, Debug, PartialEq)]
pub struct Retriever {
    config: RetrieverConfig,
    names: Arc<[String]>,
    scorers: Vec<CueScorer>,
    gate: Option<Gate>,
    set: Option<SetTerm>,
    threads: usize,
    pool_cap: Option<usize>,
}

impl Retriever {
    /// Sets the number of threads for large pools (0 counts as 1). The result does not depend on
    /// it.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Limits the search to this many records of a pool, evenly spaced.
    pub fn with_pool_cap(mut self, cap: Option<usize>) -> Self {
        self.pool_cap = cap;
        self
    }

    /// The same scores with a penalty made by hand instead of chunks, a control for learned sets: what is
    /// within a meter and half a radian of a recalled memory loses up to `strength`,
    /// `strength·exp(−(d/1 m)² − (angle/0.5)²)` for the nearest of them, the angle as a chord.
    pub fn with_penalty_by_hand(mut self, strength: f32) -> Self {
        let scale = FeatureScale { length: 1.0, time: 1.0 };
        // Along and across alike, four times the square of the chord, and nothing of the rest.
        let overlap = vec![0.0, 0.0, 4f32.ln(), -30.0, -30.0, -30.0];
        self.set = Some(SetTerm::new(scale, overlap, vec![strength.ln()], None));
        let (length_scale, time_scale) = (scale.length, scale.time);
        self.config.set = Some(SetConfig { length_scale, time_scale, key: None, abstains: false });
        self
    }

    /// The same whatever memories are worth: every slot is filled.
    pub fn without_abstaining(mut self) -> Self {
        if let (Some(config), Some(set)) = (&mut self.config.set, &mut self.set) {
            config.abstains = false;
            set.worth = None;
        }
        self
    }

    /// The smaller of its own cap and the query's.
    fn cap(&self, query: &RecallQuery) -> Option<usize> {
        [self.pool_cap, query.pool_cap].into_iter().flatten().min()
    }

    /// Cues, sizes and features.
    pub fn config(&self) -> &RetrieverConfig {
        &self.config
    }

    /// Multiplications and additions of all metadata networks for one memory.
    pub fn operations_per_memory(&self) -> usize {
        let scorers = self.scorers.iter().map(|scorer| match scorer {
            CueScorer::Metadata(scorer) => scorer.operations_per_memory(),
            CueScorer::Cosine(_) => 0,
        });
        scorers.sum()
    }

    /// λ of each cue from the statistics of its scores.
    fn weigh(&self, statistics: &[Option<Statistics>], stride: f32, weights: &mut [f32]) {
        match &self.gate {
            Some(gate) => gate.weights(statistics, stride, weights),
            None => weights[0] = if statistics[0].is_some() { 1.0 } else { 0.0 },
        }
    }

    /// What the set term reads.
    fn searched<'a>(
        &self,
        snapshot: &'a Snapshot,
        query: &'a RecallQuery,
        pool: PoolView<'a>,
        raw: &'a [f32],
    ) -> Result<Searched<'a>, Error> {
        let name = self.config.set.as_ref().and_then(|set| set.key.as_ref());
        let cue = name.and_then(|name| self.names.iter().position(|own| own == name));
        let key = match cue.map(|cue| (cue, &self.config.cues[cue].scorer)) {
            Some((cue, ScorerConfig::Cosine { dimension, .. })) => {
                self.config.cue_index(cue, snapshot.schema())?.map(|index| (index, *dimension))
            }
            _ => None,
        };
        Ok(Searched { snapshot, pool, query, key, raw })
    }

    /// Adds the memories of a set with their scores by cue, what each repeats and is worth.
    fn explain_set(
        &self,
        pool: &PoolView<'_>,
        statistics: &[Option<Statistics>],
        taken: &[Taken],
        passed: &[(usize, f32)],
        raw: impl Fn(usize, usize) -> f32,
        recall: &mut Recall,
    ) {
        for chosen in taken {
            let position = chosen.ranked.position;
            self.explain(pool, statistics, chosen.ranked, |cue| raw(position, cue), recall);
            if let Some(rank) = chosen.repeats {
                recall.set_repeated(rank, chosen.repeated);
            }
            recall.set_worth(chosen.worth);
        }
        for &(position, worth) in passed {
            recall.pass_over(pool.id(position), worth);
        }
    }

    /// Adds a chosen record with its scores by cue.
    fn explain(
        &self,
        pool: &PoolView<'_>,
        statistics: &[Option<Statistics>],
        chosen: Ranked,
        raw: impl Fn(usize) -> f32,
        recall: &mut Recall,
    ) {
        let chunk = (chosen.position / self.config.chunk_size) as u32;
        let chunk = self.set.is_none().then_some(chunk);
        let slots = recall.push_empty(pool.id(chosen.position), chosen.score, chunk);
        for (cue, (raw_slot, standardized)) in slots.enumerate() {
            let score = raw(cue);
            *raw_slot = if score == MISSING { f32::NAN } else { score };
            *standardized = statistics[cue].map_or(0.0, |known| known.standardize(score));
        }
    }

    /// Folds or adapts the query for each cue.
    fn prepare(
        &self,
        snapshot: &Snapshot,
        query: &RecallQuery,
        prepared: &mut Vec<PreparedCue>,
    ) -> Result<(), Error> {
        prepared.resize_with(self.scorers.len(), PreparedCue::default);
        for (cue, (scorer, prepared)) in self.scorers.iter().zip(prepared).enumerate() {
            prepared.index = self.config.cue_index(cue, snapshot.schema())?;
            match (scorer, query.key(&self.names[cue])) {
                (CueScorer::Metadata(scorer), _) => scorer.fold(query, &mut prepared.folded),
                (CueScorer::Cosine(adapter), Some(embedding)) => {
                    adapter.apply(embedding, &mut prepared.hidden, &mut prepared.query);
                }
                (CueScorer::Cosine(_), None) => prepared.index = None,
            }
        }
        Ok(())
    }
}

impl RecallPolicy for Retriever {
    fn id(&self) -> &str {
        "far"
    }

    fn requirements(&self) -> Requirements {
        let mut requirements = Requirements::default();
        let mut keys = Vec::new();
        for cue in &self.config.cues {
            match cue.scorer {
                ScorerConfig::Metadata { .. } => requirements.poses = true,
                ScorerConfig::Cosine { .. } => keys.push(cue.name.clone()),
            }
        }
        requirements.poses |= self.set.is_some();
        if !keys.is_empty() {
            requirements.keys = KeyCues::Named(keys);
        }
        requirements
    }

    fn summary(&self) -> String {
        let cues = self.config.cues.iter().map(|cue| match cue.scorer {
            ScorerConfig::Metadata { .. } => "pose and time",
            ScorerConfig::Cosine { .. } => &cue.name,
        });
        let cues: Vec<&str> = cues.collect();
        let only = if cues.len() == 1 { " only" } else { "" };
        format!("learned recall by {}{only}", cues.join(", "))
    }

    fn is_learned(&self) -> bool {
        true
    }

    fn abstains(&self) -> bool {
        self.config.set.as_ref().is_some_and(|set| set.abstains)
    }

    fn recall(
        &self,
        snapshot: &Snapshot,
        query: &RecallQuery,
        slots: usize,
        scratch: &mut Scratch,
        recall: &mut Recall,
    ) -> Result<(), Error> {
        query.check(snapshot.schema())?;
        let pool = snapshot.pool(&query.pool, self.cap(query))?;
        let buffers = scratch.get::<Buffers>();
        self.prepare(snapshot, query, &mut buffers.prepared)?;
        recall.begin(&self.names);
        if pool.is_empty() {
            return Ok(());
        }
        let cues = self.scorers.len();
        RecallPass { scorers: &self.scorers, snapshot, pool }.run(self.threads, buffers);

        let Buffers { raw, parts, statistics, weights, terms, selection, set, .. } = buffers;
        statistics.clear();
        statistics.extend((0..cues).map(|cue| merge(parts.iter().skip(cue).step_by(cues))));
        weights.resize(cues, 0.0);
        self.weigh(statistics, query.stride, weights);
        terms.clear();
        terms.extend((0..cues).map(|cue| CueTerm::new(statistics[cue], weights[cue], pool.len())));
        let chunk_size = if self.set.is_some() { 1 } else { self.config.chunk_size };
        let passed = self.set.as_ref().map_or(0, SetTerm::passed);
        selection.begin(slots + passed, chunk_size);
        let scores = FusedScores { terms, raw, length: pool.len() };
        Arch::new().dispatch(FuseAndSelect { scores, selection });
        recall.set_not_a_number(selection.not_a_number());
        for (cue, weight) in weights.iter().enumerate() {
            recall.set_weight(cue, *weight);
        }
        let score = |position: usize, cue: usize| raw[cue * pool.len() + position];
        let best = selection.finish();
        let Some(term) = &self.set else {
            for &chosen in best {
                self.explain(&pool, statistics, chosen, |cue| score(chosen.position, cue), recall);
            }
            return Ok(());
        };
        set.begin(pool.len());
        if let Some(last) = best.last() {
            // Rounding of the sum must not lose one; a shortlist may be longer than it need be.
            let threshold = last.score - term.strength();
            let threshold = threshold - 1e-5 * (1.0 + threshold.abs());
            Arch::new().dispatch(FuseAndShortlist { scores, threshold, shortlist: set });
        }
        term.select(&self.searched(snapshot, query, pool, raw)?, slots, set);
        self.explain_set(&pool, statistics, &set.taken, &set.passed, score, recall);
        Ok(())
    }
}
