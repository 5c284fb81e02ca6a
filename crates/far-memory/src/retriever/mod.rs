//! Future-Aware Recall at inference: the policy `far`.
//!
//! One pass over the searched records scores every cue tile by tile and sums the statistics; then
//! the gate weighs the cues, and a second pass over the scores alone fuses them and selects. Mean
//! and deviation are needed before scores can be fused, so two passes are the minimum. Recall by sets
//! shortlists in a third, again over the scores alone.

use crate::cosine::QueryAdapter;
use crate::fusion::{CueTerm, FuseAndSelect, FuseAndShortlist, FusedScores, fuse_reference};
use crate::gate::Gate;
use crate::layer::Layer;
use crate::metadata_scorer::MetadataScorer;
use crate::policy::{KeyCues, Requirements};
use crate::recall_pass::{Buffers, PreparedCue, RecallPass};
use crate::retriever_config::{AdapterKind, RetrieverConfig, ScorerConfig, SetConfig};
use crate::selection::{Ranked, chunk_top_k_reference};
use crate::set_term::{Searched, SetTerm, Taken};
use crate::standardization::{MISSING, Statistics, merge};
use crate::worth::Worth;
use crate::{
    Error, FeatureScale, MemoryId, PoolView, Recall, RecallPolicy, RecallQuery, Scratch, Snapshot,
};
use pulp::Arch;
use std::collections::BTreeMap;
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
    /// Builds a retriever from parameters whose names and shapes were checked.
    pub(crate) fn assemble(
        config: RetrieverConfig,
        mut parameters: BTreeMap<String, Vec<f32>>,
    ) -> Self {
        let mut take = |name: String| parameters.remove(&name).expect("parameters were checked");
        let mut layer = |prefix: String| Layer {
            weight: take(format!("{prefix}.weight")),
            bias: take(format!("{prefix}.bias")),
        };
        let mut scorers = Vec::new();
        for cue in &config.cues {
            let name = &cue.name;
            scorers.push(match cue.scorer {
                ScorerConfig::Metadata { layers, .. } => {
                    let scale = cue.scorer.feature_scale().expect("a metadata scorer has units");
                    let layers =
                        (0..layers).map(|place| layer(format!("cue.{name}.layer.{place}")));
                    CueScorer::Metadata(MetadataScorer::new(scale, layers.collect()))
                }
                ScorerConfig::Cosine { adapter, .. } => {
                    let mut layers = || [0, 1].map(|i| layer(format!("cue.{name}.adapter.{i}")));
                    CueScorer::Cosine(match adapter {
                        AdapterKind::Identity => QueryAdapter::Identity,
                        AdapterKind::Network => QueryAdapter::Network(layers()),
                        AdapterKind::Residual => QueryAdapter::Residual(layers()),
                    })
                }
            });
        }
        let abstains = config.set.as_ref().is_some_and(|set| set.abstains);
        let worth = abstains.then(|| {
            let layers = [0, 1].map(|place| layer(format!("set.worth.{place}")));
            Box::new(Worth::new(layers, config.key_cues().collect()))
        });
        let cues = config.cues.len();
        let gate = (cues > 1)
            .then(|| Gate::new(take("gate.weight".to_owned()), cues, config.gate.stride_scale));
        let set = config.set.as_ref().map(|set| {
            let scale = FeatureScale { length: set.length_scale, time: set.time_scale };
            let [overlap, strength] =
                ["overlap", "strength"].map(|part| take(format!("set.{part}")));
            SetTerm::new(scale, overlap, strength, worth)
        });
        let names = config.cues.iter().map(|cue| cue.name.clone()).collect();
        Self { config, names, scorers, gate, set, threads: 1, pool_cap: None }
    }

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

    /// The parameters as [`RetrieverConfig::tensors`] lists them: name, shape and row-major numbers.
    pub fn tensors(&self) -> Vec<(String, Vec<usize>, &[f32])> {
        let parameters = self.parameters();
        let tensors = self.config.tensors().into_iter();
        tensors
            .map(|(name, shape)| {
                let values = parameters[&name];
                (name, shape, values)
            })
            .collect()
    }

    /// The parameters by name.
    pub(crate) fn parameters(&self) -> BTreeMap<String, &[f32]> {
        let mut parameters = BTreeMap::new();
        for (cue, scorer) in self.config.cues.iter().zip(&self.scorers) {
            let (kind, layers) = match scorer {
                CueScorer::Metadata(scorer) => ("layer", scorer.layers()),
                CueScorer::Cosine(QueryAdapter::Identity) => ("adapter", &[][..]),
                CueScorer::Cosine(
                    QueryAdapter::Network(layers) | QueryAdapter::Residual(layers),
                ) => ("adapter", &layers[..]),
            };
            for (place, layer) in layers.iter().enumerate() {
                let prefix = format!("cue.{}.{kind}.{place}", cue.name);
                parameters.insert(format!("{prefix}.weight"), layer.weight.as_slice());
                parameters.insert(format!("{prefix}.bias"), layer.bias.as_slice());
            }
        }
        if let Some(gate) = &self.gate {
            parameters.insert("gate.weight".to_owned(), gate.weight());
        }
        let set = self.set.iter().flat_map(SetTerm::parameters);
        parameters.extend(set.map(|(name, values)| (format!("set.{name}"), values)));
        parameters
    }

    /// λ of each cue from the statistics of its scores.
    fn weigh(&self, statistics: &[Option<Statistics>], stride: f32, weights: &mut [f32]) {
        match &self.gate {
            Some(gate) => gate.weights(statistics, stride, weights),
            None => weights[0] = if statistics[0].is_some() { 1.0 } else { 0.0 },
        }
    }

    /// What [`RecallPolicy::recall`] computes, in plain loops from the equations and with newly
    /// allocated memory: the reference.
    ///
    /// # Errors
    /// As [`RecallPolicy::recall`].
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
