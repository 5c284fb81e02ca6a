//! Episodes as the models see them: latents instead of pictures, keys beside them, and the way out
//! as a memory.

use crate::encoded_episode::{CueInput, EncodedEpisode};
use crate::world_model::signal_column::{ConditioningConfig, EpisodeSignals};
use crate::{CueEncoder, CueFeature, Error, LatentShape, Result, Tokenizer};
use far_data::{CachedTensor, DataError, Dataset, Episode, Precision, TensorCache};
use far_memory::{Cue, Memory, Observation, Schema};
use rayon::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The name of the metadata cue in memories and retrievers.
pub const METADATA_CUE: &str = "meta";

/// A dataset with a tokenizer and encoders; latents and keys are made once and kept on disk, and the
/// episodes used most recently stay in memory.
pub struct EncodedDataset {
    dataset: Arc<Dataset>,
    tokenizer: Arc<dyn Tokenizer>,
    features: Vec<Arc<dyn CueFeature>>,
    encoders: Vec<Arc<dyn CueEncoder>>,
    conditioning: ConditioningConfig,
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
        let (features, conditioning) = (Vec::new(), ConditioningConfig::default());
        let held = Mutex::new(held);
        Self { dataset, tokenizer, features, encoders, conditioning, cache, held }
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

    /// The same dataset with other encoders; latents and features are read from the same cache.
    pub fn with_encoders(&self, encoders: Vec<Arc<dyn CueEncoder>>) -> Self {
        Self { encoders, ..self.emptied() }
    }

    /// The same dataset with the features of cues that are not made of latents.
    pub fn with_features(&self, features: Vec<Arc<dyn CueFeature>>) -> Self {
        Self { features, ..self.emptied() }
    }

    /// The same dataset with this conditioning beyond poses and times.
    pub fn with_conditioning(&self, conditioning: ConditioningConfig) -> Self {
        Self { conditioning, ..self.emptied() }
    }

    /// The same dataset with no episode in memory.
    fn emptied(&self) -> Self {
        let most_bytes = self.held.lock().map_or(0, |held| held.most_bytes);
        let (dataset, tokenizer) = (self.dataset.clone(), self.tokenizer.clone());
        let (features, conditioning) = (self.features.clone(), self.conditioning);
        let whole =
            Self::new(dataset, tokenizer, self.encoders.clone(), self.cache.clone(), most_bytes);
        Self { features, conditioning, ..whole }
    }

    /// What the world model is conditioned on beyond poses and times.
    pub fn conditioning(&self) -> ConditioningConfig {
        self.conditioning
    }

    /// The features of cues that are not made of latents.
    pub fn features(&self) -> &[Arc<dyn CueFeature>] {
        &self.features
    }

    /// The shape of what the encoder of a cue reads: its feature's, or else the latents'.
    pub fn input_shape(&self, cue: &str) -> LatentShape {
        self.feature(cue).map_or_else(|| self.tokenizer.shape(), |feature| feature.shape())
    }

    /// The recipe of what the encoder of a cue reads.
    pub fn input_recipe(&self, cue: &str) -> String {
        self.feature(cue).map_or_else(|| self.tokenizer.recipe(), |feature| feature.recipe())
    }

    /// The encoder of a cue whose keys follow from what was recorded, without learning.
    pub fn plain_encoder(&self, cue: &str) -> Option<Arc<dyn CueEncoder>> {
        self.feature(cue)?.encoder()
    }

    fn feature(&self, cue: &str) -> Option<&Arc<dyn CueFeature>> {
        self.features.iter().find(|feature| feature.cue() == cue)
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
        let make = || tokenizer.encode(&episode, &(0..frames).collect::<Vec<_>>());
        let sizes = vec![frames, shape.tokens(), shape.token_width()];
        let recipe = self.stored_as(tokenizer.recipe());
        let latents = self.cached("latents", &recipe, id, sizes, Precision::Half, make)?;
        Error::check_finite(format!("the latents of episode {id}"), &latents)?;

        let elements = shape.elements();
        let inputs = self.inputs(&episode)?;
        let mut keys = Vec::new();
        for encoder in &self.encoders {
            let input = match self.feature(encoder.cue()) {
                Some(feature) => feature.recipe(),
                None => self.stored_as(tokenizer.recipe()),
            };
            let recipe = format!("{input}\n{}", encoder.recipe());
            let own = inputs.iter().find(|input| input.cue == encoder.cue());
            let (rows, width) = own.map_or((&latents, elements), |own| (&own.rows, own.width));
            let explored = &rows[..episode.boundary() * width];
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
            let mut observation = Observation::new(episode.times()[frame], episode.pose(frame));
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
            poses: episode.reckoned_poses(),
            posed: episode.description().poses,
            elements,
            latents,
            memory: memory.snapshot(),
            inputs,
            signals: EpisodeSignals::of(self.conditioning, &episode)?,
            lenders: Vec::new(),
        })
    }

    /// A recipe with how the tokenizer's device rounds: what names a cache of latents.
    fn stored_as(&self, recipe: String) -> String {
        let rounding = self.tokenizer.rounding();
        if rounding.is_empty() { recipe } else { format!("{recipe} in {rounding}") }
    }

    /// The rows of all features, from the cache or made now.
    fn inputs(&self, episode: &Episode) -> Result<Vec<CueInput>> {
        let id = episode.id();
        let inputs = self.features.iter().map(|feature| {
            let (shape, kind) = (feature.shape(), format!("feature-{}", feature.cue()));
            let width = shape.elements();
            let make = || {
                let rows = feature.rows(episode)?;
                Error::check_length("the rows of a cue", rows.len(), episode.len() * width)?;
                Ok(rows)
            };
            let sizes = vec![episode.len(), width];
            let rows = self.cached(&kind, &feature.recipe(), id, sizes, Precision::Half, make)?;
            Error::check_finite(format!("the {kind} of episode {id}"), &rows)?;
            Ok(CueInput { cue: feature.cue().to_owned(), width, rows })
        });
        inputs.collect()
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
        let size = |episode: &EncodedEpisode| {
            let rows = episode.inputs.iter().map(|input| input.rows.len()).sum::<usize>();
            4 * (episode.latents.len() + rows)
        };
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
