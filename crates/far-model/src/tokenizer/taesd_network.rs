//! The layers of the TAESD family: an encoder and a decoder of 3×3 convolutions and ReLU.
//!
//! Encoder: a convolution from 3 channels, a block; three times a convolution that halves the picture and
//! some blocks; a convolution to the latent. Decoder: 3·tanh(x/3), a convolution with ReLU; three times
//! some blocks, pixels repeated twice and a convolution; a block, a convolution to 3 channels. A block is
//! relu(x + three convolutions with ReLU between them); published members have three in a stage. In some members of the family the blocks of the
//! latent's resolution look at the whole picture first: x + W₂·relu(GroupNorm₄(W₁·x)) with four times the
//! channels inside. Parameters are named by their place in the published sequences of modules; images
//! are [N, H, W, C].

use super::autoencoder_network::{AutoencoderNetwork, Convolution, Layer, run_all};
use crate::Error;
use crate::layer::{Pass, Scaling};
use far_tensor::{Activation, ArenaBuilder, Checkpoint, Initialization, Result, Tensor};
use std::path::Path;

/// Side of most windows.
const KERNEL: usize = 3;
/// Halvings of a picture, and so stages.
const STAGES: usize = 3;
/// Groups of the norm over the whole picture, and channels inside for each outside.
const GROUPS: usize = 4;
const WIDENED: usize = 4;
/// Latents are bent to (−3, 3) before they are decoded.
const BOUND: f32 = 3.0;

/// The widest and deepest network that a file may ask for.
const MOST_CHANNELS: usize = 1 << 10;
const MOST_BLOCKS: usize = 16;
/// How much smaller the last convolution of a block begins: blocks begin about as the identity, and
/// numbers do not grow from block to block.
const QUIET: f32 = 0.1;

/// The structure, read from the shapes of a file's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaesdStructure {
    /// Channels of the latent: 4 for SD and SDXL, 16 for SD 3 and FLUX.1, 32 for FLUX.2.
    pub channels: usize,
    /// Channels inside; 64 in everything published.
    pub width: usize,
    /// Blocks in a stage of the encoder and of the decoder; three in everything published.
    pub blocks: [usize; 2],
    /// Whether the blocks of the latent's resolution look at the whole picture.
    pub looks_at_all: bool,
}

impl TaesdStructure {
    /// How many times smaller a latent is than its picture, each way.
    pub const REDUCTION: usize = 1 << STAGES;

    /// taef2: FLUX.2's.
    pub const TAEF2: Self = Self { channels: 32, width: 64, blocks: [3; 2], looks_at_all: true };

    /// What `far tokenizer train` makes: half the size of a published one. The decoder, which has to
    /// invent, is larger than the encoder.
    pub const OWN: Self = Self { channels: 16, width: 64, blocks: [1, 2], looks_at_all: false };

    /// What a file holds, by the names and shapes of its tensors; `None` if it is of another family.
    pub(super) fn of(checkpoint: &Checkpoint, path: &Path) -> crate::Result<Option<Self>> {
        if checkpoint.shape("encoder.0.weight").is_none() {
            return Ok(None);
        }
        let wrong = |reason: String| Error::File { path: path.to_owned(), reason };
        let convolution = |name: &str| match checkpoint.shape(name).as_deref() {
            Some(&[outputs, inputs, 3, 3]) => Ok([outputs, inputs]),
            found => Err(wrong(format!("`{name}` is {found:?}, not a 3 × 3 convolution"))),
        };
        let [width, colors] = convolution("encoder.0.weight")?;
        // The blocks of the first stage, in both sequences, begin at the fourth place.
        let blocks = ["encoder", "decoder"].map(|part| {
            let is_block = |number: &usize| {
                checkpoint.shape(&format!("{part}.{}.conv.0.weight", 3 + number)).is_some()
            };
            (0..MOST_BLOCKS).take_while(is_block).count()
        });
        let last = 2 + STAGES * (1 + blocks[0]);
        let [channels, _] = convolution(&format!("encoder.{last}.weight"))?;
        let sound = |channels: &usize| (1..=MOST_CHANNELS).contains(channels);
        if colors != 3 || ![width, channels].iter().all(sound) {
            let reason =
                format!("{colors} colors, {width} and {channels} channels are not of this family");
            return Err(wrong(reason));
        }
        let looks_at_all = checkpoint.shape("decoder.3.pool.0.weight").is_some();
        Ok(Some(Self { channels, width, blocks, looks_at_all }))
    }
}

/// A look at the whole picture.
struct Look {
    widen: Convolution,
    norm: Scaling,
    narrow: Convolution,
}

impl Look {
    fn new(builder: &mut ArenaBuilder, name: &str, width: usize) -> Self {
        let inside = WIDENED * width;
        let widen =
            Convolution::unbiased(builder, &format!("{name}.pool.0"), [width, inside], 1, 1.0);
        let norm = Scaling::new(builder, &format!("{name}.pool.1"), inside);
        let narrow =
            Convolution::unbiased(builder, &format!("{name}.pool.3"), [inside, width], 1, 1.0);
        Self { widen, norm, narrow }
    }

    fn forward(&self, pass: &mut Pass<'_>, x: &Tensor) -> Result<Tensor> {
        let [scale, shift] = self.norm.tensors(pass.parameters);
        let inside = self.widen.forward(pass, x, None)?;
        let inside = pass.group_norm_channels_last(&inside, GROUPS, &scale, &shift, 1e-5)?;
        let inside = pass.activate(&inside, Activation::Relu)?;
        self.narrow.forward(pass, &inside, Some(x))
    }
}

struct Block {
    look: Option<Look>,
    convolutions: [Convolution; 3],
}

impl Block {
    fn new(builder: &mut ArenaBuilder, name: &str, width: usize, looks: bool) -> Self {
        // Counted with the activations between them.
        let convolutions = [(0, 1.0), (2, 1.0), (4, QUIET)].map(|(place, factor)| {
            let name = format!("{name}.conv.{place}");
            let bias = builder.parameter(format!("{name}.bias"), [width], Initialization::Zero);
            let plain = Convolution::unbiased(builder, &name, [width; 2], KERNEL, factor);
            Convolution { relu: true, bias: Some(bias), ..plain }
        });
        Self { look: looks.then(|| Look::new(builder, name, width)), convolutions }
    }
}

impl Layer for Block {
    fn run(&self, pass: &mut Pass<'_>, x: &Tensor) -> Result<Tensor> {
        let x = match &self.look {
            Some(look) => look.forward(pass, x)?,
            None => x.clone(),
        };
        let [first, second, third] = &self.convolutions;
        let y = first.forward(pass, &x, None)?;
        let y = second.forward(pass, &y, None)?;
        third.forward(pass, &y, Some(&x))
    }
}

/// Encoder and decoder; their numbers are in the arena they were built into.
pub(super) struct TaesdNetwork {
    encoder: Vec<Box<dyn Layer>>,
    decoder: Vec<Box<dyn Layer>>,
}

impl TaesdNetwork {
    pub(super) fn new(structure: TaesdStructure, builder: &mut ArenaBuilder) -> Self {
        Self { encoder: encoder(structure, builder), decoder: decoder(structure, builder) }
    }
}

impl AutoencoderNetwork for TaesdNetwork {
    fn encode(&self, pass: &mut Pass<'_>, pictures: &Tensor) -> Result<Tensor> {
        run_all(&self.encoder, pass, pictures.clone())
    }

    fn decode(&self, pass: &mut Pass<'_>, latents: &Tensor) -> Result<Tensor> {
        let bent = pass.affine(latents, 1.0 / BOUND, 0.0)?;
        let bent = pass.activate(&bent, Activation::Tanh)?;
        let bent = pass.affine(&bent, BOUND, 0.0)?;
        run_all(&self.decoder, pass, bent)
    }
}

fn encoder(structure: TaesdStructure, builder: &mut ArenaBuilder) -> Vec<Box<dyn Layer>> {
    let TaesdStructure { channels, width, blocks: [blocks, _], looks_at_all } = structure;
    let name = |place: usize| format!("encoder.{place}");
    let mut layers: Vec<Box<dyn Layer>> = vec![
        Box::new(Convolution::new(builder, &name(0), [3, width], KERNEL)),
        Box::new(Block::new(builder, &name(1), width, false)),
    ];
    for stage in 0..STAGES {
        let halving = Convolution::unbiased(builder, &name(layers.len()), [width; 2], KERNEL, 1.0);
        layers.push(Box::new(Convolution { stride: 2, ..halving }));
        let looks = looks_at_all && stage + 1 == STAGES;
        for _ in 0..blocks {
            layers.push(Box::new(Block::new(builder, &name(layers.len()), width, looks)));
        }
    }
    let last = Convolution::new(builder, &name(layers.len()), [width, channels], KERNEL);
    layers.push(Box::new(last));
    layers
}

fn decoder(structure: TaesdStructure, builder: &mut ArenaBuilder) -> Vec<Box<dyn Layer>> {
    let TaesdStructure { channels, width, blocks: [_, blocks], looks_at_all } = structure;
    let name = |place: usize| format!("decoder.{place}");
    // The bend is at place 0, an activation at 2, and repeating pixels has a place of its own.
    let first = Convolution::new(builder, &name(1), [channels, width], KERNEL);
    let mut layers: Vec<Box<dyn Layer>> = vec![Box::new(Convolution { relu: true, ..first })];
    let mut place = 3;
    for stage in 0..STAGES {
        for _ in 0..blocks {
            let looks = looks_at_all && stage == 0;
            layers.push(Box::new(Block::new(builder, &name(place), width, looks)));
            place += 1;
        }
        let doubling = Convolution::unbiased(builder, &name(place + 1), [width; 2], KERNEL, 1.0);
        layers.push(Box::new(Convolution { repeat: 2, ..doubling }));
        place += 2;
    }
    layers.push(Box::new(Block::new(builder, &name(place), width, false)));
    let last = Convolution::new(builder, &name(place + 1), [width, 3], KERNEL);
    layers.push(Box::new(last));
    layers
}
