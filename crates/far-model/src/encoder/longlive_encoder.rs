//! The encoder of LongLive-RAG, frozen: the keys that its recall rule compares.

use crate::encoder::cue_encoder::recipe_on;
use crate::encoder::longlive_network::{EncoderNetwork, LongLiveShape};
use crate::layer::Pass;
use crate::weight_file::{self, WeightFile};
use crate::{
    ActionFeatures, CueEncoder, EncodedDataset, Error, LatentShape, LongLiveAutoencoder,
    LongLiveConfig, LongLiveLosses, Result,
};
use far_tensor::{ArenaBuilder, Device, Parameters, Random, Tape};
use std::path::Path;

/// What files and recipes call it.
const KIND: &str = "longlive-encoder";
/// The cue's name in memories.
pub const LONGLIVE_CUE: &str = "reconstruction";
/// Frames encoded at a time.
const FRAMES_AT_A_TIME: usize = 128;
/// Frames of a window, as its authors have it.
const WINDOW: usize = 8;
/// Frames of an episode from one frame of a window to the next: the authors' latents hold four video
/// frames each.
const SPACING: usize = 4;

/// Frames to embeddings of unit length from which the frame could be told.
///
/// It knows nothing of actions: the query is the key of the frame.
pub struct LongLiveEncoder {
    shape: LongLiveShape,
    network: EncoderNetwork,
    parameters: Parameters,
    recipe: String,
    device: Device,
}

impl LongLiveEncoder {
    /// The encoder's part of the parameters of an autoencoder.
    pub(crate) fn new(shape: LongLiveShape, whole: &Parameters, device: &Device) -> Result<Self> {
        let mut builder = ArenaBuilder::new(KIND);
        let network = EncoderNetwork::new(&shape, &mut builder)?;
        let mut parameters = builder.build(0);
        let names: Vec<String> = parameters.named().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let ids = [parameters.find(&name), whole.find(&name)];
            let [Some(own), Some(other)] = ids else {
                unreachable!("an autoencoder has all that its encoder has")
            };
            parameters.set(own, whole.tensor(other).values())?;
        }
        Ok(Self::frozen(shape, network, parameters, device))
    }

    fn frozen(
        shape: LongLiveShape,
        network: EncoderNetwork,
        mut parameters: Parameters,
        device: &Device,
    ) -> Self {
        parameters.freeze();
        let recipe = recipe_on(device, weight_file::recipe(KIND, &shape, &parameters));
        Self { shape, network, parameters, recipe, device: device.clone() }
    }

    /// Trains an autoencoder on windows of frames of these episodes and keeps its encoder;
    /// `progress` hears of every update.
    ///
    /// # Errors
    /// If an episode cannot be encoded, none is as long as a window, or the loss is not finite.
    pub fn fit(
        dataset: &EncodedDataset,
        episodes: &[u32],
        config: &LongLiveConfig,
        seed: u64,
        device: &Device,
        mut progress: impl FnMut(&LongLiveLosses),
    ) -> Result<Self> {
        let latent = dataset.tokenizer().shape();
        let mut learner = LongLiveAutoencoder::new(config.clone(), latent, seed, device)?;
        let LongLiveConfig { batch, steps, .. } = *config;
        let span = (WINDOW - 1) * SPACING;
        let mut long = Vec::new();
        for id in episodes {
            let frames = dataset.dataset().lengths(*id)?.0 as usize;
            long.extend((frames > span).then_some((*id, frames)));
        }
        if long.is_empty() || batch == 0 {
            let reason =
                format!("no episode has {batch} windows of {WINDOW} frames, {SPACING} apart");
            return Err(Error::Setting { setting: "longlive", reason });
        }
        for step in 0..steps {
            let mut random = Random::stream(seed, "longlive: windows", step);
            let mut frames = Vec::with_capacity(batch * WINDOW * latent.elements());
            for _ in 0..batch {
                let (id, length) = long[random.below(long.len())];
                let start = random.below(length - span);
                let episode = dataset.episode(id)?;
                for place in 0..WINDOW {
                    frames.extend_from_slice(episode.latent(start + place * SPACING));
                }
            }
            progress(&learner.step(&frames, batch)?);
        }
        learner.encoder()
    }

    /// The shape of the latents it reads.
    pub fn latent(&self) -> LatentShape {
        self.shape.latent
    }

    /// Writes the encoder to a file.
    ///
    /// # Errors
    /// If a weight is not finite or the system refuses.
    pub fn save(&self, path: &Path) -> Result<()> {
        weight_file::save(path, KIND, &self.shape, &self.parameters)
    }

    /// Reads what [`LongLiveEncoder::save`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read or does not hold such an encoder.
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        Self::read(WeightFile::open(path)?, device)
    }

    /// Reads the bytes of a file; `path` is for messages.
    ///
    /// # Errors
    /// If they are not such an encoder.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>, device: &Device) -> Result<Self> {
        Self::read(WeightFile::from_bytes(path, bytes)?, device)
    }

    fn read(file: WeightFile, device: &Device) -> Result<Self> {
        let (shape, network, parameters) = file.network(KIND, EncoderNetwork::new)?;
        Ok(Self::frozen(shape, network, parameters, device))
    }

    fn encode(&self, frames: &[f32]) -> Result<Vec<f32>> {
        let elements = self.shape.latent.elements();
        let count = frames.len() / elements;
        Error::check_length("the frames", frames.len(), count * elements)?;
        let mut keys = Vec::with_capacity(count * self.shape.embedding);
        for part in frames.chunks(FRAMES_AT_A_TIME * elements) {
            let mut tape = Tape::inference(&self.device);
            let images = self.shape.latent.images(part.chunks_exact(elements))?;
            let embeddings =
                self.network.forward(&mut Pass::new(&mut tape, &self.parameters), &images)?;
            let unit = tape.normalize_rows(&embeddings, 1e-12)?;
            keys.extend_from_slice(unit.values());
        }
        Ok(keys)
    }
}

impl CueEncoder for LongLiveEncoder {
    fn cue(&self) -> &str {
        LONGLIVE_CUE
    }

    fn dimension(&self) -> usize {
        self.shape.embedding
    }

    fn recipe(&self) -> String {
        self.recipe.clone()
    }

    fn keys(&self, frames: &[f32]) -> Result<Vec<f32>> {
        self.device.run(|| self.encode(frames))
    }

    fn queries(&self, frames: &[f32], actions: &[ActionFeatures]) -> Result<Vec<f32>> {
        let expected = actions.len() * self.shape.latent.elements();
        Error::check_length("the frames", frames.len(), expected)?;
        self.keys(frames)
    }
}
