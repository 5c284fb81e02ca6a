//! Training that recalls sets: what is asked in a step, and that the set learns.

use far_data::TrainingSampler;
use far_model::{LatentShape, WorldModel};
use far_tensor::Device;
use far_train::{
    ArmTraining, Credit, Example, PreparedData, Question, TrainConfig, TrainingLoop, synthetic,
};

const SHAPE: LatentShape = LatentShape { channels: 2, height: 4, width: 4, patch: 2 };

/// A small training of far-meta on walks around circles.
fn prepared(folder: &std::path::Path, selection: &str) -> PreparedData {
    let data = format!("data.folder={:?}", folder.join("data").to_string_lossy());
    let selection = format!("retriever.selection={selection}");
    let sets = [
        data.as_str(),
        selection.as_str(),
        "retriever.credit=marginal",
        "tokenizer.kind=precomputed",
        "arm.id=far-meta",
        "world_model.depth=2",
        "world_model.width=16",
        "world_model.heads=2",
        "data.batch=16",
        "data.pool=20",
        "data.horizon=6",
        "retriever.queries=16",
        "retriever.interval=1",
        "retriever.extra_candidates=2",
        "retriever.chunk_size=4",
        "utility.levels=1",
        "training.steps=8",
    ];
    let config = TrainConfig::resolve("default", &sets).unwrap();
    if !folder.join("data").exists() {
        synthetic::write(&config, SHAPE, &folder.join("data"), [40, 20]).unwrap();
    }
    std::fs::create_dir_all(folder.join(&selection)).unwrap();
    PreparedData::open(&config, &folder.join(&selection), &Device::cpu(), &mut |_| {}).unwrap()
}

/// Ten examples with memories enough for every slot.
fn examples(prepared: &PreparedData) -> Vec<Example> {
    let sampling = prepared.config().data.sampling(3);
    let sampler = TrainingSampler::new(prepared.data().dataset(), sampling).unwrap();
    let drawn = (0..4).flat_map(|step| Example::draw(&sampler, prepared.data(), step).unwrap());
    let many = |example: &Example| {
        let memory = example.query.episode().memory();
        memory.pool(&example.recall.pool, None).unwrap().len() >= 10
    };
    let examples: Vec<Example> = drawn.filter(many).take(10).collect();
    assert_eq!(examples.len(), 10);
    examples
}

fn credit<'a>(
    prepared: &'a PreparedData,
    model: &'a dyn WorldModel,
    device: &'a Device,
) -> Credit<'a> {
    let config = &prepared.config().utility;
    Credit { model, config, weights: None, device, slots: 3, seed: 0 }
}

#[test]
fn every_example_is_asked_first_and_one_in_eight_about_a_later_slot() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = prepared(folder.path(), "learned");
    let (training, device) = (ArmTraining::new(&prepared).unwrap(), Device::cpu());
    let drawn = examples(&prepared);
    let examples: Vec<&Example> = drawn.iter().collect();
    let credit = credit(&prepared, training.joint().model(), &device);
    let retriever = &training.joint().retrievers()[0];
    let questions = retriever.questions(&examples, &credit);
    let rows = |later: bool| {
        let own = questions.iter().filter(|question| question.later == later);
        own.map(|question| question.row).collect::<Vec<_>>()
    };
    assert_eq!((rows(false), rows(true)), ((0..10).collect(), vec![0, 8]));
    for step in 0..20 {
        let pools = retriever.candidates(&questions, &credit, step).unwrap();
        for (pools, question) in pools.iter().zip(&questions) {
            assert_eq!(pools.taken.is_empty(), !question.later);
            assert!(pools.taken.len() < 3 && pools.global.len() >= 3);
        }
    }
    // One slot has none after it.
    let one = Credit { slots: 1, ..credit };
    assert!(!retriever.questions(&examples, &one).iter().any(|question| question.later));
}

/// ℓ(S) − ℓ(S ∪ {i}) of each candidate by itself, against the batch of all; for the first slot also ℓ(∅).
#[test]
fn credit_is_what_a_memory_adds_whatever_else_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = prepared(folder.path(), "abstaining");
    let (training, device) = (ArmTraining::new(&prepared).unwrap(), Device::cpu());
    let drawn = examples(&prepared);
    let examples: Vec<&Example> = drawn.iter().collect();
    let credit = credit(&prepared, training.joint().model(), &device);
    let retriever = &training.joint().retrievers()[0];
    let questions: Vec<Question<'_>> = retriever.questions(&examples[..1], &credit);
    assert_eq!(questions.len(), 2);
    let pools = retriever.candidates(&questions, &credit, 5).unwrap();
    let together = credit.utilities(&questions, &pools, 5).unwrap();
    for (place, pools) in pools.iter().enumerate() {
        let alone = std::slice::from_ref(pools);
        let alone = credit.utilities(&questions[place..=place], alone, 5).unwrap();
        assert_eq!(pools.empty, pools.taken.is_empty());
        let count = pools.ids.len() + usize::from(pools.empty);
        assert_eq!(alone.values[0].len(), count, "the empty memory's is the last");
        for (one, other) in alone.values[0].iter().zip(&together.values[place]) {
            assert!((one - other).abs() < 1e-3 * (1.0 + one.abs()), "{one} {other}");
        }
    }
}

#[test]
fn an_example_with_foreign_memories_asks_about_the_same_frames() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = prepared(folder.path(), "abstaining");
    let drawn = examples(&prepared);
    let own = &drawn[0];
    let id = |example: &Example| example.query.episode().id();
    let other = drawn.iter().find(|other| id(other) != id(own)).expect("two episodes");
    let abroad = own.with_memories_of(other).unwrap();
    let frames = |example: &Example| {
        let (query, episode) = (&example.query, example.query.episode());
        [query.now(), query.goal()]
            .map(|frame| (episode.latent(frame).to_vec(), episode.times()[frame]))
    };
    assert_eq!(frames(own), frames(&abroad));
    let pool = other.query.episode().memory().pool(&other.recall.pool, None).unwrap();
    let all = abroad.query.episode().memory();
    assert_eq!(all.pool(&abroad.recall.pool, None).unwrap().len(), pool.len());
    for (place, id) in pool.iter().enumerate() {
        let (here, there) = (abroad.query.episode(), other.query.episode());
        assert_eq!(here.latent(place), there.latent(id.index()));
        assert_eq!(all.pose(place), there.memory().pose(id.index()));
    }
}

/// Where memories are foreign, those that would be recalled teach what they are worth, and nothing else.
#[test]
fn foreign_memories_compete_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = prepared(folder.path(), "abstaining");
    let (training, device) = (ArmTraining::new(&prepared).unwrap(), Device::cpu());
    let drawn = examples(&prepared);
    let credit = credit(&prepared, training.joint().model(), &device);
    let retriever = &training.joint().retrievers()[0];
    let id = |example: &Example| example.query.episode().id();
    let other = drawn.iter().find(|other| id(other) != id(&drawn[0])).expect("two episodes");
    let abroad = drawn[0].with_memories_of(other).unwrap();
    let [own, foreign] = [false, true].map(|foreign| {
        let asked = Question { example: &abroad, row: 0, later: false, foreign };
        retriever.candidates(&[asked], &credit, 1).unwrap().remove(0)
    });
    assert!(foreign.foreign && foreign.empty && !own.foreign);
    assert_eq!((foreign.ids.len(), foreign.relations.len()), (3, 3));
    assert_eq!(own.ids[..3], foreign.ids[..]);
    assert!(own.ids.len() > 3);
}

#[test]
fn the_set_term_and_worth_learn() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = prepared(folder.path(), "abstaining");
    let mut training = ArmTraining::new(&prepared).unwrap();
    let set = |training: &ArmTraining<'_>| -> Vec<(String, Vec<f32>)> {
        let policy = training.joint().retrievers()[0].policy().clone();
        let own = policy.tensors().into_iter().filter(|(name, ..)| name.starts_with("set."));
        own.map(|(name, _, values)| (name, values.to_vec())).collect()
    };
    let before = set(&training);
    for _ in 0..8 {
        training.step().unwrap();
    }
    for ((name, before), (_, after)) in before.iter().zip(set(&training)) {
        assert_ne!(*before, after, "{name}");
        assert!(after.iter().all(|value| value.is_finite()));
    }
}
