//! Random retrievers, memories and queries.

use far_memory::{
    AdapterKind, Cue, CueConfig, GateConfig, Memory, MemoryId, Observation, Pool, Pose,
    RecallQuery, RetrieverConfig, Schema, ScorerConfig, SetConfig, Snapshot,
};
use far_model::{
    Pass, RetrieverBatch, RetrieverScores, RetrieverTrainingConfig, TrainableRetriever,
};
use far_tensor::{ArenaBuilder, Device, Parameters, Random, Tape};
use proptest::prelude::*;

pub const NAMES: [&str; 3] = ["meta", "vision", "audio"];
pub const DIMENSIONS: [usize; 2] = [12, 5];

/// Numbers from one seeded stream.
pub struct Draw(Random);

impl Draw {
    pub fn new(seed: u64, purpose: &str) -> Self {
        Self(Random::stream(seed, purpose, 0))
    }

    pub fn within(&mut self, bound: f32) -> f32 {
        bound * (2.0 * self.0.uniform() - 1.0)
    }

    pub fn chance(&mut self, probability: f32) -> bool {
        self.0.uniform() < probability
    }

    pub fn pose(&mut self) -> Pose {
        let position = [1000.0 + self.within(8.0), self.within(8.0), self.within(1.0)];
        Pose::from_yaw_pitch(position, self.within(3.1), self.within(1.2))
    }

    pub fn key(&mut self, dimension: usize) -> Vec<f32> {
        (0..dimension).map(|_| self.within(1.0) + 0.2).collect()
    }
}

#[derive(Clone, Debug)]
pub struct Case {
    pub cues: Vec<usize>,
    pub layers: usize,
    pub width: usize,
    pub adapters: [AdapterKind; 2],
    pub adapter_width: usize,
    pub stride_products: bool,
    pub chunk_size: usize,
    pub seed: u64,
    /// Whether it recalls sets, and then whether it abstains.
    pub sets: Option<bool>,
}

pub fn cases() -> impl Strategy<Value = Case> {
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
                    sets: None,
                }
            },
        )
}

pub fn config(case: &Case) -> RetrieverConfig {
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
        set: case.sets.map(|abstains| SetConfig {
            length_scale: 2.0,
            time_scale: 3.0,
            key: case.cues.iter().find(|cue| **cue > 0).map(|cue| NAMES[*cue].to_owned()),
            abstains,
        }),
    }
}

/// A retriever with every parameter drawn anew, also those that begin at zero.
pub fn trainable(
    case: &Case,
    training: RetrieverTrainingConfig,
) -> (TrainableRetriever, Parameters) {
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
pub fn memory(records: usize, seed: u64) -> Snapshot {
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
pub fn query(records: usize, number: u64, seed: u64) -> RecallQuery {
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

pub fn three_cues() -> Case {
    Case {
        cues: vec![0, 1, 2],
        layers: 2,
        width: 16,
        adapters: [AdapterKind::Residual, AdapterKind::Network],
        adapter_width: 6,
        stride_products: true,
        chunk_size: 4,
        seed: 5,
        sets: None,
    }
}

pub fn scores(
    retriever: &TrainableRetriever,
    parameters: &Parameters,
    batch: &RetrieverBatch,
) -> RetrieverScores {
    let mut tape = Tape::inference(&Device::cpu());
    retriever.scores(&mut Pass::new(&mut tape, parameters), batch).expect("the batch fits")
}
