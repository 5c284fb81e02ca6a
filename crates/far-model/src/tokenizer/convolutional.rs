//! A small learned autoencoder of convolutions: the tokenizer for pictures that patches lose too
//! much of.
//!
//! Down: stages of 3×3 convolutions that halve the picture, then a convolution to C channels. Up: the
//! same in reverse with repeated pixels. Each channel of the latent is shifted and scaled by its mean
//! and deviation over training frames, so that it has about unit variance.

use super::{Tokenizer, area_resize};
use crate::convolution_stack::{
    Convolution, Downsampling, NormalizedActivation, Upsampling, are_sound,
};
use crate::weight_file::{self, WeightFile};
use crate::{Error, LatentShape, Result};
use far_data::{Episode, Picture};
use far_tensor::{
    Activation, ArenaBuilder, Device, Initialization, ParameterId, Parameters, Tape, Tensor,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What files and recipes call it.
const KIND: &str = "convolutional";
/// Pictures encoded at a time.
const PICTURES_AT_A_TIME: usize = 32;

/// The settings of a [`Convolutional`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConvolutionalConfig {
    /// Width and height that pictures are averaged down to.
    pub resolution: [usize; 2],
    /// Channels of the stages; each halves the picture, three make the latent 8 times smaller.
    pub widths: Vec<usize>,
    /// Channels of the latent.
    pub channels: usize,
    /// Side of the patches that a world model reads the latent by.
    pub patch: usize,
}

impl Default for ConvolutionalConfig {
    fn default() -> Self {
        Self { resolution: [64, 64], widths: vec![32, 64, 128], channels: 4, patch: 2 }
    }
}

impl ConvolutionalConfig {
    /// The shape of a latent.
    ///
    /// # Errors
    /// If the settings do not fit together.
    pub fn shape(&self) -> Result<LatentShape> {
        let wrong = |reason: &str| {
            Err(Error::Setting { setting: "tokenizer", reason: format!("{reason} in {self:?}") })
        };
        let Self { resolution, widths, channels, patch } = self;
        if !are_sound(widths, &[*channels, *patch], *resolution) {
            return wrong("a size is zero or too large");
        }
        let factor = 1 << widths.len();
        if resolution.iter().any(|side| !side.is_multiple_of(factor)) {
            return wrong("the stages do not halve the resolution evenly");
        }
        let [width, height] = resolution.map(|side| side / factor);
        let shape = LatentShape { channels: *channels, height, width, patch: *patch };
        if shape.is_valid() { Ok(shape) } else { wrong("the patch does not divide the latent") }
    }
}

/// The layers; their numbers are in the arena they were built into.
pub(super) struct ConvolutionalNetwork {
    down: Downsampling,
    norm: NormalizedActivation,
    to_latent: Convolution,
    from_latent: Convolution,
    up: Upsampling,
    /// Mean and deviation of the channels of a latent.
    pub(super) statistics: [ParameterId; 2],
}

impl ConvolutionalNetwork {
    pub(super) fn new(config: &ConvolutionalConfig, builder: &mut ArenaBuilder) -> Result<Self> {
        let channels = config.shape()?.channels;
        let widths = &config.widths;
        let strides = vec![2; widths.len()];
        let widest = widths[widths.len() - 1];
        Ok(Self {
            down: Downsampling::new(builder, "encoder", 3, widths, &strides),
            norm: NormalizedActivation::new(builder, "encoder.norm", widest),
            to_latent: Convolution::new(builder, "encoder.latent", [widest, channels], 1),
            from_latent: Convolution::new(builder, "decoder.latent", [channels, widest], 1),
            up: Upsampling::new(builder, "decoder", widths, &strides, 3),
            statistics: [
                ("latent.mean", Initialization::Zero),
                ("latent.deviation", Initialization::One),
            ]
            .map(|(name, begin)| builder.parameter(name, [channels], begin)),
        })
    }

    /// Pictures [N, 3, H, W] in [−1, 1] to latents [N, C, h, w] before normalization.
    pub(super) fn encode(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        pictures: &Tensor,
    ) -> far_tensor::Result<Tensor> {
        let x = self.down.forward(tape, parameters, pictures)?;
        let x = self.norm.forward(tape, parameters, &x)?;
        self.to_latent.forward(tape, parameters, &x)
    }

    /// Latents [N, C, h, w] before normalization to pictures [N, 3, H, W] about [−1, 1].
    pub(super) fn decode(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        latents: &Tensor,
    ) -> far_tensor::Result<Tensor> {
        let x = self.from_latent.forward(tape, parameters, latents)?;
        let x = tape.activate(&x, Activation::Silu)?;
        self.up.forward(tape, parameters, &x)
    }
}

/// Pictures as a tensor [N, 3, H, W] in [−1, 1], averaged down to a resolution.
pub(super) fn picture_tensor(
    planes: &[Vec<f32>],
    [width, height]: [usize; 2],
) -> far_tensor::Result<Tensor> {
    let values: Vec<f32> = planes.iter().flatten().map(|value| 2.0 * value - 1.0).collect();
    Tensor::from_slice(&values, [planes.len(), 3, height, width])
}

/// A trained tokenizer; [`Convolutional::fit`](Self::fit) or
/// [`ConvolutionalTraining`](super::ConvolutionalTraining) makes one.
pub struct Convolutional {
    config: ConvolutionalConfig,
    shape: LatentShape,
    network: ConvolutionalNetwork,
    parameters: Parameters,
    recipe: String,
    device: Device,
}

impl Convolutional {
    pub(super) fn new(
        config: ConvolutionalConfig,
        network: ConvolutionalNetwork,
        mut parameters: Parameters,
        device: &Device,
    ) -> Result<Self> {
        parameters.freeze();
        let shape = config.shape()?;
        let recipe = weight_file::recipe(KIND, &config, &parameters);
        Ok(Self { config, shape, network, parameters, recipe, device: device.clone() })
    }

    /// The settings.
    pub fn config(&self) -> &ConvolutionalConfig {
        &self.config
    }

    /// Reads what [`Convolutional::save`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read or does not hold such a tokenizer.
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        Self::read(path, WeightFile::open(path)?, device)
    }

    /// Reads the bytes of a file; `path` is for messages.
    ///
    /// # Errors
    /// If they are not such a tokenizer.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>, device: &Device) -> Result<Self> {
        Self::read(path, WeightFile::from_bytes(path, bytes)?, device)
    }

    fn read(path: &Path, file: WeightFile, device: &Device) -> Result<Self> {
        let (config, network, parameters) = file.network(KIND, ConvolutionalNetwork::new)?;
        let deviation = parameters.tensor(network.statistics[1]);
        if let Some(value) = deviation.values().iter().find(|value| **value <= 0.0) {
            let reason = format!("a channel of its latents has the deviation {value}");
            return Err(Error::File { path: path.to_owned(), reason });
        }
        drop(deviation);
        Self::new(config, network, parameters, device)
    }

    /// The latents of pictures of any size, [n, E] as tokens.
    ///
    /// # Errors
    /// If the engine refuses.
    pub fn encode_pictures(&self, pictures: &[Picture]) -> Result<Vec<f32>> {
        let resolution = self.config.resolution;
        let planes: Vec<Vec<f32>> =
            pictures.iter().map(|picture| area_resize(picture, resolution)).collect();
        let mut tape = Tape::inference(&self.device);
        let pictures = picture_tensor(&planes, resolution)?;
        let raw = self.network.encode(&mut tape, &self.parameters, &pictures)?;
        let [mean, deviation] = self.network.statistics.map(|id| self.parameters.tensor(id));
        let places = self.shape.height * self.shape.width;
        let normalized = |image: &[f32]| {
            let channels = image.chunks_exact(places).zip(mean.values()).zip(deviation.values());
            let image: Vec<f32> = channels
                .flat_map(|((channel, mean), deviation)| {
                    channel.iter().map(move |value| (value - mean) / deviation)
                })
                .collect();
            self.shape.to_tokens(&image)
        };
        Ok(raw.values().chunks_exact(self.shape.elements()).flat_map(normalized).collect())
    }

    fn decode_picture(&self, latent: &[f32]) -> Result<Picture> {
        Error::check_length("a latent", latent.len(), self.shape.elements())?;
        let LatentShape { channels, height, width, .. } = self.shape;
        let [mean, deviation] = self.network.statistics.map(|id| self.parameters.tensor(id));
        let mut image = self.shape.to_image(latent);
        for (channel, plane) in image.chunks_exact_mut(height * width).enumerate() {
            let (mean, deviation) = (mean.values()[channel], deviation.values()[channel]);
            plane.iter_mut().for_each(|value| *value = mean + deviation * *value);
        }
        let raw = Tensor::from_slice(&image, [1, channels, height, width])?;
        let mut tape = Tape::inference(&self.device);
        let planes = self.network.decode(&mut tape, &self.parameters, &raw)?;
        let [width, height] = self.config.resolution;
        let pixels = (0..3 * width * height).map(|place| {
            let value = planes.values()[place % 3 * width * height + place / 3];
            (255.0 * (0.5 * (value + 1.0)).clamp(0.0, 1.0)).round() as u8
        });
        Ok(Picture { width: width as u32, height: height as u32, pixels: pixels.collect() })
    }
}

impl Tokenizer for Convolutional {
    fn shape(&self) -> LatentShape {
        self.shape
    }

    fn recipe(&self) -> String {
        self.recipe.clone()
    }

    fn encode(&self, episode: &Episode) -> Result<Vec<f32>> {
        let mut latents = Vec::with_capacity(episode.len() * self.shape.elements());
        for start in (0..episode.len()).step_by(PICTURES_AT_A_TIME) {
            let end = episode.len().min(start + PICTURES_AT_A_TIME);
            let pictures =
                (start..end).map(|frame| episode.picture(frame)).collect::<Result<Vec<_>, _>>()?;
            latents.extend(self.device.run(|| self.encode_pictures(&pictures))?);
        }
        Ok(latents)
    }

    fn save(&self, path: &Path) -> Result<()> {
        weight_file::save(path, KIND, &self.config, &self.parameters)
    }

    fn decode(&self, latent: &[f32]) -> Option<Picture> {
        self.device.run(|| self.decode_picture(latent)).ok()
    }
}
