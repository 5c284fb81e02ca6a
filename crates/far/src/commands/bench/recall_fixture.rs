//! A memory to recall from: a seeded walk with random keys, and a retriever with random weights.

use crate::progress;
use far_memory::{
    Cue, Memory, Observation, Pose, RecallQuery, Retriever, RetrieverConfig, Schema, Snapshot,
};
use std::collections::BTreeMap;

/// Seconds between two records.
const PERIOD: f64 = 0.2;
/// Side of the square the walk stays in, in meters.
const AREA: f32 = 40.0;

/// A memory and queries into it.
pub struct Fixture {
    /// The memory.
    pub snapshot: Snapshot,
    /// Queries, used in turn.
    pub queries: Vec<RecallQuery>,
}

fn random_key(random: &mut fastrand::Rng, key: &mut [f32]) {
    key.iter_mut().for_each(|value| *value = random.f32() - 0.5);
}

/// A memory of `memories` records with a key of `dimension` numbers for cue `vision`, or none.
pub fn build(memories: usize, dimension: Option<usize>, seed: u64) -> anyhow::Result<Fixture> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut cues = vec![Cue::metadata("meta")];
    cues.extend(dimension.map(|dimension| Cue::key("vision", dimension)));
    let mut memory = Memory::new(Schema::new(cues)?);
    let mut key = vec![0.0; dimension.unwrap_or(0)];
    let (mut position, mut yaw) = ([0.0f32, 0.0, 1.6], 0.0f32);
    let template = "building the memory {wide_bar} {human_pos}/{human_len}, {rate}, {eta} left";
    let bar = progress::styled(memories as u64, template);
    let mut step = |random: &mut fastrand::Rng| {
        yaw += random.f32() - 0.5;
        position[0] = (position[0] + 0.3 * yaw.cos()).clamp(-0.5 * AREA, 0.5 * AREA);
        position[1] = (position[1] + 0.3 * yaw.sin()).clamp(-0.5 * AREA, 0.5 * AREA);
        Pose::from_yaw_pitch(position, yaw, 0.2 * (random.f32() - 0.5))
    };
    for number in 0..memories {
        let pose = step(&mut random);
        random_key(&mut random, &mut key);
        let observation = Observation::new(number as f64 * PERIOD, pose);
        memory.append(&match dimension {
            Some(_) => observation.with_key("vision", &key),
            None => observation,
        })?;
        if number % 4096 == 0 {
            bar.set_position(number as u64);
        }
    }
    bar.finish_and_clear();
    let queries = (0..16)
        .map(|number| {
            let (pose, goal) = (step(&mut random), step(&mut random));
            random_key(&mut random, &mut key);
            let time = memories as f64 * PERIOD;
            let query =
                RecallQuery::new(time, pose, goal).with_stride(PERIOD as f32).with_seed(number);
            if dimension.is_some() { query.with_key("vision", &key) } else { query }
        })
        .collect();
    Ok(Fixture { snapshot: memory.snapshot(), queries })
}

/// A retriever with the usual random initial weights: uniform within ±1/√inputs.
pub fn retriever(config: RetrieverConfig, seed: u64) -> anyhow::Result<Retriever> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tensors = BTreeMap::new();
    let mut inputs = 1;
    for (name, shape) in config.tensors() {
        // A bias follows the weight of its layer and has the same bound.
        inputs = shape.get(1).copied().unwrap_or(inputs);
        let bound = 1.0 / (inputs as f32).sqrt();
        let values = (0..shape.iter().product()).map(|_| (2.0 * random.f32() - 1.0) * bound);
        let values = values.collect::<Vec<f32>>();
        tensors.insert(name, (shape, values));
    }
    Ok(Retriever::from_tensors(config, tensors)?)
}
