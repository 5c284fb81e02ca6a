//! Tokenizers that are networks: the one that comes with the program, published ones, whose weights scripts
//! put into the cache, and those that `far tokenizer train` makes. What a network is made of is read off
//! its file.

use super::autoencoder_network::{AutoencoderNetwork, AutoencoderStructure};
use super::{BUILT_IN, PATCH, Tokenizer, area_resize, built_in};
use crate::layer::Pass;
use crate::{Error, LatentShape, Result, weight_cache};
use far_data::{Episode, Picture, hash_bytes};
use far_tensor::{ArenaBuilder, Checkpoint, Device, Matching, Parameters, Tape, Tensor};
use std::path::{Path, PathBuf};

/// Pictures at a time: on a GPU enough to fill it, on a CPU as few as stay in its caches.
const PICTURES_ON_GPU: usize = 128;
const PICTURES_ON_CPU: usize = 2;
/// The largest picture that a setting may ask for.
const MOST_SIDE: usize = 1 << 12;
/// The largest file that a run keeps a copy of.
const KEPT_BYTES: usize = 16 << 20;

far_memory::settings! {
    /// The settings of a [`Autoencoder`].
    #[derive(Eq)]
    pub struct AutoencoderConfig {
        /// A file of weights, the name of one in the cache without its ending, or [`BUILT_IN`].
        pub weights: String = BUILT_IN.to_owned(),
        /// Width and height that pictures are averaged down to: a world model reads the latent in patches of
        /// 2 × 2, so that they are multiples of 16 where it is eight times smaller.
        pub resolution: [usize; 2] = [128, 128],
    }
}

impl AutoencoderConfig {
    /// The shape of a latent of so many channels, so many times smaller than its picture.
    fn shape(&self, channels: usize, reduction: usize) -> Result<LatentShape> {
        let wrong = |reason: String| {
            let [width, height] = self.resolution;
            let reason = format!("{reason} in {width} × {height} pixels");
            Err(Error::Setting { setting: "tokenizer.kind", reason })
        };
        if !self.resolution.iter().all(|side| (1..=MOST_SIDE).contains(side)) {
            return wrong("a side is zero or too large".to_owned());
        }
        let multiple = PATCH * reduction;
        if self.resolution.iter().any(|side| !side.is_multiple_of(multiple)) {
            return wrong(format!("a side is not a multiple of {multiple}"));
        }
        let [width, height] = self.resolution.map(|side| side / reduction);
        Ok(LatentShape { channels, height, width, patch: PATCH })
    }

    /// The bytes of the weights, and where they are from.
    fn read(&self) -> Result<(Vec<u8>, PathBuf)> {
        if self.weights == BUILT_IN {
            return Ok((built_in::BYTES.to_vec(), BUILT_IN.into()));
        }
        let path = self.path();
        let bytes = std::fs::read(&path).map_err(|source| Error::File {
            path: path.clone(),
            reason: format!(
                "{source}; scripts/make_taesd_weights.py and scripts/make_autoencoder_weights.py make such \
                 files of published weights, `far tokenizer train` of your own frames, and the tokenizer \
                 `{BUILT_IN}` needs none"
            ),
        })?;
        Ok((bytes, path))
    }

    /// Where weights that do not come with the program are looked for.
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

/// A tokenizer with its weights.
pub struct Autoencoder {
    config: AutoencoderConfig,
    structure: AutoencoderStructure,
    shape: LatentShape,
    network: Box<dyn AutoencoderNetwork>,
    parameters: Parameters,
    recipe: String,
    /// The file, where it is small enough to be kept with a run.
    file: Option<Vec<u8>>,
    device: Device,
}

impl Autoencoder {
    /// Reads the weights that the settings name. What the network is made of is read off the file.
    ///
    /// # Errors
    /// If the file cannot be read, holds something else, or the settings do not fit.
    pub fn load(config: AutoencoderConfig, device: &Device) -> Result<Self> {
        let (bytes, path) = config.read()?;
        Self::from_bytes(config, &path, bytes, device)
    }

    /// The autoencoder that these weights name, for pictures whose latents have so many columns and rows.
    ///
    /// # Errors
    /// As [`Autoencoder::load`].
    pub fn for_latents(weights: String, latent: [usize; 2], device: &Device) -> Result<Self> {
        // How much smaller its latents are is read off the file.
        let (bytes, path) =
            AutoencoderConfig { weights: weights.clone(), ..Default::default() }.read()?;
        let checkpoint = Checkpoint::from_bytes(&path, bytes.clone())?;
        let structure = AutoencoderStructure::of(&checkpoint, &path)?;
        let resolution = latent.map(|side| side * structure.reduction());
        Self::from_bytes(AutoencoderConfig { weights, resolution }, &path, bytes, device)
    }

    /// Reads the bytes of a file; `path` is for messages.
    ///
    /// # Errors
    /// As [`Autoencoder::load`].
    pub fn from_bytes(
        config: AutoencoderConfig,
        path: &Path,
        bytes: Vec<u8>,
        device: &Device,
    ) -> Result<Self> {
        let (digest, length) = (hash_bytes(&bytes), bytes.len());
        let file = (length <= KEPT_BYTES).then(|| bytes.clone());
        let mut checkpoint = Checkpoint::from_bytes(path, bytes)?;
        let structure = AutoencoderStructure::of(&checkpoint, path)?;
        let mut builder = ArenaBuilder::new("autoencoder");
        let network = structure.build(&mut builder);
        // A few wrong numbers must not ask for more memory than the file could ever fill.
        let count = builder.count();
        if count > length / 2 {
            let reason = format!("{length} bytes cannot hold its {count} weights");
            return Err(Error::File { path: path.to_owned(), reason });
        }
        let mut tokenizer = Self::begin(structure, network, builder, config, 0, device)?;
        checkpoint.load_parameters("", &mut tokenizer.parameters, Matching::Strict)?;
        checkpoint.expect_all_used()?;
        tokenizer.network.settle(&mut tokenizer.parameters)?;
        tokenizer.parameters.freeze();
        tokenizer.recipe = format!("{} {digest}", tokenizer.recipe);
        Ok(Self { file, ..tokenizer })
    }

    /// A tokenizer of that structure with random weights.
    ///
    /// # Errors
    /// If the settings do not fit.
    pub fn untrained(
        structure: AutoencoderStructure,
        config: AutoencoderConfig,
        seed: u64,
        device: &Device,
    ) -> Result<Self> {
        let mut builder = ArenaBuilder::new("autoencoder");
        let network = structure.build(&mut builder);
        let mut tokenizer = Self::begin(structure, network, builder, config, seed, device)?;
        tokenizer.parameters.freeze();
        tokenizer.recipe = format!("{} untrained {seed}", tokenizer.recipe);
        Ok(tokenizer)
    }

    fn begin(
        structure: AutoencoderStructure,
        network: Box<dyn AutoencoderNetwork>,
        builder: ArenaBuilder,
        config: AutoencoderConfig,
        seed: u64,
        device: &Device,
    ) -> Result<Self> {
        let shape = config.shape(structure.channels(), structure.reduction())?;
        let parameters = builder.build(seed);
        let recipe = format!("autoencoder {:?} {PATCH}", config.resolution);
        let (file, device) = (None, device.clone());
        Ok(Self { config, structure, shape, network, parameters, recipe, file, device })
    }

    /// What its file is made of.
    pub fn structure(&self) -> &AutoencoderStructure {
        &self.structure
    }

    /// Pictures [N, H, W, 3] in [0, 1] to latents [N, h, w, C], of any sides that the network divides.
    ///
    /// # Errors
    /// If the engine refuses.
    pub fn encode_tensor(&self, tape: &mut Tape, pictures: &Tensor) -> Result<Tensor> {
        Ok(self.network.encode(&mut Pass::new(tape, &self.parameters), pictures)?)
    }

    /// Latents [N, h, w, C] to pictures [N, H, W, 3] about [0, 1].
    ///
    /// # Errors
    /// If the engine refuses.
    pub fn decode_tensor(&self, tape: &mut Tape, latents: &Tensor) -> Result<Tensor> {
        Ok(self.network.decode(&mut Pass::new(tape, &self.parameters), latents)?)
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

    fn decode_pictures(&self, latents: &[&[f32]]) -> Result<Vec<Picture>> {
        for latent in latents {
            Error::check_length("a latent", latent.len(), self.shape.elements())?;
        }
        let images = self.shape.images(latents.iter().copied())?;
        let mut tape = Tape::inference(&self.device);
        let latents = tape.permute(&images, &[0, 2, 3, 1])?;
        let pictures = self.decode_tensor(&mut tape, &latents)?;
        let color = |value: &f32| (255.0 * value.clamp(0.0, 1.0)).round() as u8;
        let [width, height] = self.config.resolution;
        let pictures = pictures.values().chunks_exact(3 * width * height).map(|picture| Picture {
            width: width as u32,
            height: height as u32,
            pixels: picture.iter().map(color).collect(),
        });
        Ok(pictures.collect())
    }

    /// Pictures that are encoded or decoded together.
    fn at_a_time(&self) -> usize {
        if self.device.is_cuda() { PICTURES_ON_GPU } else { PICTURES_ON_CPU }
    }
}

impl Tokenizer for Autoencoder {
    fn shape(&self) -> LatentShape {
        self.shape
    }

    fn recipe(&self) -> String {
        self.recipe.clone()
    }

    fn rounding(&self) -> String {
        if self.device.is_cuda() { self.device.precision().to_string() } else { String::new() }
    }

    fn encode(&self, episode: &Episode, frames: &[usize]) -> Result<Vec<f32>> {
        let mut latents = Vec::with_capacity(frames.len() * self.shape.elements());
        for part in frames.chunks(self.at_a_time()) {
            let pictures = part.iter().map(|frame| episode.picture(*frame));
            let pictures = pictures.collect::<Result<Vec<_>, _>>()?;
            latents.extend(self.device.run(|| self.encode_pictures(&pictures))?);
        }
        Ok(latents)
    }

    fn save(&self, path: &Path) -> Result<()> {
        match &self.file {
            Some(bytes) => Ok(far_data::write_durably(path, bytes)?),
            None => Ok(()),
        }
    }

    fn decode(&self, latent: &[f32]) -> Option<Picture> {
        self.decode_all(&[latent])?.pop()
    }

    fn decode_all(&self, latents: &[&[f32]]) -> Option<Vec<Picture>> {
        let decode = |part: &[&[f32]]| self.device.run(|| self.decode_pictures(part)).ok();
        let parts = latents.chunks(self.at_a_time()).map(decode);
        Some(parts.collect::<Option<Vec<_>>>()?.concat())
    }
}
