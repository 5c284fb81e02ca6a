//! The layers of the TAESD family: an encoder and a decoder of 3×3 convolutions and ReLU.
//!
//! Encoder: a convolution from 3 channels, a block; three times a convolution that halves the picture and
//! three blocks; a convolution to the latent. Decoder: 3·tanh(x/3), a convolution with ReLU; three times
//! three blocks, pixels repeated twice and a convolution; a block, a convolution to 3 channels. A block is
//! relu(x + three convolutions with ReLU between them). In some members of the family the blocks of the
//! latent's resolution look at the whole picture first: x + W₂·relu(GroupNorm₄(W₁·x)) with four times the
//! channels inside. Parameters are named by their place in the published sequences of modules; images
//! are [N, H, W, C].

use far_tensor::{
    Activation, ArenaBuilder, Filter, Initialization, ParameterId, Parameters, Result, Tape, Tensor,
};

/// Side of most windows.
const KERNEL: usize = 3;
/// Halvings of a picture, and so stages.
const STAGES: usize = 3;
/// Blocks of a stage.
const BLOCKS: usize = 3;
/// Groups of the norm over the whole picture, and channels inside for each outside.
const GROUPS: usize = 4;
const WIDENED: usize = 4;
/// Latents are bent to (−3, 3) before they are decoded.
const BOUND: f32 = 3.0;

/// What tells the members of the family apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaesdStructure {
    /// Channels of the latent: 4 for SD and SDXL, 16 for SD 3 and FLUX.1, 32 for FLUX.2.
    pub channels: usize,
    /// Channels inside; 64 in everything published.
    pub width: usize,
    /// Whether the blocks of the latent's resolution look at the whole picture.
    pub looks_at_all: bool,
}

impl TaesdStructure {
    /// How many times smaller a latent is than its picture, each way.
    pub const REDUCTION: usize = 1 << STAGES;
}

/// A convolution: its window is 3×3 or 1×1.
struct Convolution {
    weight: ParameterId,
    bias: Option<ParameterId>,
    stride: usize,
    repeat: usize,
    relu: bool,
}

impl Convolution {
    fn new(builder: &mut ArenaBuilder, name: &str, [inputs, outputs]: [usize; 2]) -> Self {
        let bias = builder.parameter(format!("{name}.bias"), [outputs], Initialization::Zero);
        Self { bias: Some(bias), ..Self::unbiased(builder, name, [inputs, outputs], KERNEL) }
    }

    fn unbiased(
        builder: &mut ArenaBuilder,
        name: &str,
        [inputs, outputs]: [usize; 2],
        kernel: usize,
    ) -> Self {
        let deviation = (2.0 / (inputs * kernel * kernel) as f32).sqrt();
        let shape = [outputs, inputs, kernel, kernel];
        let begin = Initialization::Normal(deviation);
        let weight = builder.parameter(format!("{name}.weight"), shape, begin);
        Self { weight, bias: None, stride: 1, repeat: 1, relu: false }
    }

    fn forward(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        x: &Tensor,
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        let weight = parameters.tensor(self.weight);
        let bias = self.bias.map(|bias| parameters.tensor(bias));
        let filter = Filter {
            bias: bias.as_ref(),
            stride: [self.stride; 2],
            repeat: self.repeat,
            residual,
            relu: self.relu,
            ..Filter::same(&weight)
        };
        tape.convolution_channels_last(x, &filter)
    }
}

/// A look at the whole picture.
struct Look {
    widen: Convolution,
    scale: ParameterId,
    shift: ParameterId,
    narrow: Convolution,
}

impl Look {
    fn new(builder: &mut ArenaBuilder, name: &str, width: usize) -> Self {
        let inside = WIDENED * width;
        let widen = Convolution::unbiased(builder, &format!("{name}.pool.0"), [width, inside], 1);
        let mut norm =
            |part: &str, begin| builder.parameter(format!("{name}.pool.1.{part}"), [inside], begin);
        let scale = norm("weight", Initialization::One);
        let shift = norm("bias", Initialization::Zero);
        let narrow = Convolution::unbiased(builder, &format!("{name}.pool.3"), [inside, width], 1);
        Self { widen, scale, shift, narrow }
    }

    fn forward(&self, tape: &mut Tape, parameters: &Parameters, x: &Tensor) -> Result<Tensor> {
        let [scale, shift] = [self.scale, self.shift].map(|id| parameters.tensor(id));
        let inside = self.widen.forward(tape, parameters, x, None)?;
        let inside = tape.group_norm_channels_last(&inside, GROUPS, &scale, &shift, 1e-5)?;
        let inside = tape.activate(&inside, Activation::Relu)?;
        self.narrow.forward(tape, parameters, &inside, Some(x))
    }
}

struct Block {
    look: Option<Look>,
    convolutions: [Convolution; 3],
}

impl Block {
    fn new(builder: &mut ArenaBuilder, name: &str, width: usize, looks: bool) -> Self {
        // Counted with the activations between them.
        let convolutions = [0, 2, 4].map(|place| {
            let name = format!("{name}.conv.{place}");
            Convolution { relu: true, ..Convolution::new(builder, &name, [width, width]) }
        });
        Self { look: looks.then(|| Look::new(builder, name, width)), convolutions }
    }

    fn forward(&self, tape: &mut Tape, parameters: &Parameters, x: &Tensor) -> Result<Tensor> {
        let x = match &self.look {
            Some(look) => look.forward(tape, parameters, x)?,
            None => x.clone(),
        };
        let [first, second, third] = &self.convolutions;
        let y = first.forward(tape, parameters, &x, None)?;
        let y = second.forward(tape, parameters, &y, None)?;
        third.forward(tape, parameters, &y, Some(&x))
    }
}

enum Layer {
    Convolution(Convolution),
    Block(Box<Block>),
}

impl Layer {
    fn block(block: Block) -> Self {
        Self::Block(Box::new(block))
    }
}

/// Layers in order.
struct Sequence(Vec<Layer>);

impl Sequence {
    fn forward(&self, tape: &mut Tape, parameters: &Parameters, x: Tensor) -> Result<Tensor> {
        self.0.iter().try_fold(x, |x, layer| match layer {
            Layer::Convolution(convolution) => convolution.forward(tape, parameters, &x, None),
            Layer::Block(block) => block.forward(tape, parameters, &x),
        })
    }
}

/// Encoder and decoder; their numbers are in the arena they were built into.
pub(super) struct TaesdNetwork {
    encoder: Sequence,
    decoder: Sequence,
}

impl TaesdNetwork {
    pub(super) fn new(structure: TaesdStructure, builder: &mut ArenaBuilder) -> Self {
        Self { encoder: encoder(structure, builder), decoder: decoder(structure, builder) }
    }

    /// Pictures [N, H, W, 3] in [0, 1] to latents [N, H/8, W/8, C].
    pub(super) fn encode(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        pictures: &Tensor,
    ) -> Result<Tensor> {
        self.encoder.forward(tape, parameters, pictures.clone())
    }

    /// Latents [N, h, w, C] to pictures [N, 8h, 8w, 3] about [0, 1].
    pub(super) fn decode(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        latents: &Tensor,
    ) -> Result<Tensor> {
        let bent = tape.affine(latents, 1.0 / BOUND, 0.0)?;
        let bent = tape.activate(&bent, Activation::Tanh)?;
        let bent = tape.affine(&bent, BOUND, 0.0)?;
        self.decoder.forward(tape, parameters, bent)
    }
}

fn encoder(structure: TaesdStructure, builder: &mut ArenaBuilder) -> Sequence {
    let TaesdStructure { channels, width, looks_at_all } = structure;
    let name = |place: usize| format!("encoder.{place}");
    let mut layers = vec![
        Layer::Convolution(Convolution::new(builder, &name(0), [3, width])),
        Layer::block(Block::new(builder, &name(1), width, false)),
    ];
    for stage in 0..STAGES {
        let halving = Convolution::unbiased(builder, &name(layers.len()), [width; 2], KERNEL);
        layers.push(Layer::Convolution(Convolution { stride: 2, ..halving }));
        let looks = looks_at_all && stage + 1 == STAGES;
        for _ in 0..BLOCKS {
            layers.push(Layer::block(Block::new(builder, &name(layers.len()), width, looks)));
        }
    }
    let last = Convolution::new(builder, &name(layers.len()), [width, channels]);
    layers.push(Layer::Convolution(last));
    Sequence(layers)
}

fn decoder(structure: TaesdStructure, builder: &mut ArenaBuilder) -> Sequence {
    let TaesdStructure { channels, width, looks_at_all } = structure;
    let name = |place: usize| format!("decoder.{place}");
    // The bend is at place 0, an activation at 2, and repeating pixels has a place of its own.
    let first = Convolution::new(builder, &name(1), [channels, width]);
    let mut layers = vec![Layer::Convolution(Convolution { relu: true, ..first })];
    let mut place = 3;
    for stage in 0..STAGES {
        for _ in 0..BLOCKS {
            let looks = looks_at_all && stage == 0;
            layers.push(Layer::block(Block::new(builder, &name(place), width, looks)));
            place += 1;
        }
        let doubling = Convolution::unbiased(builder, &name(place + 1), [width; 2], KERNEL);
        layers.push(Layer::Convolution(Convolution { repeat: 2, ..doubling }));
        place += 2;
    }
    layers.push(Layer::block(Block::new(builder, &name(place), width, false)));
    let last = Convolution::new(builder, &name(place + 1), [width, 3]);
    layers.push(Layer::Convolution(last));
    Sequence(layers)
}
