//! How well an encoder alone finds the memories of a goal, in episodes it was not trained on.

use crate::Result;
use far_data::{ContrastiveConfig, ContrastiveSampler};
use far_model::{ActionFeatures, CueEncoder, EncodedDataset, VisionEncoder};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// Memories that a query asks for.
const ASKED: usize = 3;

/// What was found, over all memories of an episode and all of them that lie near the goal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Retrieval {
    /// Queries asked.
    pub queries: usize,
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
/// its numbers of positives and negatives do not count here. Memories with equal cosines are taken
/// in order of time.
///
/// # Errors
/// If an episode cannot be read or does not fit the encoder.
pub fn retrieval(
    encoded: &EncodedDataset,
    encoder: &VisionEncoder,
    sampler: &ContrastiveConfig,
    batches: u64,
) -> Result<Retrieval> {
    let all = ContrastiveConfig { positives: u32::MAX, negatives: u32::MAX, ..sampler.clone() };
    let sampler = ContrastiveSampler::new(encoded.dataset(), all)?;
    let scale = &encoder.description().scale;
    let dimension = encoder.dimension();
    let mut keys: HashMap<u32, Arc<[f32]>> = HashMap::new();
    let (mut queries, mut best, mut top_three, mut chance) = (0, 0, 0.0, 0.0);
    for step in 0..batches {
        for example in sampler.batch(step)? {
            let query = &example.query;
            let episode = encoded.episode(query.episode)?;
            let keys = match keys.get(&query.episode) {
                Some(keys) => keys.clone(),
                None => {
                    let frames: Vec<f32> = (0..episode.boundary())
                        .flat_map(|frame| episode.latent(frame).iter().copied())
                        .collect();
                    let made: Arc<[f32]> = encoder.keys(&frames)?.into();
                    keys.insert(query.episode, made.clone());
                    made
                }
            };
            let now = query.current as usize;
            let seconds = episode.times()[now + query.stride as usize] - episode.times()[now];
            let action = ActionFeatures::new(scale, query.action, seconds as f32);
            let direction = encoder.queries(episode.latent(now), &[action])?;
            let cosine = |frame: &u32| -> f32 {
                let key = &keys[*frame as usize * dimension..][..dimension];
                key.iter().zip(&direction).map(|(a, b)| a * b).sum()
            };
            let near = example.positives.iter().map(|frame| (cosine(frame), *frame, true));
            let far = example.negatives.iter().map(|frame| (cosine(frame), *frame, false));
            let mut ranked: Vec<(f32, u32, bool)> = near.chain(far).collect();
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let asked = ASKED.min(ranked.len());
            let right = ranked[..asked].iter().filter(|(.., near)| *near).count();
            queries += 1;
            best += usize::from(ranked[0].2);
            top_three += right as f64 / asked as f64;
            chance += example.positives.len() as f64 / ranked.len() as f64;
        }
    }
    let share = 1.0 / queries.max(1) as f64;
    Ok(Retrieval {
        queries,
        best: best as f64 * share,
        top_three: top_three * share,
        chance: chance * share,
    })
}
