//! The vision transformers of DreamSim: ViT with a class token, as DINO and CLIP have it.
//!
//! Tokens are patches of the picture by a linear map, after a learned token \[CLS\], plus learned
//! positions. A block is x ← x + Attention(Norm(x)), x ← x + MLP(Norm(x)). CLIP's kind has one more norm
//! before the first block; its embedding is the normed \[CLS\] by a linear map. DINO's is \[CLS\] as the
//! last block leaves it.

use crate::layer::Pass;
use crate::layer::{Linear, Scaling};
use far_tensor::{
    Activation, ArenaBuilder, Attention, Checkpoint, Initialization, ParameterId, Result, Tape,
    Tensor,
};

far_memory::named! {
    /// A network of the ensemble.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum DreamSimBranch {
        /// Trained without labels.
        Dino = "dino",
        /// Trained on captions by OpenAI.
        Clip = "clip",
        /// The same trained on open data.
        OpenClip = "open_clip",
    }
}

impl DreamSimBranch {
    /// Mean and deviation of colors in [0, 1] that it was trained with.
    pub(super) fn colors(self) -> [[f32; 3]; 2] {
        match self {
            Self::Dino => [[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]],
            Self::Clip | Self::OpenClip => [
                [0.481_454_66, 0.457_827_5, 0.408_210_73],
                [0.268_629_54, 0.261_302_6, 0.275_777_1],
            ],
        }
    }

    /// Whether it has a norm before the first block and an embedding after the last norm.
    fn is_clip(self) -> bool {
        self != Self::Dino
    }

    /// ε of the norms.
    fn epsilon(self) -> f32 {
        if self.is_clip() { 1e-5 } else { 1e-6 }
    }
}

/// The sizes of a network, as its tensors have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Patches along one side of the picture.
    pub grid: usize,
    width: usize,
    depth: usize,
    heads: usize,
    /// MLP's hidden channels.
    hidden: usize,
    /// Numbers of an embedding.
    embedding: usize,
}

impl Sizes {
    /// The sizes of a branch in a file, or what is wrong with them.
    pub fn of(
        checkpoint: &Checkpoint,
        branch: DreamSimBranch,
        heads: usize,
    ) -> std::result::Result<Self, String> {
        let name = branch.name();
        let matrix = |tensor: &str| -> std::result::Result<[usize; 2], String> {
            let tensor = format!("{name}.{tensor}");
            let shape = checkpoint.shape(&tensor).ok_or_else(|| format!("it has no {tensor}"))?;
            shape.try_into().map_err(|shape: Vec<usize>| format!("{tensor} is {shape:?}"))
        };
        let [width, inputs] = matrix("patch_embed.proj.weight")?;
        let [tokens, positioned] = matrix("pos_embed")?;
        let root = |square: usize| (square as f64).sqrt().round() as usize;
        let (patch, grid) = (root(inputs / 3), root(tokens.saturating_sub(1)));
        if patch == 0 || grid == 0 || 3 * patch * patch != inputs || grid * grid + 1 != tokens {
            return Err(format!("{name} has {inputs} inputs per patch and {tokens} tokens"));
        }
        if positioned != width || heads == 0 || width == 0 || !width.is_multiple_of(heads) {
            return Err(format!("{heads} heads do not divide the width {width} of {name}"));
        }
        let depth = (0..)
            .take_while(|block| {
                checkpoint.shape(&format!("{name}.blocks.{block}.norm1.weight")).is_some()
            })
            .count();
        let [hidden, _] = matrix("blocks.0.mlp.fc1.weight")?;
        // The large tensors are as the others say, so that a small file asks for little memory.
        for block in 0..depth {
            for (part, expected) in [
                ("attn.qkv", [3 * width, width]),
                ("attn.proj", [width, width]),
                ("mlp.fc1", [hidden, width]),
                ("mlp.fc2", [width, hidden]),
            ] {
                let tensor = format!("blocks.{block}.{part}.weight");
                let found = matrix(&tensor)?;
                if found != expected {
                    return Err(format!("{name}.{tensor} is {found:?}, not {expected:?}"));
                }
            }
        }
        let embedding = if branch.is_clip() { matrix("proj")?[1] } else { width };
        Ok(Self { patch, grid, width, depth, heads, hidden, embedding })
    }

    /// Side of the picture in pixels.
    pub fn side(&self) -> usize {
        self.patch * self.grid
    }
}

struct Block {
    norms: [Scaling; 2],
    attention: [Linear; 2],
    mlp: [Linear; 2],
}

/// One network; its parameters live in the arena it was built into.
pub(super) struct Transformer {
    pub branch: DreamSimBranch,
    pub sizes: Sizes,
    patches: Linear,
    class: ParameterId,
    positions: ParameterId,
    before: Option<Scaling>,
    blocks: Vec<Block>,
    /// The last norm and the map to the embedding.
    after: Option<(Scaling, ParameterId)>,
}

impl Transformer {
    pub fn new(builder: &mut ArenaBuilder, branch: DreamSimBranch, sizes: Sizes) -> Self {
        // All values come from a file: how they begin does not matter.
        let zero = Initialization::Zero;
        let Sizes { patch, grid, width, depth, hidden, embedding, .. } = sizes;
        let name = branch.name();
        let clip = branch.is_clip();
        let linear = |builder: &mut ArenaBuilder, part: &str, sizes: [usize; 2]| {
            Linear::new(builder, &format!("{name}.{part}"), sizes, zero, zero)
        };
        let blocks = (0..depth).map(|number| {
            let part = |part: &str| format!("blocks.{number}.{part}");
            Block {
                norms: ["norm1", "norm2"]
                    .map(|norm| Scaling::new(builder, &format!("{name}.{}", part(norm)), width)),
                attention: [("attn.qkv", [width, 3 * width]), ("attn.proj", [width, width])]
                    .map(|(own, sizes)| linear(builder, &part(own), sizes)),
                mlp: [("mlp.fc1", [width, hidden]), ("mlp.fc2", [hidden, width])]
                    .map(|(own, sizes)| linear(builder, &part(own), sizes)),
            }
        });
        let blocks = blocks.collect();
        Self {
            branch,
            sizes,
            blocks,
            patches: linear(builder, "patch_embed.proj", [3 * patch * patch, width]),
            class: builder.parameter(format!("{name}.cls_token"), [1, width], zero),
            positions: builder.parameter(
                format!("{name}.pos_embed"),
                [grid * grid + 1, width],
                zero,
            ),
            before: clip.then(|| Scaling::new(builder, &format!("{name}.pos_drop"), width)),
            after: clip.then(|| {
                let projection =
                    builder.parameter(format!("{name}.proj"), [width, embedding], zero);
                (Scaling::new(builder, &format!("{name}.norm"), width), projection)
            }),
        }
    }

    /// Embeddings [n, E] of pictures whose patches are [n, grid², 3·patch²], colors first, then rows.
    pub fn forward(&self, pass: &mut Pass<'_>, patches: &Tensor) -> Result<Tensor> {
        let (epsilon, heads) = (self.branch.epsilon(), self.sizes.heads);
        let count = patches.shape().extents()[0];
        let tokens = self.patches.forward(pass, patches)?;
        let class = pass.tape.repeat(&pass.parameters.tensor(self.class), 0, count)?;
        let mut x = pass.concat(&[&class, &tokens], 1)?;
        let positions = pass.tape.repeat(&pass.parameters.tensor(self.positions), 0, count)?;
        x = pass.add(&x, &positions)?;
        if let Some(norm) = &self.before {
            x = norm.layer_norm(pass, &x, epsilon)?;
        }
        for Block { norms, attention: [qkv, out], mlp: [first, second] } in &self.blocks {
            let normed = norms[0].layer_norm(pass, &x, epsilon)?;
            let normed = qkv.forward(pass, &normed)?;
            let attention = Attention { heads, groups: count, key_mask: None };
            let attended = pass.self_attention(&normed, attention)?;
            let attended = out.forward(pass, &attended)?;
            x = pass.add(&x, &attended)?;
            let normed = norms[1].layer_norm(pass, &x, epsilon)?;
            let hidden = first.forward(pass, &normed)?;
            let hidden = self.activate(pass, &hidden)?;
            let hidden = second.forward(pass, &hidden)?;
            x = pass.add(&x, &hidden)?;
        }
        let class = pass.slice(&x, 1, 0..1)?.reshape([count, self.sizes.width])?;
        match &self.after {
            None => Ok(class),
            Some((norm, projection)) => {
                let class = norm.layer_norm(pass, &class, epsilon)?;
                pass.tape.linear(&class, &pass.parameters.tensor(*projection), None)
            }
        }
    }

    /// GELU, which OpenAI's CLIP has as x·σ(1.702·x).
    fn activate(&self, tape: &mut Tape, x: &Tensor) -> Result<Tensor> {
        if self.branch != DreamSimBranch::Clip {
            return tape.activate(x, Activation::Gelu);
        }
        let steep = tape.affine(x, 1.702, 0.0)?;
        let gate = tape.activate(&steep, Activation::Sigmoid)?;
        tape.multiply(x, &gate)
    }
}
