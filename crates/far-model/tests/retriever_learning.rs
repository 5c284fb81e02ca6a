//! The whole of a retriever step, repeated: credit from a hidden rule teaches recall that rule, and
//! the gate to distrust a cue that says nothing.

use far_memory::{
    Cue, Memory, MemoryId, Observation, Pose, Recall, RecallPolicy, RecallQuery, RetrieverConfig,
    Schema, ScorerConfig, Scratch, Snapshot,
};
use far_model::{
    CandidateBatch, CandidatePools, DistillationTarget, Pass, PoolDraw, RetrieverBatch,
    RetrieverHealth, RetrieverTrainingConfig, TrainableRetriever, candidate_distillation,
};
use far_tensor::{AdamWConfig, ArenaBuilder, Device, Random, Trained};

const RECORDS: usize = 80;
const KEY: usize = 8;
const RECALLED: usize = 3;
const BATCH: usize = 12;
const UPDATES: u64 = 150;

struct Draw(Random);

impl Draw {
    fn new(purpose: &str, step: u64) -> Self {
        Self(Random::stream(11, purpose, step))
    }

    fn within(&mut self, bound: f32) -> f32 {
        bound * (2.0 * self.0.uniform() - 1.0)
    }

    fn pose(&mut self) -> Pose {
        Pose::from_yaw_pitch([self.within(8.0), self.within(8.0), 0.0], self.within(3.1), 0.0)
    }

    /// A key that knows nothing of the pose it was seen from.
    fn key(&mut self) -> [f32; KEY] {
        std::array::from_fn(|_| self.within(1.0))
    }
}

fn memory() -> Snapshot {
    let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", KEY)]);
    let mut memory = Memory::new(schema.expect("a valid schema"));
    let mut draw = Draw::new("memory", 0);
    for number in 0..RECORDS {
        let (pose, key) = (draw.pose(), draw.key());
        let observation = Observation::new(number as f64, pose).with_key("vision", &key);
        memory.append(&observation).expect("a valid observation");
    }
    memory.snapshot()
}

fn queries(purpose: &str, step: u64) -> Vec<RecallQuery> {
    let mut draw = Draw::new(purpose, step);
    let mut query = || {
        RecallQuery::new(RECORDS as f64, draw.pose(), draw.pose())
            .with_stride(1.0)
            .with_key("vision", &draw.key())
    };
    (0..BATCH).map(|_| query()).collect()
}

/// The hidden rule: a memory near the goal is worth more, in nats.
fn utility(query: &RecallQuery, memory: &Snapshot, id: MemoryId) -> f32 {
    -0.7 * query.goal().unwrap().distance(&memory.pose(id.index()).unwrap())
}

/// Mean utility of what is recalled: 1 for the best chunk representatives, 0 for chance.
fn quality(policy: &impl RecallPolicy, config: &RetrieverConfig, memory: &Snapshot) -> f32 {
    let (mut found, mut chance, mut best) = (0.0, 0.0, 0.0);
    for query in queries("test", 0) {
        let mut recall = Recall::new();
        policy.recall(memory, &query, RECALLED, &mut Scratch::new(), &mut recall).expect("fits");
        let all: Vec<f32> =
            (0..RECORDS).map(|index| utility(&query, memory, MemoryId::from(index))).collect();
        found += recall.ids().map(|id| all[id.index()]).sum::<f32>() / RECALLED as f32;
        chance += all.iter().sum::<f32>() / RECORDS as f32;
        let mut chunks: Vec<f32> = all
            .chunks(config.chunk_size)
            .map(|chunk| chunk.iter().copied().fold(f32::NEG_INFINITY, f32::max))
            .collect();
        chunks.sort_by(|a, b| b.total_cmp(a));
        best += chunks[..RECALLED].iter().sum::<f32>() / RECALLED as f32;
    }
    (found - chance) / (best - chance)
}

#[test]
fn recall_learns_from_credit_which_memories_and_which_cue_to_trust() {
    let memory = memory();
    let mut config = RetrieverConfig::meta_and_vision(KEY);
    config.chunk_size = 5;
    if let ScorerConfig::Metadata { width, .. } = &mut config.cues[0].scorer {
        *width = 32;
    }
    let mut builder = ArenaBuilder::new("retriever");
    let training = RetrieverTrainingConfig::default();
    let retriever = TrainableRetriever::new(&mut builder, config.clone(), training).expect("valid");
    let optimizer = AdamWConfig { learning_rate: 3e-3, warm_up: 10, ..AdamWConfig::default() };
    let mut trained = Trained::new(builder.build(1), optimizer);
    let target = DistillationTarget::Posterior;
    let untrained = retriever.export(&trained.parameters).expect("finite");
    let before = quality(&untrained, &config, &memory);

    let mut health = Vec::new();
    for update in 0..UPDATES {
        let queries = queries("training", update);
        let policy = retriever.export(&trained.parameters).expect("finite");
        let mut random = Random::stream(11, "candidates", update);
        let (mut pools, mut utilities) = (Vec::new(), Vec::new());
        for query in &queries {
            let mut recall = Recall::new();
            policy
                .recall(&memory, query, RECALLED, &mut Scratch::new(), &mut recall)
                .expect("the query fits");
            let pool = memory.pool(&query.pool, None).expect("everything");
            let draw = PoolDraw { chunk_size: config.chunk_size, ..PoolDraw::default() };
            let drawn = CandidatePools::draw(&recall, &[], &pool, &draw, &mut random);
            let drawn = drawn.expect("recalled from this pool");
            let credit = |id: &MemoryId| utility(query, &memory, *id);
            utilities.push(drawn.ids.iter().map(credit).collect::<Vec<f32>>());
            pools.push(drawn);
        }
        let examples: Vec<_> = queries.iter().map(|query| (query, &memory)).collect();
        let batch = RetrieverBatch::new(retriever.config(), &examples).expect("they fit");
        let candidates = CandidateBatch::new(batch.mask(), &pools, &utilities).expect("they fit");
        trained
            .step(&Device::cpu(), 1, |tape, parameters, _| {
                let scores = retriever.scores(&mut Pass::new(tape, parameters), &batch)?;
                health.push(RetrieverHealth::measure(&scores, &candidates, target)?);
                candidate_distillation(tape, &scores, &candidates, target)
            })
            .expect("a finite step");
    }

    let learned = retriever.export(&trained.parameters).expect("finite");
    let after = quality(&learned, &config, &memory);
    assert!(before < 0.4 && after > 0.8, "recall quality {before} became {after}");
    let mean = |part: &[RetrieverHealth], of: fn(&RetrieverHealth) -> f64| {
        part.iter().map(of).sum::<f64>() / part.len() as f64
    };
    let (first, last) = (&health[..20], &health[health.len() - 20..]);
    let correlation =
        |health: &RetrieverHealth| health.local.expect("five candidates").rank_correlation;
    let (early, late) = (mean(first, correlation), mean(last, correlation));
    assert!(late > 0.6 && late > early, "rank correlation {early} became {late}");
    let trust = mean(last, |health| health.weights[0]);
    assert!(trust > 0.7, "the cue that knows has weight {trust}");
}
