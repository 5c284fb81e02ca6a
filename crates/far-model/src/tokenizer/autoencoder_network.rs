//! What autoencoders have in common: pictures in, latents out, and back.

use super::kl_network::{KlNetwork, KlStructure};
use super::taesd_network::{TaesdNetwork, TaesdStructure};
use super::vit_vae_network::{VitVaeNetwork, VitVaeStructure};
use crate::layer::Pass;
use crate::{Error, Result};
use far_tensor::{
    ArenaBuilder, Checkpoint, Filter, Initialization, Padding, ParameterId, Parameters, Tensor,
};
use std::path::Path;

/// The note with the factor of the latents, for files whose network does not contain it.
const SCALE: &str = "scale";

/// An encoder and a decoder, whose numbers are in the arena they were built into.
pub(super) trait AutoencoderNetwork: Send + Sync {
    /// Brings weights, as they were just read from a file, into the order that the network wants.
    fn settle(&self, parameters: &mut Parameters) -> far_tensor::Result<()> {
        let _ = parameters;
        Ok(())
    }

    /// Pictures [N, H, W, 3] in [0, 1] to latents [N, h, w, C] of about unit variance.
    fn encode(&self, pass: &mut Pass<'_>, pictures: &Tensor) -> far_tensor::Result<Tensor>;

    /// Latents [N, h, w, C] to pictures [N, H, W, 3] about [0, 1].
    fn decode(&self, pass: &mut Pass<'_>, latents: &Tensor) -> far_tensor::Result<Tensor>;
}

/// What an autoencoder is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum AutoencoderStructure {
    /// Of the TAESD family, as our own is.
    Taesd(TaesdStructure),
    /// AutoencoderKL, and what its latents are multiplied by.
    Kl(KlStructure, f32),
    /// The OASIS ViT-VAE, and what its latents are multiplied by.
    VitVae(VitVaeStructure, f32),
}

impl AutoencoderStructure {
    /// What a file holds, by the names and shapes of its tensors; `path` is for messages.
    pub(super) fn of(checkpoint: &Checkpoint, path: &Path) -> Result<Self> {
        let wrong = |reason: &str| Error::File { path: path.to_owned(), reason: reason.to_owned() };
        let scale = || -> Result<f32> {
            let note = checkpoint.notes().get(SCALE).and_then(|note| note.parse().ok());
            note.filter(|scale: &f32| scale.is_finite() && *scale > 0.0).ok_or_else(|| {
                wrong(
                    "its note `scale` must say what latents are multiplied by, as \
                       scripts/make_autoencoder_weights.py writes it",
                )
            })
        };
        if let Some(structure) = TaesdStructure::of(checkpoint, path)? {
            return Ok(Self::Taesd(structure));
        }
        if let Some(structure) = KlStructure::of(checkpoint, path)? {
            return Ok(Self::Kl(structure, scale()?));
        }
        if let Some(structure) = VitVaeStructure::of(checkpoint, path)? {
            return Ok(Self::VitVae(structure, scale()?));
        }
        Err(wrong(
            "it holds no autoencoder of the TAESD family, no AutoencoderKL and no OASIS ViT-VAE",
        ))
    }

    /// Channels of a latent.
    pub(super) fn channels(&self) -> usize {
        match self {
            Self::Taesd(structure) => structure.channels,
            Self::Kl(structure, _) => structure.channels,
            Self::VitVae(structure, _) => structure.channels,
        }
    }

    /// How many times smaller a latent is than its picture, each way.
    pub(super) fn reduction(&self) -> usize {
        match self {
            Self::Taesd(_) => TaesdStructure::REDUCTION,
            Self::Kl(structure, _) => 1 << (structure.widths.len() - 1),
            Self::VitVae(structure, _) => structure.patch,
        }
    }

    /// The network, its parameters added to the builder.
    pub(super) fn build(&self, builder: &mut ArenaBuilder) -> Box<dyn AutoencoderNetwork> {
        match self {
            Self::Taesd(structure) => Box::new(TaesdNetwork::new(*structure, builder)),
            Self::Kl(structure, scale) => Box::new(KlNetwork::new(structure, *scale, builder)),
            Self::VitVae(structure, scale) => {
                Box::new(VitVaeNetwork::new(*structure, *scale, builder))
            }
        }
    }
}

/// One step of a network, from an image to an image.
pub(super) trait Layer: Send + Sync {
    fn run(&self, pass: &mut Pass<'_>, x: &Tensor) -> far_tensor::Result<Tensor>;
}

/// Runs layers one after another.
pub(super) fn run_all(
    layers: &[Box<dyn Layer>],
    pass: &mut Pass<'_>,
    x: Tensor,
) -> far_tensor::Result<Tensor> {
    layers.iter().try_fold(x, |x, layer| layer.run(pass, &x))
}

/// A convolution of channels-last images.
pub(super) struct Convolution {
    pub weight: ParameterId,
    pub bias: Option<ParameterId>,
    pub stride: usize,
    /// How often pixels are repeated each way before.
    pub repeat: usize,
    /// Zeros around the image; those that keep its size where not given.
    pub padding: Option<Padding>,
    pub relu: bool,
}

impl Convolution {
    /// One with a bias that keeps the size of images.
    pub(super) fn new(
        builder: &mut ArenaBuilder,
        name: &str,
        [inputs, outputs]: [usize; 2],
        kernel: usize,
    ) -> Self {
        let bias = builder.parameter(format!("{name}.bias"), [outputs], Initialization::Zero);
        let plain = Self::unbiased(builder, name, [inputs, outputs], kernel, 1.0);
        Self { bias: Some(bias), ..plain }
    }

    /// One without a bias, whose weight begins as He proposed, times a factor.
    pub(super) fn unbiased(
        builder: &mut ArenaBuilder,
        name: &str,
        [inputs, outputs]: [usize; 2],
        kernel: usize,
        factor: f32,
    ) -> Self {
        let deviation = factor * (2.0 / (inputs * kernel * kernel) as f32).sqrt();
        let shape = [outputs, inputs, kernel, kernel];
        let begin = Initialization::Normal(deviation);
        let weight = builder.parameter(format!("{name}.weight"), shape, begin);
        Self { weight, bias: None, stride: 1, repeat: 1, padding: None, relu: false }
    }

    pub(super) fn forward(
        &self,
        pass: &mut Pass<'_>,
        x: &Tensor,
        residual: Option<&Tensor>,
    ) -> far_tensor::Result<Tensor> {
        let weight = pass.parameters.tensor(self.weight);
        let bias = self.bias.map(|bias| pass.parameters.tensor(bias));
        let same = Filter::same(&weight);
        let filter = Filter {
            bias: bias.as_ref(),
            stride: [self.stride; 2],
            padding: self.padding.unwrap_or(same.padding),
            repeat: self.repeat,
            residual,
            relu: self.relu,
            ..same
        };
        pass.convolution_channels_last(x, &filter)
    }
}

impl Layer for Convolution {
    fn run(&self, pass: &mut Pass<'_>, x: &Tensor) -> far_tensor::Result<Tensor> {
        self.forward(pass, x, None)
    }
}
