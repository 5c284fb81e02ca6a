//! How well an encoder alone finds the memories of a goal, in episodes it was not trained on.

use crate::Result;
use far_data::{ContrastiveConfig, ContrastiveFrames, ContrastiveSampler};
use far_model::{CueEncoder, EncodedDataset, KeyEncoder};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// Memories that a query asks for.
const ASKED: usize = 3;

/// What was found among all memories of an episode, by the queries that have one near their goal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Retrieval {
    /// Queries asked that have a memory near their goal.
    pub queries: usize,
    /// The share of all queries that have one.
    pub answerable: f64,
    /// The share of queries whose best memory lies near the goal.
    pub best: f64,
    /// The share of memories near the goal among the three best of each query.
    pub top_three: f64,
    /// The same share for memories drawn at random.
    pub chance: f64,
}

/// Asks the queries of `batches` steps of a sampler, each over all memories of its episode.
///
/// The sampler's settings say which part of the dataset is asked, how far ahead, and what is near;
/// how many positives and negatives it draws, and of which frames, does not count here. Memories with equal cosines are taken
/// in order of time.
///
/// # Errors
/// If an episode cannot be read or does not fit the encoder.
pub fn retrieval(
    encoded: &EncodedDataset,
    encoder: &KeyEncoder,
    sampler: &ContrastiveConfig,
    batches: u64,
) -> Result<Retrieval> {
    let all = ContrastiveConfig {
        positives: u32::MAX,
        negatives: u32::MAX,
        frames: ContrastiveFrames::Episode,
        ..sampler.clone()
    };
    let sampler = ContrastiveSampler::new(encoded.dataset(), all)?;
    let scale = &encoder.description().scale;
    let dimension = encoder.dimension();
    let mut keys: HashMap<u32, Arc<[f32]>> = HashMap::new();
    let (mut asked, mut queries) = (0, 0);
    let (mut best, mut top_three, mut chance) = (0, 0.0, 0.0);
    for step in 0..batches {
        for example in sampler.batch(step)? {
            let query = &example.query;
            let episode = encoded.episode(query.episode)?;
            asked += 1;
            let remembered = |frame: &&u32| (**frame as usize) < episode.boundary();
            let near: Vec<u32> = example.positives.iter().filter(remembered).copied().collect();
            let far: Vec<u32> = example.negatives.iter().filter(remembered).copied().collect();
            if near.is_empty() {
                continue;
            }
            let keys = match keys.get(&query.episode) {
                Some(keys) => keys.clone(),
                None => {
                    let frames: Vec<f32> = (0..episode.boundary())
                        .flat_map(|frame| episode.input(encoder.cue(), frame).iter().copied())
                        .collect();
                    let made: Arc<[f32]> = encoder.keys(&frames)?.into();
                    keys.insert(query.episode, made.clone());
                    made
                }
            };
            let now = query.current as usize;
            let action = episode.action(scale, now, now + query.stride as usize);
            let direction = encoder.queries(episode.input(encoder.cue(), now), &[action])?;
            let cosine = |frame: &u32| -> f32 {
                let key = &keys[*frame as usize * dimension..][..dimension];
                key.iter().zip(&direction).map(|(a, b)| a * b).sum()
            };
            let found = near.iter().map(|frame| (cosine(frame), *frame, true));
            let others = far.iter().map(|frame| (cosine(frame), *frame, false));
            let mut ranked: Vec<(f32, u32, bool)> = found.chain(others).collect();
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            ranked.truncate(ASKED);
            let right = ranked.iter().filter(|(.., near)| *near).count();
            queries += 1;
            best += usize::from(ranked[0].2);
            top_three += right as f64 / ranked.len() as f64;
            chance += near.len() as f64 / (near.len() + far.len()) as f64;
        }
    }
    let share = 1.0 / queries.max(1) as f64;
    Ok(Retrieval {
        queries,
        answerable: queries as f64 / asked.max(1) as f64,
        best: best as f64 * share,
        top_three: top_three * share,
        chance: chance * share,
    })
}
