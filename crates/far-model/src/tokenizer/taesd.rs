//! Tokenizers of the TAESD family: small autoencoders distilled from those of large image models, whose
//! latents they share. `taef2` stands for FLUX.2's, with 32 channels at an eighth of the resolution.

use super::taesd_network::{TaesdNetwork, TaesdStructure};
use super::{PATCH, Tokenizer, area_resize};
use crate::{Error, LatentShape, Result, weight_cache};
use far_data::{Episode, Picture, hash_bytes};
use far_tensor::{ArenaBuilder, Checkpoint, Device, Matching, Parameters, Tape, Tensor};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Pictures encoded at a time: on a GPU enough to fill it, on a CPU as few as stay in its caches.
const PICTURES_ON_GPU: usize = 128;
const PICTURES_ON_CPU: usize = 2;
/// The widest network and the largest picture that a file or setting may ask for.
const MOST_CHANNELS: usize = 1 << 10;
const MOST_SIDE: usize = 1 << 12;

/// The settings of a [`Taesd`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaesdConfig {
    /// A file of weights, or the name of one in the cache without its ending.
    pub weights: String,
    /// Width and height that pictures are averaged down to: multiples of 16, since a world model reads
    /// the latent, an eighth of it, in patches of 2 × 2.
    pub resolution: [usize; 2],
}

impl Default for TaesdConfig {
    fn default() -> Self {
        Self { weights: "taef2".to_owned(), resolution: [128, 128] }
    }
}

impl TaesdConfig {
    /// The shape of a latent of so many channels.
    ///
    /// # Errors
    /// If patches of the latent do not fill the resolution.
    pub fn shape(&self, channels: usize) -> Result<LatentShape> {
        let wrong = |reason: &str| {
            Err(Error::Setting {
                setting: "tokenizer.taesd",
                reason: format!("{reason} in {self:?}"),
            })
        };
        let reduction = TaesdStructure::REDUCTION;
        if !self.resolution.iter().all(|side| (1..=MOST_SIDE).contains(side)) {
            return wrong("a side is zero or too large");
        }
        if self.resolution.iter().any(|side| !side.is_multiple_of(PATCH * reduction)) {
            return wrong("a side is not a multiple of 16");
        }
        let [width, height] = self.resolution.map(|side| side / reduction);
        Ok(LatentShape { channels, height, width, patch: PATCH })
    }

    /// Where the weights are looked for.
    pub fn path(&self) -> PathBuf {
        let named = PathBuf::from(&self.weights);
        let is_name = named.components().count() == 1 && named.extension().is_none();
        if !is_name {
            return named;
        }
        let file = format!("{}.safetensors", self.weights);
        weight_cache::place(&file).unwrap_or(file.into())
    }
}

/// A tokenizer with its weights, which `scripts/make_taesd_weights.py` makes of the published files.
pub struct Taesd {
    config: TaesdConfig,
    structure: TaesdStructure,
    shape: LatentShape,
    network: TaesdNetwork,
    parameters: Parameters,
    recipe: String,
    device: Device,
}

impl Taesd {
    /// Reads the weights that the settings name. What the network is made of is read off the file.
    ///
    /// # Errors
    /// If the file cannot be read, holds something else, or the settings do not fit.
    pub fn load(config: TaesdConfig, device: &Device) -> Result<Self> {
        let path = config.path();
        let bytes = std::fs::read(&path).map_err(|source| Error::File {
            path: path.clone(),
            reason: format!(
                "{source}; scripts/make_taesd_weights.py makes it of the published weights"
            ),
        })?;
        Self::from_bytes(config, &path, bytes, device)
    }

    /// Reads the bytes of a file; `path` is for messages.
    ///
    /// # Errors
    /// As [`Taesd::load`].
    pub fn from_bytes(
        config: TaesdConfig,
        path: &Path,
        bytes: Vec<u8>,
        device: &Device,
    ) -> Result<Self> {
        let digest = hash_bytes(&bytes);
        let mut checkpoint = Checkpoint::from_bytes(path, bytes)?;
        let structure = structure(&checkpoint, path)?;
        let mut tokenizer = Self::begin(structure, config, 0, device)?;
        checkpoint.load_parameters("", &mut tokenizer.parameters, Matching::Strict)?;
        checkpoint.expect_all_used()?;
        tokenizer.parameters.freeze();
        tokenizer.recipe = format!("{} {digest}", tokenizer.recipe);
        Ok(tokenizer)
    }

    /// A tokenizer of that structure with random weights.
    ///
    /// # Errors
    /// If the settings do not fit.
    pub fn untrained(
        structure: TaesdStructure,
        config: TaesdConfig,
        seed: u64,
        device: &Device,
    ) -> Result<Self> {
        let mut tokenizer = Self::begin(structure, config, seed, device)?;
        tokenizer.parameters.freeze();
        tokenizer.recipe = format!("{} untrained {seed}", tokenizer.recipe);
        Ok(tokenizer)
    }

    fn begin(
        structure: TaesdStructure,
        config: TaesdConfig,
        seed: u64,
        device: &Device,
    ) -> Result<Self> {
        let shape = config.shape(structure.channels)?;
        let mut builder = ArenaBuilder::new("taesd");
        let network = TaesdNetwork::new(structure, &mut builder);
        let parameters = builder.build(seed);
        let recipe = format!("taesd {:?} {PATCH}", config.resolution);
        Ok(Self { config, structure, shape, network, parameters, recipe, device: device.clone() })
    }

    /// What its file is made of.
    pub fn structure(&self) -> TaesdStructure {
        self.structure
    }

    /// Pictures [N, H, W, 3] in [0, 1], of any sides that are multiples of 8, to latents
    /// [N, H/8, W/8, C].
    ///
    /// # Errors
    /// If the engine refuses.
    pub fn encode_tensor(&self, tape: &mut Tape, pictures: &Tensor) -> Result<Tensor> {
        Ok(self.network.encode(tape, &self.parameters, pictures)?)
    }

    /// Latents [N, h, w, C] to pictures [N, 8h, 8w, 3] about [0, 1].
    ///
    /// # Errors
    /// If the engine refuses.
    pub fn decode_tensor(&self, tape: &mut Tape, latents: &Tensor) -> Result<Tensor> {
        Ok(self.network.decode(tape, &self.parameters, latents)?)
    }

    /// The latents of pictures of any size, [n, E] as tokens.
    ///
    /// # Errors
    /// If the engine refuses.
    pub fn encode_pictures(&self, pictures: &[Picture]) -> Result<Vec<f32>> {
        let [width, height] = self.config.resolution;
        let mut values = Vec::with_capacity(pictures.len() * width * height * 3);
        for picture in pictures {
            let planes = area_resize(picture, self.config.resolution);
            let pixels = width * height;
            values.extend((0..3 * pixels).map(|place| planes[place % 3 * pixels + place / 3]));
        }
        let pictures = Tensor::from_slice(&values, [pictures.len(), height, width, 3])?;
        let mut tape = Tape::inference(&self.device);
        let latents = self.encode_tensor(&mut tape, &pictures)?;
        let latents = tape.permute(&latents, &[0, 3, 1, 2])?;
        let images = latents.values().chunks_exact(self.shape.elements());
        Ok(images.flat_map(|image| self.shape.to_tokens(image)).collect())
    }

    fn decode_picture(&self, latent: &[f32]) -> Result<Picture> {
        Error::check_length("a latent", latent.len(), self.shape.elements())?;
        let LatentShape { channels, height, width, .. } = self.shape;
        let image = self.shape.to_image(latent);
        let image = Tensor::from_slice(&image, [1, channels, height, width])?;
        let mut tape = Tape::inference(&self.device);
        let latent = tape.permute(&image, &[0, 2, 3, 1])?;
        let picture = self.decode_tensor(&mut tape, &latent)?;
        let color = |value: &f32| (255.0 * value.clamp(0.0, 1.0)).round() as u8;
        let [width, height] = self.config.resolution.map(|side| side as u32);
        Ok(Picture { width, height, pixels: picture.values().iter().map(color).collect() })
    }
}

/// What a file holds, by the names and shapes of its tensors.
fn structure(checkpoint: &Checkpoint, path: &Path) -> Result<TaesdStructure> {
    let wrong = |reason: String| Error::File { path: path.to_owned(), reason };
    let convolution = |name: &str| match checkpoint.shape(name).as_deref() {
        Some(&[outputs, inputs, 3, 3]) => Ok([outputs, inputs]),
        found => Err(wrong(format!("`{name}` is {found:?}, not a 3 × 3 convolution"))),
    };
    let [width, colors] = convolution("encoder.0.weight")?;
    let [channels, _] = convolution("encoder.14.weight")?;
    if colors != 3
        || !(1..=MOST_CHANNELS).contains(&width)
        || !(1..=MOST_CHANNELS).contains(&channels)
    {
        let reason =
            format!("{colors} colors, {width} and {channels} channels are not of this family");
        return Err(wrong(reason));
    }
    let looks_at_all = checkpoint.shape("encoder.11.pool.0.weight").is_some();
    Ok(TaesdStructure { channels, width, looks_at_all })
}

impl Tokenizer for Taesd {
    fn shape(&self) -> LatentShape {
        self.shape
    }

    fn recipe(&self) -> String {
        self.recipe.clone()
    }

    fn encode(&self, episode: &Episode) -> Result<Vec<f32>> {
        let at_a_time = if self.device.is_cuda() { PICTURES_ON_GPU } else { PICTURES_ON_CPU };
        let mut latents = Vec::with_capacity(episode.len() * self.shape.elements());
        for start in (0..episode.len()).step_by(at_a_time) {
            let end = episode.len().min(start + at_a_time);
            let pictures =
                (start..end).map(|frame| episode.picture(frame)).collect::<Result<Vec<_>, _>>()?;
            latents.extend(self.device.run(|| self.encode_pictures(&pictures))?);
        }
        Ok(latents)
    }

    fn decode(&self, latent: &[f32]) -> Option<Picture> {
        self.device.run(|| self.decode_picture(latent)).ok()
    }
}
