//! What all published rules share: they see the query and the searched part of the memory, and fill
//! the slots.
//!
//! A rule reads the memory only through a [`Scene`], which holds the records of the pool and
//! nothing else; so no rule can reach outside the pool.

use std::sync::Arc;

use pulp::{Simd, WithSimd};

use super::RecallPolicy;
use super::assignment::Assignment;
use super::coverage::Coverage;
use super::i3dm::Confidence;
use super::novelty::NoveltyGate;
use super::point_set::PointSet;
use super::requirement::Requirements;
use super::sight::FrustumSight;
use super::view::{ViewConfig, check_count};
use crate::cosine::cosines;
use crate::scratch::refill;
use crate::selection::{ChunkTopK, Ranked, TopK};
use crate::{Error, Keys, MemoryId, Pose, Recall, RecallQuery, Scratch, Snapshot, normalize};

/// One searched record, at its position in pool order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) id: MemoryId,
    pub(crate) time: f64,
    pub(crate) pose: Pose,
}

/// What a rule sees: the query and the records of its pool, oldest first.
pub(crate) struct Scene<'a> {
    snapshot: &'a Snapshot,
    pub(crate) query: &'a RecallQuery,
    pub(crate) candidates: &'a [Candidate],
    /// How many memories to recall at most.
    pub(crate) slots: usize,
    /// The sample points of the rule's view around the origin; none without a view.
    pub(crate) ball: &'a PointSet,
}

/// A recall rule over a scene. A rule is its settings.
pub(crate) trait Rule: Send + Sync {
    /// Rejects settings out of range.
    fn check(&self) -> Result<(), Error> {
        self.chunk_size().map_or(Ok(()), |size| check_count("chunk_size", size))
    }

    /// What the rule reads besides times; without a word of it, its view if it has one.
    fn requirements(&self) -> Requirements {
        self.view().map_or_else(Requirements::default, |_| Requirements::views())
    }

    /// The view whose sample points the rule counts; they are drawn once, as [`Scene::ball`].
    fn view(&self) -> Option<&ViewConfig> {
        None
    }

    /// Appends the chosen candidates to [`Work::picks`], in the order of the rule. Called with at
    /// least one candidate and at least one slot.
    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error>;

    /// The terms a score is the weighted sum of, for rules that have several. Such a rule writes the
    /// terms of its picks into [`Work::terms`], pick after pick.
    fn terms(&self) -> Vec<(&'static str, f32)> {
        Vec::new()
    }

    /// Records per chunk, for rules that choose one record of a chunk.
    fn chunk_size(&self) -> Option<usize> {
        None
    }
}

/// Buffers that rules reuse; each uses some of them.
#[derive(Default)]
pub(crate) struct Work {
    /// The chosen candidates.
    pub(crate) picks: Vec<Ranked>,
    pub(crate) scores: Vec<f32>,
    pub(crate) cosines: Vec<f32>,
    pub(crate) query_key: Vec<f32>,
    /// Buffer for half-precision keys during comparison.
    pub(crate) widened: Vec<f32>,
    pub(crate) order: Vec<usize>,
    pub(crate) flags: Vec<bool>,
    pub(crate) poses: Vec<Pose>,
    pub(crate) coverage: Coverage,
    pub(crate) points: PointSet,
    pub(crate) sights: Vec<FrustumSight>,
    pub(crate) rows: Vec<u32>,
    pub(crate) weights: Vec<i64>,
    pub(crate) columns: Vec<usize>,
    pub(crate) assignment: Assignment,
    pub(crate) confidence: Confidence,
    pub(crate) novelty: NoveltyGate,
    pub(crate) terms: Vec<f32>,
    top: TopK,
    chunk_top: ChunkTopK,
    not_a_number: usize,
}

impl Work {
    /// Scores all candidates and picks the best.
    pub(crate) fn rank(&mut self, scores: impl Iterator<Item = f32>, slots: usize) {
        self.scores.clear();
        self.scores.extend(scores);
        self.top(slots);
    }

    /// Appends the candidates with the best `scores`, best first; −∞ is never taken.
    pub(crate) fn top(&mut self, slots: usize) {
        self.top.begin(slots);
        self.scores.iter().enumerate().for_each(|(place, &score)| self.top.push(score, place));
        self.not_a_number += self.top.not_a_number();
        self.picks.extend_from_slice(self.top.finish());
    }

    /// As [`Work::top`], but at most one candidate of each chunk.
    pub(crate) fn chunk_top(&mut self, slots: usize, chunk_size: usize) {
        self.chunk_top.begin(slots, chunk_size);
        let scores = self.scores.iter().enumerate();
        scores.for_each(|(place, &score)| self.chunk_top.push(score, place));
        self.not_a_number += self.chunk_top.not_a_number();
        self.picks.extend_from_slice(self.chunk_top.finish());
    }

    /// Counts NaN scores found outside of [`Work::top`].
    pub(crate) fn add_not_a_number(&mut self, count: usize) {
        self.not_a_number += count;
    }

    /// Writes the cosine of the query embedding with each candidate's key into `cosines`: −∞ for a
    /// candidate without a key.
    ///
    /// # Errors
    /// [`Error::Query`] if the query has no embedding of the cue.
    pub(crate) fn compare_keys(&mut self, scene: &Scene, cue: usize) -> Result<(), Error> {
        let name = &scene.snapshot.schema().cues()[cue].name;
        let Some(embedding) = scene.query.key(name) else {
            let reason = format!("this policy needs a query embedding of cue {name:?}");
            return Err(Error::Query { reason });
        };
        embedding.clone_into(&mut self.query_key);
        normalize(&mut self.query_key);
        scene.compare(cue, &self.query_key, &mut self.widened, &mut self.cosines);
        Ok(())
    }
}

impl Scene<'_> {
    /// The pose to be predicted: the last target.
    pub(crate) fn goal(&self) -> &Pose {
        self.query.goal().expect("a rule that looks at poses is not asked without them")
    }

    /// The poses to be predicted, at least one.
    pub(crate) fn targets(&self) -> &[Pose] {
        self.query.horizon()
    }

    /// Age of a candidate as a fraction of the time since the oldest candidate: 0 is now, 1 is the
    /// oldest. All are 0 if no time has passed.
    pub(crate) fn age(&self, candidate: &Candidate) -> f32 {
        let span = self.query.time - self.candidates[0].time;
        if span > 0.0 { ((self.query.time - candidate.time) / span) as f32 } else { 0.0 }
    }

    /// The index of the key cue with this name, or of the memory's first key cue.
    ///
    /// # Errors
    /// [`Error::UnknownCue`] if the memory has no such cue, [`Error::Query`] if it has no key cue.
    pub(crate) fn key_cue(&self, name: Option<&str>) -> Result<usize, Error> {
        let schema = self.snapshot.schema();
        let wanted = name.map(|name| schema.index(name)).transpose()?;
        let mut keys = schema.keys().map(|(index, ..)| index);
        keys.find(|&index| wanted.is_none_or(|wanted| wanted == index))
            .ok_or_else(|| Error::Query { reason: "this policy needs a cue with keys".to_owned() })
    }

    /// The key of a candidate, if it has one.
    pub(crate) fn key(&self, cue: usize, candidate: &Candidate) -> Option<Keys<'_>> {
        self.snapshot.key(cue, candidate.id.index())
    }

    /// Writes the dot product of `vector` with each candidate's key: −∞ for one without a key.
    pub(crate) fn compare(
        &self,
        cue: usize,
        vector: &[f32],
        widened: &mut Vec<f32>,
        products: &mut Vec<f32>,
    ) {
        refill(products, self.candidates.len(), f32::NEG_INFINITY);
        pulp::Arch::new().dispatch(Compare { scene: self, cue, vector, widened, products });
    }
}

struct Compare<'a> {
    scene: &'a Scene<'a>,
    cue: usize,
    vector: &'a [f32],
    widened: &'a mut Vec<f32>,
    products: &'a mut [f32],
}

impl WithSimd for Compare<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (candidate, product) in self.scene.candidates.iter().zip(self.products) {
            if let Some(key) = self.scene.key(self.cue, candidate) {
                let product = std::slice::from_mut(product);
                cosines(simd, key, self.vector, self.widened, product);
            }
        }
    }
}

/// A rule as a policy: reads the pool, runs the rule and records its picks.
pub(crate) struct RulePolicy<R> {
    id: &'static str,
    summary: &'static str,
    rule: R,
    ball: PointSet,
    pool_cap: Option<usize>,
    /// Names of the terms of a score, in the place of cues.
    cues: Arc<[String]>,
    weights: Vec<f32>,
}

impl<R: Rule> RulePolicy<R> {
    pub(crate) fn new(
        id: &'static str,
        summary: &'static str,
        rule: R,
        pool_cap: Option<usize>,
    ) -> Result<Self, Error> {
        rule.check()?;
        let ball = rule.view().map(ViewConfig::ball).transpose()?.unwrap_or_default();
        let (names, weights): (Vec<_>, Vec<_>) = rule.terms().into_iter().unzip();
        let cues = names.into_iter().map(str::to_owned).collect();
        Ok(Self { id, summary, rule, ball, pool_cap, cues, weights })
    }
}

#[derive(Default)]
struct Buffers {
    candidates: Vec<Candidate>,
    work: Work,
}

impl<R: Rule> RecallPolicy for RulePolicy<R> {
    fn id(&self) -> &str {
        self.id
    }

    fn requirements(&self) -> Requirements {
        self.rule.requirements()
    }

    fn summary(&self) -> String {
        self.summary.to_owned()
    }

    fn recall(
        &self,
        snapshot: &Snapshot,
        query: &RecallQuery,
        slots: usize,
        scratch: &mut Scratch,
        recall: &mut Recall,
    ) -> Result<(), Error> {
        recall.begin(&self.cues);
        query.check(snapshot.schema())?;
        let needs_poses = self.rule.requirements().poses;
        if needs_poses && query.pose.is_none() {
            let reason = format!("rule {:?} looks at poses and the query has none", self.id);
            return Err(Error::Query { reason });
        }
        let cap = [self.pool_cap, query.pool_cap].into_iter().flatten().min();
        let pool = snapshot.pool(&query.pool, cap)?;
        if pool.is_empty() || slots == 0 {
            return Ok(());
        }
        let Buffers { candidates, work } = scratch.get();
        candidates.clear();
        candidates.extend(pool.iter().filter_map(|id| {
            let index = id.index();
            let pose = snapshot.pose(index).or((!needs_poses).then(Pose::default))?;
            Some(Candidate { id, time: snapshot.time(index), pose })
        }));
        if candidates.is_empty() {
            return Ok(());
        }
        work.picks.clear();
        work.terms.clear();
        work.not_a_number = 0;
        let scene = Scene { snapshot, query, candidates, slots, ball: &self.ball };
        self.rule.select(&scene, work)?;
        for (cue, &weight) in self.weights.iter().enumerate() {
            recall.set_weight(cue, weight);
        }
        for (rank, pick) in work.picks.iter().enumerate() {
            let chunk = self.rule.chunk_size().map(|size| (pick.position / size) as u32);
            // Terms are used as they are: nothing is standardized.
            let terms = &work.terms[rank * self.weights.len()..(rank + 1) * self.weights.len()];
            recall.push(candidates[pick.position].id, pick.score, chunk, terms, terms);
        }
        recall.set_not_a_number(work.not_a_number);
        Ok(())
    }
}
