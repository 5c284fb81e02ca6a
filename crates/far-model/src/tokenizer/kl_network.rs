//! The layers of AutoencoderKL, the autoencoder of Stable Diffusion and SDXL, named as diffusers does.
//!
//! A resnet is x + conv(silu(norm(conv(silu(norm(x)))))), with a 1×1 convolution of x where widths differ.
//! Encoder: a convolution; for each width some resnets and, but for the last, a convolution that halves
//! the picture (a row and a column of zeros at the end alone); resnet, attention, resnet; norm, SiLU, a
//! convolution to means and log-variances, and a 1×1 convolution. Decoder: the way back, with one more
//! resnet per width and pixels repeated twice before a convolution. Attention has one head, over all
//! places. Norms have 32 groups. The latent is the mean, times a factor that gives it about unit variance.
//! Pictures in [0, 1] are stretched to [−1, 1]; images are [N, H, W, C].

use super::autoencoder_network::{AutoencoderNetwork, Convolution, Layer, run_all};
use crate::layer::{Linear, Pass, Scaling};
use crate::{Error, Result};
use far_tensor::{Activation, ArenaBuilder, Checkpoint, Initialization, Padding, Tensor};
use std::path::Path;

/// Groups and least variance of every norm.
const GROUPS: usize = 32;
const EPSILON: f32 = 1e-6;
/// The most widths, resnets of a width and channels that a file may ask for.
const MOST: usize = 8;
const MOST_CHANNELS: usize = 1 << 11;

/// The structure, read from the shapes of a file's tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KlStructure {
    /// Channels of the latent; 4 for Stable Diffusion and SDXL.
    pub channels: usize,
    /// Channels inside, from the picture's resolution to the latent's; [128, 256, 512, 512].
    pub widths: Vec<usize>,
    /// Resnets of a width in the encoder, 2; the decoder has one more.
    pub resnets: usize,
    /// Whether 1×1 convolutions surround the latent, as in Stable Diffusion and SDXL.
    pub surrounded: bool,
}

impl KlStructure {
    /// What a file holds; `None` if it is of another family.
    pub(super) fn of(checkpoint: &Checkpoint, path: &Path) -> Result<Option<Self>> {
        if checkpoint.shape("encoder.conv_in.weight").is_none() {
            return Ok(None);
        }
        let outputs = |name: &str| Some(*checkpoint.shape(name)?.first()?);
        let width =
            |place: usize| outputs(&format!("encoder.down_blocks.{place}.resnets.0.conv1.weight"));
        let widths: Vec<usize> = (0..MOST).map_while(width).collect();
        let is_resnet = |place: &usize| {
            outputs(&format!("encoder.down_blocks.0.resnets.{place}.conv1.weight")).is_some()
        };
        let resnets = (0..MOST).take_while(is_resnet).count();
        let channels =
            checkpoint.shape("decoder.conv_in.weight").and_then(|shape| shape.get(1).copied());
        let sound =
            |width: &usize| width.is_multiple_of(GROUPS) && (1..=MOST_CHANNELS).contains(width);
        match channels {
            Some(channels)
                if !widths.is_empty()
                    && widths.iter().all(sound)
                    && (1..=GROUPS).contains(&channels) =>
            {
                let surrounded = checkpoint.shape("quant_conv.weight").is_some();
                Ok(Some(Self { channels, widths, resnets, surrounded }))
            }
            _ => Err(Error::File {
                path: path.to_owned(),
                reason: format!(
                    "widths {widths:?} and {channels:?} channels make no AutoencoderKL"
                ),
            }),
        }
    }
}

/// GroupNorm; as a layer, with SiLU.
struct Norm(Scaling);

impl Norm {
    fn new(builder: &mut ArenaBuilder, name: &str, width: usize) -> Self {
        Self(Scaling::new(builder, name, width))
    }

    fn forward(&self, pass: &mut Pass<'_>, x: &Tensor) -> far_tensor::Result<Tensor> {
        let [scale, shift] = self.0.tensors(pass.parameters);
        pass.group_norm_channels_last(x, GROUPS, &scale, &shift, EPSILON)
    }
}

impl Layer for Norm {
    fn run(&self, pass: &mut Pass<'_>, x: &Tensor) -> far_tensor::Result<Tensor> {
        let x = self.forward(pass, x)?;
        pass.activate(&x, Activation::Silu)
    }
}

struct Resnet {
    norms: [Norm; 2],
    convolutions: [Convolution; 2],
    shortcut: Option<Convolution>,
}

impl Resnet {
    fn new(builder: &mut ArenaBuilder, name: &str, [inputs, outputs]: [usize; 2]) -> Self {
        let norm1 = Norm::new(builder, &format!("{name}.norm1"), inputs);
        let conv1 = Convolution::new(builder, &format!("{name}.conv1"), [inputs, outputs], 3);
        let norm2 = Norm::new(builder, &format!("{name}.norm2"), outputs);
        let conv2 = Convolution::new(builder, &format!("{name}.conv2"), [outputs; 2], 3);
        let shortcut = (inputs != outputs).then(|| {
            Convolution::new(builder, &format!("{name}.conv_shortcut"), [inputs, outputs], 1)
        });
        Self { norms: [norm1, norm2], convolutions: [conv1, conv2], shortcut }
    }
}

impl Layer for Resnet {
    fn run(&self, pass: &mut Pass<'_>, x: &Tensor) -> far_tensor::Result<Tensor> {
        let y = self.norms[0].run(pass, x)?;
        let y = self.convolutions[0].forward(pass, &y, None)?;
        let y = self.norms[1].run(pass, &y)?;
        let x = match &self.shortcut {
            Some(shortcut) => shortcut.forward(pass, x, None)?,
            None => x.clone(),
        };
        self.convolutions[1].forward(pass, &y, Some(&x))
    }
}

/// Attention of one head over all places.
struct Attention {
    norm: Norm,
    /// Queries, keys, values and the result.
    maps: [Linear; 4],
}

impl Attention {
    fn new(builder: &mut ArenaBuilder, name: &str, width: usize) -> Self {
        let norm = Norm::new(builder, &format!("{name}.group_norm"), width);
        let [weight, bias] = [Initialization::Xavier, Initialization::Zero];
        let maps = ["to_q", "to_k", "to_v", "to_out.0"]
            .map(|part| Linear::new(builder, &format!("{name}.{part}"), [width; 2], weight, bias));
        Self { norm, maps }
    }
}

impl Layer for Attention {
    fn run(&self, pass: &mut Pass<'_>, x: &Tensor) -> far_tensor::Result<Tensor> {
        let shape = *x.shape();
        let places = shape.extents()[1] * shape.extents()[2];
        let tokens = self.norm.forward(pass, x)?;
        let tokens = tokens.reshape([shape.extents()[0], places, shape.last()])?;
        let mut map = |place: usize| self.maps[place].forward(pass, &tokens);
        let (q, k, v) = (map(0)?, map(1)?, map(2)?);
        let read = pass.wide_attention(&q, &k, &v)?;
        let read = self.maps[3].forward(pass, &read)?;
        pass.add(x, &read.reshape(shape)?)
    }
}

/// Adds layers to a sequence under their names.
struct Builder<'a, 'b> {
    builder: &'a mut ArenaBuilder,
    part: &'b str,
    layers: Vec<Box<dyn Layer>>,
}

impl Builder<'_, '_> {
    fn convolution(&mut self, name: &str, sizes: [usize; 2], kernel: usize) -> Convolution {
        Convolution::new(self.builder, &format!("{}{name}", self.part), sizes, kernel)
    }

    fn push(&mut self, layer: impl Layer + 'static) {
        self.layers.push(Box::new(layer));
    }

    fn resnet(&mut self, name: &str, sizes: [usize; 2]) {
        let resnet = Resnet::new(self.builder, &format!("{}{name}", self.part), sizes);
        self.push(resnet);
    }

    /// Resnet, attention, resnet.
    fn middle(&mut self, width: usize) {
        self.resnet("mid_block.resnets.0", [width; 2]);
        let name = format!("{}mid_block.attentions.0", self.part);
        let attention = Attention::new(self.builder, &name, width);
        self.push(attention);
        self.resnet("mid_block.resnets.1", [width; 2]);
    }

    /// Norm, SiLU and a convolution.
    fn end(&mut self, [width, outputs]: [usize; 2]) {
        let norm = Norm::new(self.builder, &format!("{}conv_norm_out", self.part), width);
        self.push(norm);
        let last = self.convolution("conv_out", [width, outputs], 3);
        self.push(last);
    }
}

/// Encoder and decoder.
pub(super) struct KlNetwork {
    channels: usize,
    scale: f32,
    encoder: Vec<Box<dyn Layer>>,
    decoder: Vec<Box<dyn Layer>>,
}

impl KlNetwork {
    pub(super) fn new(structure: &KlStructure, scale: f32, builder: &mut ArenaBuilder) -> Self {
        let (encoder, decoder) = (encoder(structure, builder), decoder(structure, builder));
        Self { channels: structure.channels, scale, encoder, decoder }
    }
}

fn encoder(structure: &KlStructure, builder: &mut ArenaBuilder) -> Vec<Box<dyn Layer>> {
    let KlStructure { channels, widths, resnets, surrounded } = structure;
    let mut layers = Builder { builder, part: "encoder.", layers: Vec::new() };
    let first = layers.convolution("conv_in", [3, widths[0]], 3);
    layers.push(first);
    let mut inputs = widths[0];
    for (place, width) in widths.iter().enumerate() {
        for number in 0..*resnets {
            layers.resnet(&format!("down_blocks.{place}.resnets.{number}"), [inputs, *width]);
            inputs = *width;
        }
        if place + 1 < widths.len() {
            let name = format!("down_blocks.{place}.downsamplers.0.conv");
            let halving = layers.convolution(&name, [*width; 2], 3);
            let padding = Padding { bottom: 1, right: 1, ..Padding::default() };
            layers.push(Convolution { stride: 2, padding: Some(padding), ..halving });
        }
    }
    layers.middle(inputs);
    layers.end([inputs, 2 * channels]);
    let mut sequence = layers.layers;
    if *surrounded {
        sequence.push(Box::new(Convolution::new(builder, "quant_conv", [2 * channels; 2], 1)));
    }
    sequence
}

fn decoder(structure: &KlStructure, builder: &mut ArenaBuilder) -> Vec<Box<dyn Layer>> {
    let KlStructure { channels, widths, resnets, surrounded } = structure;
    let mut sequence: Vec<Box<dyn Layer>> = Vec::new();
    if *surrounded {
        let first = Convolution::new(builder, "post_quant_conv", [*channels; 2], 1);
        sequence.push(Box::new(first));
    }
    let mut layers = Builder { builder, part: "decoder.", layers: sequence };
    let mut inputs = *widths.last().expect("there is a width");
    let first = layers.convolution("conv_in", [*channels, inputs], 3);
    layers.push(first);
    layers.middle(inputs);
    for (place, width) in widths.iter().rev().enumerate() {
        for number in 0..=*resnets {
            layers.resnet(&format!("up_blocks.{place}.resnets.{number}"), [inputs, *width]);
            inputs = *width;
        }
        if place + 1 < widths.len() {
            let name = format!("up_blocks.{place}.upsamplers.0.conv");
            let doubling = layers.convolution(&name, [*width; 2], 3);
            layers.push(Convolution { repeat: 2, ..doubling });
        }
    }
    layers.end([inputs, 3]);
    layers.layers
}

impl AutoencoderNetwork for KlNetwork {
    fn encode(&self, pass: &mut Pass<'_>, pictures: &Tensor) -> far_tensor::Result<Tensor> {
        let stretched = pass.affine(pictures, 2.0, -1.0)?;
        let moments = run_all(&self.encoder, pass, stretched)?;
        let mean = pass.slice(&moments, 3, 0..self.channels)?;
        pass.affine(&mean, self.scale, 0.0)
    }

    fn decode(&self, pass: &mut Pass<'_>, latents: &Tensor) -> far_tensor::Result<Tensor> {
        let raw = pass.affine(latents, 1.0 / self.scale, 0.0)?;
        let stretched = run_all(&self.decoder, pass, raw)?;
        pass.affine(&stretched, 0.5, 0.5)
    }
}
