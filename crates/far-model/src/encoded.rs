//! Episodes as the models see them: latents instead of pictures, keys beside them, and the way out
//! as a memory.

use crate::Error;
use crate::{
    ActionFeatures, ConditionScale, CueEncoder, PredictionQuery, Remembered, Result, Tokenizer,
};
use far_data::{CachedTensor, DataError, Dataset, Precision, TensorCache};
use far_memory::{Cue, Memory, Observation, Pool, Pose, RecallQuery, Schema, Snapshot};
use rayon::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The name of the metadata cue in memories and retrievers.
pub const METADATA_CUE: &str = "meta";

/// One episode with latents and keys.
pub struct EncodedEpisode {
    id: u32,
    boundary: usize,
    times: Vec<f64>,
    poses: Vec<Pose>,
    elements: usize,
    latents: Vec<f32>,
    memory: Snapshot,
}

impl EncodedEpisode {
    /// The episode's number in the dataset.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Frames.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The first frame of the return: as many frames can be remembered.
    pub fn boundary(&self) -> usize {
        self.boundary
    }

    /// Times of all frames, in seconds.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// Cameras of all frames.
    pub fn poses(&self) -> &[Pose] {
        &self.poses
    }

    /// The explore frames as a memory: record i is frame i, with the keys of every cue.
    pub fn memory(&self) -> &Snapshot {
        &self.memory
    }

    /// The latent of a frame.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn latent(&self, frame: usize) -> &[f32] {
        &self.latents[frame * self.elements..(frame + 1) * self.elements]
    }

    /// A frame as a memory that the world model reads.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn remembered(&self, frame: usize) -> Remembered<'_> {
        Remembered { time: self.times[frame], pose: self.poses[frame], latent: self.latent(frame) }
    }

    /// The question of how frame `goal` looks, asked at frame `current`, for the world model.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn prediction_query(&self, current: usize, goal: usize) -> PredictionQuery {
        PredictionQuery {
            time: self.times[current],
            pose: self.poses[current],
            goal: self.poses[goal],
            stride: (self.times[goal] - self.times[current]) as f32,
            signals: Vec::new(),
        }
    }

    /// The same question for the memory, over the given pool and without the embeddings of key cues.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn recall_query(&self, current: usize, goal: usize, pool: Pool) -> RecallQuery {
        let horizon = &self.poses[(current + 1).min(goal)..=goal];
        RecallQuery::new(self.times[current], self.poses[current], self.poses[goal])
            .with_horizon(horizon)
            .with_stride((self.times[goal] - self.times[current]) as f32)
            .with_pool(pool)
            .with_seed(current as u64)
    }
}

/// Gives queries the embeddings of key cues: one query per current latent, all encoders.
///
/// # Errors
/// If the latents do not fit the encoders.
pub fn embed_queries(
    encoders: &[Arc<dyn CueEncoder>],
    scale: &ConditionScale,
    latents: &[f32],
    queries: &mut [RecallQuery],
) -> Result<()> {
    let actions: Vec<ActionFeatures> = queries
        .iter()
        .map(|query| ActionFeatures::new(scale, query.action, query.stride))
        .collect();
    for encoder in encoders {
        let embeddings = encoder.queries(latents, &actions)?;
        for (query, embedding) in queries.iter_mut().zip(embeddings.chunks(encoder.dimension())) {
            query.set_key(encoder.cue(), embedding);
        }
    }
    Ok(())
}

/// A dataset with a tokenizer and encoders; latents and keys are made once and kept on disk, and the
/// episodes used most recently stay in memory.
pub struct EncodedDataset {
    dataset: Arc<Dataset>,
    tokenizer: Arc<dyn Tokenizer>,
    encoders: Vec<Arc<dyn CueEncoder>>,
    cache: PathBuf,
    held: Mutex<Held>,
}

/// Episodes in memory, with the order of their use.
struct Held {
    most_bytes: usize,
    bytes: usize,
    clock: u64,
    episodes: HashMap<u32, (u64, Arc<EncodedEpisode>)>,
}

impl EncodedDataset {
    /// Encodes `dataset` by `tokenizer`; files go below `cache`, usually the folder `cache` beside
    /// the dataset's own files. At most about `most_bytes` of latents stay in memory.
    pub fn new(
        dataset: Arc<Dataset>,
        tokenizer: Arc<dyn Tokenizer>,
        encoders: Vec<Arc<dyn CueEncoder>>,
        cache: PathBuf,
        most_bytes: usize,
    ) -> Self {
        let held = Held { most_bytes, bytes: 0, clock: 0, episodes: HashMap::new() };
        Self { dataset, tokenizer, encoders, cache, held: Mutex::new(held) }
    }

    /// The dataset.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        &self.tokenizer
    }

    /// The encoders of key cues.
    pub fn encoders(&self) -> &[Arc<dyn CueEncoder>] {
        &self.encoders
    }

    /// The same dataset with other encoders; latents are read from the same cache.
    pub fn with_encoders(&self, encoders: Vec<Arc<dyn CueEncoder>>) -> Self {
        let most_bytes = self.held.lock().map_or(0, |held| held.most_bytes);
        let (dataset, tokenizer) = (self.dataset.clone(), self.tokenizer.clone());
        Self::new(dataset, tokenizer, encoders, self.cache.clone(), most_bytes)
    }

    /// An episode, from memory, from the cache, or encoded now.
    ///
    /// # Errors
    /// If it cannot be read or encoded, or a latent is not finite.
    pub fn episode(&self, id: u32) -> Result<Arc<EncodedEpisode>> {
        if let Some(found) = self.held.lock().expect("no holder panics").get(id) {
            return Ok(found);
        }
        // Encoded without the lock: two threads may do the same work, none waits for another.
        let episode = Arc::new(self.encode(id)?);
        self.held.lock().expect("no holder panics").put(id, episode.clone());
        Ok(episode)
    }

    /// Makes the latents and keys of these episodes that are not in the cache yet, several episodes
    /// at once; `done` is called after each.
    ///
    /// # Errors
    /// If one cannot be read or encoded.
    pub fn prepare(&self, episodes: &[u32], done: impl Fn() + Sync) -> Result<()> {
        episodes.par_iter().try_for_each(|id| {
            self.episode(*id)?;
            done();
            Ok(())
        })
    }

    fn encode(&self, id: u32) -> Result<EncodedEpisode> {
        let tokenizer = &self.tokenizer;
        let shape = tokenizer.shape();
        let episode = self.dataset.episode(id)?;
        let frames = episode.len();
        let make = || tokenizer.encode(&episode);
        let sizes = vec![frames, shape.tokens(), shape.token_width()];
        let latents =
            self.cached("latents", &tokenizer.recipe(), id, sizes, Precision::Half, make)?;
        Error::check_finite(format!("the latents of episode {id}"), &latents)?;

        let elements = shape.elements();
        let mut keys = Vec::new();
        for encoder in &self.encoders {
            let recipe = format!("{}\n{}", tokenizer.recipe(), encoder.recipe());
            let explored = &latents[..episode.boundary() * elements];
            // The cache wants a row per frame; frames of the return are never remembered.
            let make = || {
                let mut keys = encoder.keys(explored)?;
                keys.resize(frames * encoder.dimension(), 0.0);
                Ok(keys)
            };
            let kind = format!("keys-{}", encoder.cue());
            let sizes = vec![frames, encoder.dimension()];
            keys.push(self.cached(&kind, &recipe, id, sizes, Precision::Single, make)?);
        }

        let mut cues = vec![Cue::metadata(METADATA_CUE)];
        cues.extend(
            self.encoders.iter().map(|encoder| Cue::key(encoder.cue(), encoder.dimension())),
        );
        let mut memory = Memory::new(Schema::new(cues)?);
        for frame in 0..episode.boundary() {
            let mut observation = Observation::new(episode.times()[frame], episode.poses()[frame]);
            for (encoder, keys) in self.encoders.iter().zip(&keys) {
                let dimension = encoder.dimension();
                observation = observation
                    .with_key(encoder.cue(), &keys[frame * dimension..(frame + 1) * dimension]);
            }
            memory.append(&observation)?;
        }
        Ok(EncodedEpisode {
            id,
            boundary: episode.boundary(),
            times: episode.times().to_vec(),
            poses: episode.poses().to_vec(),
            elements,
            latents,
            memory: memory.snapshot(),
        })
    }

    /// A tensor of an episode from the cache, or made and kept.
    fn cached(
        &self,
        kind: &str,
        recipe: &str,
        id: u32,
        shape: Vec<usize>,
        precision: Precision,
        make: impl FnOnce() -> Result<Vec<f32>>,
    ) -> Result<Vec<f32>> {
        let cache = TensorCache::new(&self.cache, kind, recipe);
        let mut failure = None;
        let made = cache.get_or_make(&self.dataset, id, |_| match make() {
            Ok(values) => {
                Ok(vec![CachedTensor { name: kind.to_owned(), shape, values, precision }])
            }
            Err(error) => {
                let reason = error.to_string();
                failure = Some(error);
                Err(DataError::Episode { episode: id, reason })
            }
        });
        match (failure, made) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(error.into()),
            (None, Ok(tensors)) => Ok(tensors.tensor(kind)?.values),
        }
    }
}

impl Held {
    fn get(&mut self, id: u32) -> Option<Arc<EncodedEpisode>> {
        self.clock += 1;
        let (used, episode) = self.episodes.get_mut(&id)?;
        *used = self.clock;
        Some(episode.clone())
    }

    fn put(&mut self, id: u32, episode: Arc<EncodedEpisode>) {
        let size = |episode: &EncodedEpisode| 4 * episode.latents.len();
        self.clock += 1;
        self.bytes += size(&episode);
        if let Some((_, older)) = self.episodes.insert(id, (self.clock, episode)) {
            self.bytes -= size(&older);
        }
        while self.bytes > self.most_bytes && self.episodes.len() > 1 {
            let oldest = self.episodes.iter().min_by_key(|(_, (used, _))| *used).map(|(id, _)| *id);
            let Some((_, gone)) = oldest.and_then(|id| self.episodes.remove(&id)) else { return };
            self.bytes -= size(&gone);
        }
    }
}
