//! The retriever and its loss against PyTorch (`scripts/make_retriever_fixtures.py`).

#[path = "../../far-tensor/tests/fixture/mod.rs"]
mod fixture;

use far_memory::{
    AdapterKind, Cue, Memory, MemoryId, Observation, Pose, Recall, RecallPolicy, RecallQuery,
    RetrieverConfig, Schema, ScorerConfig, Scratch, Snapshot,
};
use far_model::{
    CandidateBatch, CandidatePools, DistillationTarget, Pass, RetrieverBatch,
    RetrieverTrainingConfig, TrainableRetriever, candidate_distillation,
};
use far_tensor::{ArenaBuilder, Checkpoint, Device, Matching, Parameters, Tape};
use fixture::{Fixture, assert_near};
use std::path::Path;

const EXAMPLES: usize = 2;
const RECALLED: usize = 3;

fn config() -> RetrieverConfig {
    let mut config = RetrieverConfig::meta_and_vision(4);
    config.chunk_size = 4;
    if let ScorerConfig::Metadata { layers, width, .. } = &mut config.cues[0].scorer {
        (*layers, *width) = (3, 6);
    }
    config.cues[1].scorer =
        ScorerConfig::Cosine { dimension: 4, adapter: AdapterKind::Residual, adapter_width: 5 };
    config
}

/// The retriever with the parameters that the fixture holds under a prefix.
fn retriever(prefix: &str) -> (TrainableRetriever, Parameters) {
    let mut builder = ArenaBuilder::new("retriever");
    let training = RetrieverTrainingConfig::default();
    let retriever = TrainableRetriever::new(&mut builder, config(), training).unwrap();
    let mut parameters = builder.build(0);
    let path = format!("{}/tests/fixtures/retriever.safetensors", env!("CARGO_MANIFEST_DIR"));
    let mut checkpoint = Checkpoint::open(Path::new(&path)).unwrap();
    checkpoint.load_parameters(prefix, &mut parameters, Matching::Strict).unwrap();
    (retriever, parameters)
}

fn pose(position: &[f32], angles: &[f32]) -> Pose {
    Pose::from_yaw_pitch(position.try_into().unwrap(), angles[0], angles[1])
}

fn memory(fixture: &Fixture) -> Snapshot {
    let column = |name: &str| fixture.tensor(&format!("memory.{name}"));
    let (positions, angles, times) = (column("position"), column("angle"), column("time"));
    let (keys, present) = (column("key"), column("present"));
    let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", 4)]).unwrap();
    let mut memory = Memory::new(schema);
    let rows = positions.values().chunks(3).zip(angles.values().chunks(2));
    for (row, (position, angles)) in rows.enumerate() {
        let time = f64::from(times.values()[row]);
        let mut observation = Observation::new(time, pose(position, angles));
        if present.values()[row] == 1.0 {
            observation = observation.with_key("vision", &keys.values()[4 * row..4 * row + 4]);
        }
        memory.append(&observation).unwrap();
    }
    memory.snapshot()
}

fn query(fixture: &Fixture, example: usize) -> RecallQuery {
    let values = |name: &str| fixture.tensor(&format!("query.{example}.{name}")).values().to_vec();
    let now = pose(&values("position"), &values("angle"));
    let goal = pose(&values("goal"), &values("goal_angle"));
    RecallQuery::new(f64::from(values("time")[0]), now, goal)
        .with_stride(values("stride")[0])
        .with_key("vision", &values("embedding"))
}

fn indices(fixture: &Fixture, name: &str) -> Vec<usize> {
    fixture.tensor(name).values().iter().map(|index| *index as usize).collect()
}

/// The candidates of one example: the recalled are its global pool.
fn candidates(fixture: &Fixture, example: usize) -> (CandidatePools, Vec<f32>) {
    let positions = indices(fixture, &format!("candidate.{example}.positions"));
    let local = indices(fixture, &format!("candidate.{example}.local"));
    let place = |position: &usize| positions.iter().position(|own| own == position).unwrap();
    let pools = CandidatePools {
        ids: positions.iter().map(|position| MemoryId::from(*position)).collect(),
        global: (0..RECALLED).collect(),
        local: local.iter().map(place).collect(),
        positions,
        ..CandidatePools::default()
    };
    let utilities = fixture.tensor(&format!("candidate.{example}.utilities"));
    (pools, utilities.values().to_vec())
}

#[test]
fn scores_loss_and_all_gradients_agree_with_pytorch() {
    let fixture = Fixture::load("retriever");
    let (retriever, parameters) = retriever("parameter.");
    let snapshot = memory(&fixture);
    let queries: Vec<_> = (0..EXAMPLES).map(|example| query(&fixture, example)).collect();
    let examples: Vec<_> = queries.iter().map(|query| (query, &snapshot)).collect();
    let batch = RetrieverBatch::new(retriever.config(), &examples).unwrap();
    let mut tape = Tape::recording(&Device::cpu());
    let scores = retriever.scores(&mut Pass::new(&mut tape, &parameters), &batch).unwrap();

    let present = fixture.tensor("memory.present");
    for example in 0..EXAMPLES {
        let expected = |name: &str| fixture.tensor(&format!("output.{example}.{name}"));
        let row = example * batch.slots()..(example + 1) * batch.slots();
        let near = |name: &str, found: &[f32]| {
            assert_near(name, found, expected(name).values(), 1e-5);
        };
        near("meta", &scores.raw[0].values()[row.clone()]);
        near("weights", &scores.weights.values()[2 * example..2 * example + 2]);
        near("fused", &scores.fused.values()[row.clone()]);
        // Without a key there is no cosine to compare.
        let known = |values: &[f32]| -> Vec<f32> {
            let there = values.iter().zip(present.values()).filter(|(_, there)| **there == 1.0);
            there.map(|(value, _)| *value).collect()
        };
        let vision = expected("vision");
        assert_near("vision", &known(&scores.raw[1].values()[row]), &known(vision.values()), 1e-5);
    }

    let (pools, utilities): (Vec<_>, Vec<_>) =
        (0..EXAMPLES).map(|example| candidates(&fixture, example)).unzip();
    let candidates = CandidateBatch::new(batch.mask(), &pools, &utilities).unwrap();
    let target = DistillationTarget::Posterior;
    let loss = candidate_distillation(&mut tape, &scores, &candidates, target).unwrap();
    assert_near("loss", loss.values(), fixture.tensor("output.loss").values(), 2e-5);

    let mut arena = parameters.gradients();
    tape.backward(&loss, 1.0, &mut [&mut arena]).unwrap();
    let found = parameters.with_values(arena.completed()).unwrap();
    let (_, expected) = self::retriever("gradient.");
    for (name, _) in parameters.named() {
        let [found, wanted] =
            [&found, &expected].map(|arena| arena.tensor(arena.find(name).unwrap()));
        assert_near(name, found.values(), wanted.values(), 1e-4);
    }
}

#[test]
fn recalled_memories_agree_with_pytorch() {
    let fixture = Fixture::load("retriever");
    let (retriever, parameters) = retriever("parameter.");
    let exported = retriever.export(&parameters).unwrap();
    let snapshot = memory(&fixture);
    for example in 0..EXAMPLES {
        let query = query(&fixture, example);
        let mut recall = Recall::new();
        let mut scratch = Scratch::new();
        exported.recall(&snapshot, &query, RECALLED, &mut scratch, &mut recall).unwrap();
        let expected = indices(&fixture, &format!("output.{example}.recalled"));
        assert_eq!(recall.ids().map(|id| id.index()).collect::<Vec<_>>(), expected);
    }
}
