//! Random memories for the tests of the rules.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::RecallPolicy;
use super::rule::{Candidate, Rule, RulePolicy};
use crate::selection::{Ranked, chunk_top_k_reference};
use crate::{
    Cue, Memory, MemoryId, Observation, Pose, Recall, RecallQuery, Schema, Scratch, Snapshot,
};

/// A memory, a query over all of it, and the records as plain values.
#[derive(Clone)]
pub(crate) struct Episode {
    snapshot: Snapshot,
    query: RecallQuery,
    candidates: Vec<Candidate>,
    keys: Vec<Option<Vec<f32>>>,
}

impl std::fmt::Debug for Episode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} {:?} {:?}", self.query, self.candidates, self.keys)
    }
}

/// A pose, in coarse steps so that equal poses and equal scores come up.
pub(crate) fn poses() -> impl Strategy<Value = Pose> {
    (-8i32..8, -8i32..8, 0i32..4, 0i32..12, -2i32..3).prop_map(|(x, y, z, yaw, pitch)| {
        let position = [x as f32, y as f32, 0.5 * z as f32];
        Pose::from_yaw_pitch(position, (yaw as f32 * 30.0 + 1.0).to_radians(), pitch as f32 * 0.25)
    })
}

/// Keys of dimension 3, some missing, many equal.
fn keys() -> impl Strategy<Value = Option<Vec<f32>>> {
    let number = (-2i32..3).prop_map(|value| value as f32);
    prop::option::weighted(0.8, prop::collection::vec(number, 3))
}

/// Episodes of 1 to 40 records with a horizon of 1 to 6 poses.
pub(crate) fn episodes() -> impl Strategy<Value = Episode> {
    let records = prop::collection::vec((poses(), keys()), 1..40);
    (records, prop::collection::vec(poses(), 1..7), any::<u64>())
        .prop_map(|(records, horizon, seed)| Episode::new(&records, &horizon).with_seed(seed))
}

impl Episode {
    pub(crate) fn new(records: &[(Pose, Option<Vec<f32>>)], horizon: &[Pose]) -> Self {
        let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", 3)]);
        let mut memory = Memory::new(schema.expect("valid"));
        let mut candidates = Vec::new();
        for (index, (pose, key)) in records.iter().enumerate() {
            let time = 0.25 * index as f64;
            let mut observation = Observation::new(time, *pose);
            if let Some(key) = key {
                observation = observation.with_key("vision", key);
            }
            memory.append(&observation).expect("valid");
            candidates.push(Candidate { id: MemoryId::from(index), time, pose: *pose });
        }
        let goal = *horizon.last().expect("a target");
        let query = RecallQuery::new(0.25 * records.len() as f64, horizon[0], goal)
            .with_horizon(horizon)
            .with_key("vision", &[1.0, 0.5, -0.25]);
        let keys = records.iter().map(|record| record.1.clone()).collect();
        Self { snapshot: memory.snapshot(), query, candidates, keys }
    }

    /// Records one meter apart on a line east, looking ahead, and the goal one meter further.
    pub(crate) fn walk(records: usize) -> Self {
        let at = |x: usize| Pose::from_yaw_pitch([x as f32, 0.0, 1.6], 0.0, 0.0);
        let records: Vec<_> = (0..records).map(|x| (at(x), Some(vec![1.0, 0.0, 0.0]))).collect();
        Self::new(&records, &[at(records.len())])
    }

    pub(crate) fn with_seed(mut self, seed: u64) -> Self {
        self.query.seed = seed;
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.candidates.len()
    }

    pub(crate) fn seed(&self) -> u64 {
        self.query.seed
    }

    pub(crate) fn now(&self) -> f64 {
        self.query.time
    }

    pub(crate) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    pub(crate) fn horizon(&self) -> &[Pose] {
        self.query.horizon()
    }

    pub(crate) fn goal(&self) -> Pose {
        *self.query.goal().expect("a goal")
    }

    /// The cosine of a record's key with a vector; `None` without a key, 0 for a zero key.
    pub(crate) fn cosine(&self, index: usize, vector: &[f32]) -> Option<f32> {
        let key = self.keys[index].as_ref()?;
        let norm = |values: &[f32]| values.iter().map(|v| v * v).sum::<f32>().sqrt();
        let dot: f32 = key.iter().zip(vector).map(|(a, b)| a * b).sum();
        // The bound is on the product: that of two bounds would round to zero, and 0 / 0 is no cosine.
        Some(dot / (norm(key) * norm(vector)).max(1e-30))
    }

    /// The key of a record as it was given.
    pub(crate) fn key(&self, index: usize) -> Option<&[f32]> {
        self.keys[index].as_deref()
    }

    /// The query embedding.
    pub(crate) fn query_key(&self) -> &[f32] {
        self.query.key("vision").expect("there is one")
    }

    /// What a rule picks, by rank. Runs twice with the same buffers, which must not matter.
    pub(crate) fn picks<R: Rule + Clone>(&self, rule: &R, slots: usize) -> Vec<Ranked> {
        let policy = RulePolicy::new("test", "", rule.clone(), None).expect("valid");
        let (mut scratch, mut recall) = (Scratch::new(), Recall::new());
        let mut run = || {
            policy
                .recall(&self.snapshot, &self.query, slots, &mut scratch, &mut recall)
                .expect("a valid query");
            recall
                .iter()
                .map(|memory| Ranked { score: memory.score, position: memory.id.index() })
                .collect::<Vec<_>>()
        };
        let first = run();
        assert_eq!(first, run());
        first
    }

    /// The positions a rule picks, by rank.
    pub(crate) fn chosen<R: Rule + Clone>(&self, rule: &R, slots: usize) -> Vec<usize> {
        self.picks(rule, slots).iter().map(|pick| pick.position).collect()
    }
}

/// Checks picks against reference scores that may differ by rounding: each rank must have the
/// score that sorting gives it, and that score must be the picked record's own.
pub(crate) fn assert_ranked(
    scores: &[f32],
    picks: &[Ranked],
    slots: usize,
    tolerance: f32,
) -> Result<(), TestCaseError> {
    let expected = chunk_top_k_reference(scores, 1, slots);
    prop_assert_eq!(expected.len(), picks.len());
    for (pick, expected) in picks.iter().zip(&expected) {
        prop_assert!((pick.score - expected.score).abs() <= tolerance, "{picks:?} {expected:?}");
        prop_assert!(
            (pick.score - scores[pick.position]).abs() <= tolerance,
            "{picks:?} {scores:?}"
        );
    }
    let mut positions: Vec<_> = picks.iter().map(|pick| pick.position).collect();
    positions.sort_unstable();
    positions.dedup();
    prop_assert_eq!(positions.len(), picks.len());
    Ok(())
}
