//! A memory so small that every set of K memories can be enumerated, and a retriever over it.

use far_memory::{
    AdapterKind, Cue, CueConfig, Memory, MemoryId, Observation, Pose, RecallQuery, RetrieverConfig,
    Schema, ScorerConfig, SetConfig, Snapshot,
};
use far_model::{
    CandidatePools, Pass, RetrieverBatch, RetrieverScores, RetrieverTrainingConfig,
    TrainableRetriever,
};
use far_tensor::{ArenaBuilder, Device, Parameters, Random, Result, Tape, Tensor};

/// Memories in the toy.
pub const RECORDS: usize = 6;
/// Memories in a recalled set.
pub const RECALLED: usize = 2;

/// A retriever with drawn parameters and one query.
pub struct Toy {
    pub retriever: TrainableRetriever,
    pub parameters: Parameters,
    pub batch: RetrieverBatch,
    pub query: RecallQuery,
    pub memory: Snapshot,
}

/// Numbers in ±1 of a seeded stream.
pub fn drawn(count: usize, seed: u64, purpose: &str) -> Vec<f32> {
    let mut values = vec![0.0; count];
    Random::stream(seed, purpose, 0).fill_uniform(&mut values, -1.0, 1.0);
    values
}

fn pose(numbers: &[f32]) -> Pose {
    let position = [5.0 * numbers[0], 5.0 * numbers[1], 0.0];
    Pose::from_yaw_pitch(position, 3.0 * numbers[2], 0.5 * numbers[3])
}

fn config(cues: usize) -> RetrieverConfig {
    let mut config = RetrieverConfig::meta_and_vision(3);
    if let ScorerConfig::Metadata { width, .. } = &mut config.cues[0].scorer {
        *width = 8;
    }
    config.cues[1].scorer =
        ScorerConfig::Cosine { dimension: 3, adapter: AdapterKind::Residual, adapter_width: 4 };
    let scorer =
        ScorerConfig::Cosine { dimension: 2, adapter: AdapterKind::Identity, adapter_width: 0 };
    config.cues.push(CueConfig { name: "audio".to_owned(), scorer });
    config.cues.truncate(cues);
    config
}

impl Toy {
    /// A retriever with this many cues: time and pose, then vision, then audio.
    pub fn new(cues: usize, training: RetrieverTrainingConfig, seed: u64) -> Self {
        Self::of(config(cues), training, seed)
    }

    /// A retriever of time, pose and vision that recalls sets and may abstain.
    pub fn with_sets(seed: u64) -> Self {
        let key = Some("vision".to_owned());
        let set = SetConfig { length_scale: 4.0, time_scale: 2.0, key, abstains: true };
        let config = RetrieverConfig { set: Some(set), ..config(2) };
        Self::of(config, RetrieverTrainingConfig::default(), seed)
    }

    fn of(config: RetrieverConfig, training: RetrieverTrainingConfig, seed: u64) -> Self {
        let all = vec![Cue::metadata("meta"), Cue::key("vision", 3), Cue::key("audio", 2)];
        let mut memory = Memory::new(Schema::new(all).expect("a valid schema"));
        for number in 0..RECORDS {
            let numbers = drawn(9, seed + number as u64, "record");
            let observation = Observation::new(number as f64, pose(&numbers))
                .with_key("vision", &numbers[4..7])
                .with_key("audio", &numbers[7..]);
            memory.append(&observation).expect("a valid observation");
        }
        let numbers = drawn(13, seed, "query");
        let query = RecallQuery::new(9.0, pose(&numbers), pose(&numbers[4..]))
            .with_stride(1.5)
            .with_key("vision", &numbers[8..11])
            .with_key("audio", &numbers[11..]);
        let mut builder = ArenaBuilder::new("retriever");
        let retriever = TrainableRetriever::new(&mut builder, config, training).expect("valid");
        let mut parameters = builder.build(seed);
        let values = parameters.values_mut().expect("no tensor is held");
        Random::stream(seed, "parameters", 0).fill_uniform(values, -0.6, 0.6);
        let batch = RetrieverBatch::new(retriever.config(), &[(&query, &memory.snapshot())])
            .expect("the query fits");
        Self { retriever, parameters, batch, query, memory: memory.snapshot() }
    }

    /// All memories but the taken ones as the candidates for the slot after them, measured beside the empty
    /// memory.
    pub fn candidates(&self, taken: &[usize]) -> CandidatePools {
        let positions: Vec<usize> = (0..RECORDS).filter(|place| !taken.contains(place)).collect();
        let mut pools = CandidatePools {
            ids: positions.iter().map(|place| MemoryId::from(*place)).collect(),
            global: (0..positions.len()).collect(),
            competing: positions.len(),
            positions,
            taken: taken.iter().map(|place| MemoryId::from(*place)).collect(),
            empty: true,
            ..CandidatePools::default()
        };
        pools.compare(self.retriever.config(), &self.query, &self.memory).expect("it fits");
        pools
    }

    /// Scores without gradients.
    pub fn scores(&self) -> RetrieverScores {
        let mut tape = Tape::inference(&Device::cpu());
        self.retriever
            .scores(&mut Pass::new(&mut tape, &self.parameters), &self.batch)
            .expect("the batch fits")
    }

    /// The gradient of a loss by all parameters.
    pub fn gradient(
        &self,
        loss: impl FnOnce(&mut Tape, &RetrieverScores) -> Result<Tensor>,
    ) -> Vec<f64> {
        let mut tape = Tape::recording(&Device::cpu());
        let scores = self
            .retriever
            .scores(&mut Pass::new(&mut tape, &self.parameters), &self.batch)
            .expect("it fits");
        let loss = loss(&mut tape, &scores).expect("a loss");
        let mut gradients = self.parameters.gradients();
        tape.backward(&loss, 1.0, &mut [&mut gradients]).expect("one loss");
        gradients.completed().iter().map(|slope| f64::from(*slope)).collect()
    }

    /// The toy after a plain step down a gradient.
    pub fn moved(mut self, gradient: &[f64], rate: f64) -> Self {
        let values = self.parameters.values_mut().expect("no tensor is held");
        for (value, slope) in values.iter_mut().zip(gradient) {
            *value -= (rate * slope) as f32;
        }
        self
    }
}

/// All sets of K memories.
pub fn sets() -> Vec<Vec<usize>> {
    (0..1usize << RECORDS)
        .map(|bits| (0..RECORDS).filter(|place| bits >> place & 1 == 1).collect::<Vec<_>>())
        .filter(|set| set.len() == RECALLED)
        .collect()
}

/// The score of every set, [1, sets]: the sum of its memories' scores.
pub fn set_scores(tape: &mut Tape, fused: &Tensor) -> Result<Tensor> {
    let sets = sets();
    let mut members = vec![0.0; RECORDS * sets.len()];
    for (column, set) in sets.iter().enumerate() {
        set.iter().for_each(|row| members[row * sets.len() + column] = 1.0);
    }
    let members = Tensor::from_slice(&members, [RECORDS, sets.len()])?;
    tape.linear(fused, &members, None)
}

/// exp(x)/Σexp(x).
pub fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
    scores.iter().map(|score| (score - largest).exp() / total).collect()
}

/// KL(q ‖ p).
pub fn divergence(q: &[f64], p: &[f64]) -> f64 {
    q.iter().zip(p).map(|(q, p)| if *q == 0.0 { 0.0 } else { q * (q / p).ln() }).sum()
}

/// The recall distribution over all sets, from scores of memories.
pub fn recall_distribution(fused: &[f32]) -> Vec<f64> {
    let score = |set: &Vec<usize>| set.iter().map(|place| f64::from(fused[*place])).sum();
    softmax(&sets().iter().map(score).collect::<Vec<f64>>())
}

/// A row of data.
pub fn row(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, [1, values.len()]).expect("as many")
}

/// The largest size of any element.
pub fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most: f64, value| most.max(value.abs()))
}

/// Fails unless two gradients agree within single precision and are not zero.
pub fn assert_same(found: &[f64], expected: &[f64]) {
    let scale = largest(expected);
    assert!(scale > 1e-3, "the gradient must say something, it is at most {scale}");
    assert_eq!(found.len(), expected.len());
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-5 * scale.max(1.0), "{place}: {found} {expected}");
    }
}
