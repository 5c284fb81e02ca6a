//! A retriever in training and its exported file must be one retriever: the same scores, the same
//! weights, the same recalled memories, for any cues, sizes, gaps in the keys and pools.

use far_memory::selection::chunk_top_k_reference;
use far_memory::{
    AdapterKind, Cue, CueConfig, GateConfig, Memory, MemoryId, Observation, Pool, Pose, Recall,
    RecallPolicy, RecallQuery, RetrieverConfig, Schema, ScorerConfig, Scratch, Snapshot,
};
use far_model::{
    AdapterLearning, CueWeighting, RetrieverBatch, RetrieverScores, RetrieverTrainingConfig,
    TrainableRetriever,
};
use far_tensor::{AdamWConfig, ArenaBuilder, Device, Parameters, Random, Tape, Trained};
use proptest::prelude::*;

const NAMES: [&str; 3] = ["meta", "vision", "audio"];
const DIMENSIONS: [usize; 2] = [12, 5];

/// Numbers from one seeded stream.
struct Draw(Random);

impl Draw {
    fn new(seed: u64, purpose: &str) -> Self {
        Self(Random::stream(seed, purpose, 0))
    }

    fn within(&mut self, bound: f32) -> f32 {
        bound * (2.0 * self.0.uniform() - 1.0)
    }

    fn chance(&mut self, probability: f32) -> bool {
        self.0.uniform() < probability
    }

    fn pose(&mut self) -> Pose {
        let position = [1000.0 + self.within(8.0), self.within(8.0), self.within(1.0)];
        Pose::from_yaw_pitch(position, self.within(3.1), self.within(1.2))
    }

    fn key(&mut self, dimension: usize) -> Vec<f32> {
        (0..dimension).map(|_| self.within(1.0) + 0.2).collect()
    }
}

#[derive(Clone, Debug)]
struct Case {
    cues: Vec<usize>,
    layers: usize,
    width: usize,
    adapters: [AdapterKind; 2],
    adapter_width: usize,
    stride_products: bool,
    chunk_size: usize,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let adapter = || {
        prop_oneof![
            Just(AdapterKind::Identity),
            Just(AdapterKind::Network),
            Just(AdapterKind::Residual)
        ]
    };
    let cues = prop_oneof![
        Just(vec![0]),
        Just(vec![1]),
        Just(vec![0, 1]),
        Just(vec![2, 0]),
        Just(vec![1, 2]),
        Just(vec![0, 1, 2]),
        Just(vec![2, 1, 0]),
    ];
    let adapters = [adapter(), adapter()];
    (cues, 2usize..4, 1usize..40, adapters, 1usize..9, any::<bool>(), 1usize..12, any::<u64>())
        .prop_map(
            |(cues, layers, width, adapters, adapter_width, stride_products, chunk_size, seed)| {
                Case {
                    cues,
                    layers,
                    width,
                    adapters,
                    adapter_width,
                    stride_products,
                    chunk_size,
                    seed,
                }
            },
        )
}

fn config(case: &Case) -> RetrieverConfig {
    let cue = |&cue: &usize| {
        let ScorerConfig::Metadata { features, activation, .. } =
            RetrieverConfig::metadata_scorer()
        else {
            unreachable!("a metadata scorer is one")
        };
        let scorer = match cue {
            0 => ScorerConfig::Metadata {
                features,
                activation,
                layers: case.layers,
                width: case.width,
                length_scale: 3.0,
                time_scale: 2.0,
            },
            _ => {
                let adapter = case.adapters[cue - 1];
                let identity = adapter == AdapterKind::Identity;
                ScorerConfig::Cosine {
                    dimension: DIMENSIONS[cue - 1],
                    adapter,
                    adapter_width: if identity { 0 } else { case.adapter_width },
                }
            }
        };
        CueConfig { name: NAMES[cue].to_owned(), scorer }
    };
    RetrieverConfig {
        cues: case.cues.iter().map(cue).collect(),
        chunk_size: case.chunk_size,
        gate: GateConfig { stride_products: case.stride_products, stride_scale: 1.7 },
    }
}

/// A retriever with every parameter drawn anew, also those that begin at zero.
fn trainable(case: &Case, training: RetrieverTrainingConfig) -> (TrainableRetriever, Parameters) {
    let mut builder = ArenaBuilder::new("retriever");
    let retriever = TrainableRetriever::new(&mut builder, config(case), training).expect("valid");
    let mut parameters = builder.build(case.seed);
    let mut draw = Draw::new(case.seed, "parameters");
    for value in parameters.values_mut().expect("no tensor is held") {
        *value = draw.within(0.4);
    }
    (retriever, parameters)
}

/// Records whose keys are sometimes missing and rarely not a number; audio in half precision.
fn memory(records: usize, seed: u64) -> Snapshot {
    let mut draw = Draw::new(seed, "memory");
    let cues = vec![Cue::half_key("audio", 5), Cue::metadata("meta"), Cue::key("vision", 12)];
    let mut memory = Memory::new(Schema::new(cues).expect("a valid schema"));
    for number in 0..records {
        let pose = draw.pose();
        let keys = DIMENSIONS.map(|dimension| {
            let mut key = draw.key(dimension);
            if draw.chance(0.02) {
                key[1] = f32::NAN;
            }
            draw.chance(0.85).then_some(key)
        });
        let mut observation = Observation::new(number as f64 * 0.2, pose);
        for (name, key) in NAMES[1..].iter().zip(&keys) {
            if let Some(key) = key {
                observation = observation.with_key(name, key);
            }
        }
        memory.append(&observation).expect("a valid observation");
    }
    memory.snapshot()
}

/// A query over all records, a range, a list of ids or evenly spaced ones, with gaps in its keys.
fn query(records: usize, number: u64, seed: u64) -> RecallQuery {
    let mut draw = Draw::new(seed ^ (number << 32), "query");
    let (pose, goal) = (draw.pose(), draw.pose());
    let mut query =
        RecallQuery::new(records as f64 * 0.2, pose, goal).with_stride(2.0 + draw.within(2.0));
    for (name, dimension) in NAMES[1..].iter().zip(DIMENSIONS) {
        let key = draw.key(dimension);
        if draw.chance(0.8) {
            query.set_key(name, &key);
        }
    }
    match draw.0.below(4) {
        0 => query,
        1 => query.with_pool(Pool::Range(records / 3..records)),
        2 => query.with_pool(Pool::ids((number as usize..records).step_by(3).map(MemoryId::from))),
        _ => query.with_pool_cap(records / 2),
    }
}

fn scores(
    retriever: &TrainableRetriever,
    parameters: &Parameters,
    batch: &RetrieverBatch,
) -> RetrieverScores {
    let mut tape = Tape::inference(&Device::cpu());
    retriever.scores(&mut tape, parameters, batch).expect("the batch fits")
}

/// What 1e-5 in raw scores may become in the fused ones: each cue is divided by its deviation.
fn amplified(found: &RetrieverScores, batch: &RetrieverBatch, example: usize) -> f32 {
    let (slots, cues) = (batch.slots(), found.raw.len());
    let row = example * slots..(example + 1) * slots;
    let by_cue = (0..cues).map(|cue| {
        let (raw, known) = (&found.raw[cue].values()[row.clone()], &found.standardized[cue]);
        // From s̃ = (s − μ)/(σ + δ) of two records: the divisor.
        let known = &known.values()[row.clone()];
        let spread = |values: &[f32]| {
            let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            largest - values.iter().copied().fold(f32::INFINITY, f32::min)
        };
        let scored: Vec<usize> = (0..slots).filter(|slot| known[*slot] != 0.0).collect();
        let raw: Vec<f32> = scored.iter().map(|slot| raw[*slot]).collect();
        let known: Vec<f32> = scored.iter().map(|slot| known[*slot]).collect();
        if raw.len() < 2 || spread(&raw) == 0.0 { 1.0 } else { spread(&known) / spread(&raw) }
    });
    1e-5 * (1.0 + by_cue.fold(0.0, f32::max))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn training_and_recall_agree(
        case in cases(),
        records in 1usize..300,
        slots in 1usize..9,
        weighting in prop_oneof![Just(CueWeighting::Learned), Just(CueWeighting::Detached)],
    ) {
        let training = RetrieverTrainingConfig { weighting, ..RetrieverTrainingConfig::default() };
        let (retriever, parameters) = trainable(&case, training);
        let exported = retriever.export(&parameters).expect("finite parameters");
        prop_assert_eq!(exported.config(), retriever.config());
        let snapshot = memory(records, case.seed);
        let queries: Vec<_> = (0..3).map(|number| query(records, number, case.seed)).collect();
        let examples: Vec<_> = queries.iter().map(|query| (query, &snapshot)).collect();
        let batch = RetrieverBatch::new(retriever.config(), &examples).expect("the queries fit");
        let found = scores(&retriever, &parameters, &batch);
        for (example, query) in queries.iter().enumerate() {
            let mut recall = Recall::new();
            exported
                .recall(&snapshot, query, slots, &mut Scratch::new(), &mut recall)
                .expect("the query fits");
            let cues = case.cues.len();
            for (cue, weight) in recall.weights().iter().enumerate() {
                let own = found.weights.values()[example * cues + cue];
                prop_assert!((own - weight).abs() < 1e-5, "weights {own} {weight}");
            }
            let row = example * batch.slots()..(example + 1) * batch.slots();
            let mask = &batch.mask().values()[row.clone()];
            let fused: Vec<f32> = found.fused.values()[row.clone()]
                .iter()
                .zip(mask)
                .map(|(score, mask)| if *mask == 0.0 { f32::NEG_INFINITY } else { *score })
                .collect();
            let bound = amplified(&found, &batch, example);
            let chosen = chunk_top_k_reference(&fused, case.chunk_size, slots);
            prop_assert_eq!(recall.len(), chosen.len());
            let pool = snapshot.pool(&query.pool, query.pool_cap).expect("it fits");
            for (recalled, chosen) in recall.iter().zip(chosen) {
                let position = pool.iter().position(|id| id == recalled.id).expect("in the pool");
                let own = fused[position];
                prop_assert!((own - recalled.score).abs() <= bound, "fused {own} {recalled:?}");
                if position != chosen.position {
                    prop_assert!((own - chosen.score).abs() <= 2.0 * bound, "{chosen:?} {recalled:?}");
                }
                for cue in 0..cues {
                    let (raw, known) = (&found.raw[cue], &found.standardized[cue]);
                    let place = row.start + position;
                    if recalled.raw[cue].is_nan() {
                        prop_assert_eq!(known.values()[place], 0.0);
                    } else {
                        let (own, other) = (raw.values()[place], recalled.raw[cue]);
                        prop_assert!((own - other).abs() <= 1e-5, "raw {own} {other}");
                        let (own, other) = (known.values()[place], recalled.standardized[cue]);
                        prop_assert!((own - other).abs() <= bound, "standardized {own} {other}");
                    }
                }
            }
        }
    }
}

fn three_cues() -> Case {
    Case {
        cues: vec![0, 1, 2],
        layers: 2,
        width: 16,
        adapters: [AdapterKind::Residual, AdapterKind::Network],
        adapter_width: 6,
        stride_products: true,
        chunk_size: 4,
        seed: 5,
    }
}

#[test]
fn names_and_shapes_are_those_of_the_file() {
    let (retriever, parameters) = trainable(&three_cues(), RetrieverTrainingConfig::default());
    let mut stored: Vec<_> = parameters
        .stored()
        .map(|(name, shape, _)| (name.to_owned(), shape.extents().to_vec()))
        .collect();
    let mut expected = retriever.config().tensors();
    stored.sort();
    expected.sort();
    assert_eq!(stored, expected);
}

/// The largest gradient of each parameter for a loss that every score has a part in.
fn gradients(training: RetrieverTrainingConfig) -> Vec<(String, f32)> {
    let (retriever, parameters) = trainable(&three_cues(), training);
    let snapshot = memory(40, 5);
    let key = |dimension| Draw::new(9, "key").key(dimension);
    let query = RecallQuery::new(9.0, Draw::new(1, "a").pose(), Draw::new(2, "b").pose())
        .with_stride(1.0)
        .with_key("vision", &key(12))
        .with_key("audio", &key(5));
    let batch = RetrieverBatch::new(retriever.config(), &[(&query, &snapshot)]).expect("it fits");
    let mut tape = Tape::recording(&Device::cpu());
    let found = retriever.scores(&mut tape, &parameters, &batch).expect("it fits");
    let square = tape.multiply(&found.fused, &found.fused).expect("equal shapes");
    let cube = tape.multiply(&square, &found.fused).expect("equal shapes");
    let loss = tape.sum(&cube).expect("a sum");
    let mut gradients = parameters.gradients();
    tape.backward(&loss, 1.0, &mut [&mut gradients]).expect("one loss");
    let flat = gradients.completed().to_vec();
    let arena = parameters.with_values(&flat).expect("as long as the arena");
    arena
        .stored()
        .map(|(name, _, values)| {
            (name.to_owned(), values.iter().fold(0.0, |most: f32, value| most.max(value.abs())))
        })
        .collect()
}

#[test]
fn each_option_stops_what_it_names_and_nothing_else() {
    let learned = gradients(RetrieverTrainingConfig::default());
    assert!(learned.iter().all(|(_, most)| *most > 0.0), "{learned:?}");
    let frozen = RetrieverTrainingConfig {
        adapter: AdapterLearning::Frozen,
        ..RetrieverTrainingConfig::default()
    };
    for (name, most) in gradients(frozen) {
        assert_eq!(most == 0.0, name.contains("adapter"), "{name}: {most}");
    }
    let weighting = |weighting| {
        gradients(RetrieverTrainingConfig { weighting, ..RetrieverTrainingConfig::default() })
    };
    for (name, most) in weighting(CueWeighting::Equal) {
        assert_eq!(most == 0.0, name == "gate.weight", "{name}: {most}");
    }
    let detached = weighting(CueWeighting::Detached);
    for ((name, most), (_, through)) in detached.iter().zip(&learned) {
        assert!(*most > 0.0, "{name}");
        // The gate's own gradient is the same; the scores lose the path through the statistics.
        assert_eq!(most == through, name == "gate.weight", "{name}: {most} {through}");
    }
}

#[test]
fn equal_weights_are_those_of_a_gate_that_never_moved() {
    let case = three_cues();
    let equal = RetrieverTrainingConfig {
        weighting: CueWeighting::Equal,
        ..RetrieverTrainingConfig::default()
    };
    let (retriever, parameters) = trainable(&case, equal);
    let snapshot = memory(30, 5);
    let query = query(30, 1, 5);
    let batch = RetrieverBatch::new(retriever.config(), &[(&query, &snapshot)]).expect("it fits");
    let found = scores(&retriever, &parameters, &batch);
    let available: f32 = batch.available().values().iter().sum();
    for (weight, there) in found.weights.values().iter().zip(batch.available().values()) {
        assert!((weight - there / available).abs() < 1e-6);
    }
}

#[test]
fn empty_pools_and_foreign_batches_are_handled() {
    let case = three_cues();
    let (retriever, parameters) = trainable(&case, RetrieverTrainingConfig::default());
    let snapshot = memory(6, 5);
    let empty = query(6, 1, 5).with_pool(Pool::Range(2..2));
    let full = query(6, 2, 5).with_pool(Pool::All);
    let examples = [(&empty, &snapshot), (&full, &snapshot)];
    let batch = RetrieverBatch::new(retriever.config(), &examples).expect("they fit");
    let found = scores(&retriever, &parameters, &batch);
    assert_eq!(batch.mask().values()[..6], [0.0; 6]);
    assert_eq!(found.fused.values()[..6], [0.0; 6]);
    assert!(found.fused.values().iter().all(|score| score.is_finite()));
    let only = RetrieverBatch::new(retriever.config(), &examples[..1]).expect("it fits");
    assert_eq!((only.examples(), only.slots()), (1, 1));

    assert!(RetrieverBatch::new(retriever.config(), &[]).is_err());
    let other = config(&Case { cues: vec![0], ..case });
    let foreign = RetrieverBatch::new(&other, &examples).expect("they fit");
    let mut tape = Tape::inference(&Device::cpu());
    assert!(retriever.scores(&mut tape, &parameters, &foreign).is_err());
}

#[test]
fn a_bad_key_excludes_its_memory_only_where_the_cue_counts() {
    let case = Case { cues: vec![0, 1], ..three_cues() };
    let config = config(&case);
    let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", 12)]).expect("valid");
    let mut memory = Memory::new(schema);
    let mut append = |key: [f32; 12]| {
        let observation = Observation::new(0.0, Pose::identity()).with_key("vision", &key);
        memory.append(&observation).expect("a valid observation");
        memory.snapshot()
    };
    let spoiled = append([f32::NAN; 12]);
    let mixed = append([1.0; 12]);
    let plain = RecallQuery::new(1.0, Pose::identity(), Pose::identity());
    let seeing = plain.clone().with_key("vision", &[0.5; 12]);
    let mask = |query: &RecallQuery, snapshot: &Snapshot| {
        let batch = RetrieverBatch::new(&config, &[(query, snapshot)]).expect("it fits");
        batch.mask().values().to_vec()
    };
    assert_eq!(mask(&seeing, &mixed), [0.0, 1.0]);
    assert_eq!(mask(&plain, &mixed), [1.0, 1.0]);
    assert_eq!(mask(&seeing, &spoiled), [1.0]);
}

#[test]
fn the_gate_learns_at_its_own_rate() {
    let snapshot = memory(40, 5);
    let query = query(40, 2, 5);
    let moved = |gate_rate: f32| {
        let training = RetrieverTrainingConfig { gate_rate, ..RetrieverTrainingConfig::default() };
        let mut builder = ArenaBuilder::new("retriever");
        let retriever =
            TrainableRetriever::new(&mut builder, config(&three_cues()), training).expect("valid");
        let mut trained = Trained::new(builder.build(1), AdamWConfig::default());
        let batch =
            RetrieverBatch::new(retriever.config(), &[(&query, &snapshot)]).expect("it fits");
        trained
            .step(&Device::cpu(), 1, |tape, parameters, _| {
                let scores = retriever.scores(tape, parameters, &batch)?;
                let square = tape.multiply(&scores.fused, &scores.fused)?;
                let cube = tape.multiply(&square, &scores.fused)?;
                tape.sum(&cube)
            })
            .expect("a finite step");
        let gate = trained.parameters.find("gate.weight").expect("three cues have a gate");
        trained.parameters.tensor(gate).values().to_vec()
    };
    let (slow, fast) = (moved(1.0), moved(20.0));
    assert!(slow.iter().any(|weight| *weight != 0.0));
    for (slow, fast) in slow.iter().zip(&fast) {
        assert!((20.0 * slow - fast).abs() <= 1e-6 * fast.abs(), "{slow} {fast}");
    }
    let mut builder = ArenaBuilder::new("retriever");
    let training = RetrieverTrainingConfig { gate_rate: f32::NAN, ..Default::default() };
    assert!(TrainableRetriever::new(&mut builder, config(&three_cues()), training).is_err());
}
