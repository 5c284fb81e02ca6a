//! The layers of the OASIS ViT-VAE, a transformer over patches of 20 × 20 pixels, named as its authors do.
//!
//! Encoder: patches as tokens, blocks, a norm, a linear map to means and log-variances. Decoder: a linear
//! map from the latent, blocks, a norm, a linear map to the pixels of a patch. A block is x + attention(norm
//! x), x + MLP(norm x), heads of 64 channels. There is no table of positions: the first half of a head's
//! channels of queries and keys is turned, a quarter by the row and a quarter by the column of the token,
//! both in [−1, 1], at eight rates from π to π·(number of tokens)/2. The latent is the mean, times a factor
//! that gives it about unit variance. Pictures in [0, 1] are stretched to [−1, 1]; images are [N, H, W, C].

use super::autoencoder_network::{AutoencoderNetwork, Convolution};
use crate::layer::Pass;
use crate::layer::{Linear, Scaling};
use crate::{Error, Result};
use far_tensor::{
    Activation, ArenaBuilder, Attention, Checkpoint, Initialization, Padding, Parameters,
    RotaryTable, Tensor,
};
use std::path::Path;

/// Channels of a head, and those of a head that a coordinate turns.
const HEAD: usize = 64;
const TURNED: usize = HEAD / 4;
const EPSILON: f32 = 1e-6;
/// The largest sizes that a file may ask for.
const MOST_DEPTH: usize = 48;
const MOST_WIDTH: usize = 1 << 12;
const MOST_PATCH: usize = 1 << 6;

/// The structure, read from the shapes of a file's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VitVaeStructure {
    /// Channels of the latent, 16.
    pub channels: usize,
    /// Side of a patch in pixels, 20.
    pub patch: usize,
    /// Channels of a token, 1,024.
    pub width: usize,
    /// Channels inside the MLP, 4,096.
    pub hidden: usize,
    /// Blocks of the encoder and of the decoder, 6 and 12.
    pub depth: [usize; 2],
}

impl VitVaeStructure {
    /// What a file holds; `None` if it is of another family.
    pub(super) fn of(checkpoint: &Checkpoint, path: &Path) -> Result<Option<Self>> {
        let Some(embedding) = checkpoint.shape("patch_embed.proj.weight") else { return Ok(None) };
        let wrong = |reason: String| Err(Error::File { path: path.to_owned(), reason });
        let depth = ["encoder", "decoder"].map(|part| {
            let is_block = |place: &usize| {
                checkpoint.shape(&format!("{part}.{place}.attn.qkv.weight")).is_some()
            };
            (0..MOST_DEPTH).take_while(is_block).count()
        });
        let rows = |name: &str| checkpoint.shape(name).and_then(|shape| shape.first().copied());
        let (Some(hidden), Some(moments)) =
            (rows("encoder.0.mlp.fc1.weight"), rows("quant_conv.weight"))
        else {
            return wrong("it lacks an MLP or the map to the latent".to_owned());
        };
        let &[width, 3, patch, columns] = embedding.as_slice() else {
            return wrong(format!("`patch_embed.proj.weight` is {embedding:?}"));
        };
        let (channels, sizes) = (moments / 2, [moments / 2, width, hidden]);
        let sound = patch == columns
            && (1..=MOST_PATCH).contains(&patch)
            && width.is_multiple_of(HEAD)
            && sizes.iter().all(|size| (1..=MOST_WIDTH).contains(size));
        if !sound {
            return wrong(format!(
                "{sizes:?} channels in patches of {patch} are not of this family"
            ));
        }
        Ok(Some(Self { channels, patch, width, hidden, depth }))
    }
}

fn linear(builder: &mut ArenaBuilder, name: &str, sizes: [usize; 2]) -> Linear {
    Linear::new(builder, name, sizes, Initialization::Xavier, Initialization::Zero)
}

struct Block {
    norms: [Scaling; 2],
    qkv: Linear,
    leave: Linear,
    hidden: [Linear; 2],
}

impl Block {
    fn new(builder: &mut ArenaBuilder, name: &str, structure: VitVaeStructure) -> Self {
        let VitVaeStructure { width, hidden, .. } = structure;
        let mut linear = |part: &str, sizes| linear(builder, &format!("{name}.{part}"), sizes);
        let qkv = linear("attn.qkv", [width, 3 * width]);
        let leave = linear("attn.proj", [width; 2]);
        let hidden = [linear("mlp.fc1", [width, hidden]), linear("mlp.fc2", [hidden, width])];
        let norms =
            ["norm1", "norm2"].map(|part| Scaling::new(builder, &format!("{name}.{part}"), width));
        Self { norms, qkv, leave, hidden }
    }

    /// Tokens [N, T, D] → the same shape.
    fn forward(
        &self,
        pass: &mut Pass<'_>,
        x: &Tensor,
        turns: &RotaryTable,
    ) -> far_tensor::Result<Tensor> {
        let y = self.norms[0].layer_norm(pass, x, EPSILON)?;
        let y = self.qkv.forward(pass, &y)?;
        let y = pass.rotary(&y, 3, 2, turns)?;
        let (groups, heads) = (x.shape().extents()[0], x.shape().last() / HEAD);
        let y = pass.self_attention(&y, Attention { heads, groups, key_mask: None })?;
        let y = self.leave.forward(pass, &y)?;
        let x = pass.add(x, &y)?;
        let y = self.norms[1].layer_norm(pass, &x, EPSILON)?;
        let y = self.hidden[0].forward(pass, &y)?;
        let y = pass.activate(&y, Activation::Gelu)?;
        let y = self.hidden[1].forward(pass, &y)?;
        pass.add(&x, &y)
    }
}

/// Encoder and decoder.
pub(super) struct VitVaeNetwork {
    structure: VitVaeStructure,
    scale: f32,
    embedding: Convolution,
    encoder: Vec<Block>,
    encoder_norm: Scaling,
    moments: Linear,
    entrance: Linear,
    decoder: Vec<Block>,
    decoder_norm: Scaling,
    pixels: Linear,
}

impl VitVaeNetwork {
    pub(super) fn new(structure: VitVaeStructure, scale: f32, builder: &mut ArenaBuilder) -> Self {
        let VitVaeStructure { channels, patch, width, depth, .. } = structure;
        let embedding = Convolution::new(builder, "patch_embed.proj", [3, width], patch);
        let embedding =
            Convolution { stride: patch, padding: Some(Padding::default()), ..embedding };
        let mut blocks = |part: &str, depth: usize| -> Vec<Block> {
            (0..depth)
                .map(|place| Block::new(builder, &format!("{part}.{place}"), structure))
                .collect()
        };
        let (encoder, decoder) = (blocks("encoder", depth[0]), blocks("decoder", depth[1]));
        Self {
            structure,
            scale,
            embedding,
            encoder,
            encoder_norm: Scaling::new(builder, "enc_norm", width),
            moments: linear(builder, "quant_conv", [width, 2 * channels]),
            entrance: linear(builder, "post_quant_conv", [channels, width]),
            decoder,
            decoder_norm: Scaling::new(builder, "dec_norm", width),
            pixels: linear(builder, "predictor", [width, 3 * patch * patch]),
        }
    }
}

/// The angles of a grid of tokens. Pairs lie half a head apart here, not beside each other.
fn turns([rows, columns]: [usize; 2]) -> RotaryTable {
    let spread = |place: usize, count: usize| match count {
        1 => -1.0,
        _ => -1.0 + 2.0 * place as f64 / (count - 1) as f64,
    };
    let rates = TURNED / 2;
    let fastest = (rows * columns) as f64 / 2.0;
    let rate = |place: usize| 1.0 + (fastest - 1.0) * place as f64 / (rates - 1) as f64;
    let mut angles = Vec::with_capacity(rows * columns * HEAD / 2);
    for token in 0..rows * columns {
        let place = [spread(token / columns, rows), spread(token % columns, columns)];
        for pair in 0..HEAD / 2 {
            angles.push(match place.get(pair / rates) {
                Some(coordinate) => coordinate * rate(pair % rates) * std::f64::consts::PI,
                None => 0.0,
            });
        }
    }
    RotaryTable::from_angles(HEAD, &angles)
}

/// Count, rows and columns of images [N, H, W, C].
fn sides(images: &Tensor) -> [usize; 3] {
    let extents = images.shape().extents();
    [extents[0], extents[1], extents[2]]
}

/// For channels of a head with pairs half a head apart, where each lies with pairs side by side.
fn side_by_side(channel: usize) -> usize {
    let half = HEAD / 2;
    2 * (channel % half) + channel / half
}

impl AutoencoderNetwork for VitVaeNetwork {
    /// Brings the channels of queries and keys into the order that [`turns`] wants: both alike, so that
    /// their products stay what they were.
    fn settle(&self, parameters: &mut Parameters) -> far_tensor::Result<()> {
        let width = self.structure.width;
        for block in self.encoder.iter().chain(&self.decoder) {
            for id in [block.qkv.weight, block.qkv.bias] {
                let old = parameters.tensor(id).values().to_vec();
                let mut new = old.clone();
                for (place, value) in new.iter_mut().enumerate() {
                    let (row, column) = (place / (3 * width), place % (3 * width));
                    if column < 2 * width {
                        let head = column / HEAD * HEAD;
                        *value = old[row * 3 * width + head + side_by_side(column % HEAD)];
                    }
                }
                parameters.set(id, &new)?;
            }
        }
        Ok(())
    }

    fn encode(&self, pass: &mut Pass<'_>, pictures: &Tensor) -> far_tensor::Result<Tensor> {
        let VitVaeStructure { channels, width, .. } = self.structure;
        let stretched = pass.affine(pictures, 2.0, -1.0)?;
        let tokens = self.embedding.forward(pass, &stretched, None)?;
        let [count, rows, columns] = sides(&tokens);
        let mut x = tokens.reshape([count, rows * columns, width])?;
        let turns = turns([rows, columns]);
        for block in &self.encoder {
            x = block.forward(pass, &x, &turns)?;
        }
        let x = self.encoder_norm.layer_norm(pass, &x, EPSILON)?;
        let moments = self.moments.forward(pass, &x)?;
        let mean = pass.slice(&moments, 2, 0..channels)?;
        let mean = pass.affine(&mean, self.scale, 0.0)?;
        mean.reshape([count, rows, columns, channels])
    }

    fn decode(&self, pass: &mut Pass<'_>, latents: &Tensor) -> far_tensor::Result<Tensor> {
        let VitVaeStructure { channels, patch, .. } = self.structure;
        let [count, rows, columns] = sides(latents);
        let raw = pass.affine(latents, 1.0 / self.scale, 0.0)?;
        let raw = raw.reshape([count, rows * columns, channels])?;
        let mut x = self.entrance.forward(pass, &raw)?;
        let turns = turns([rows, columns]);
        for block in &self.decoder {
            x = block.forward(pass, &x, &turns)?;
        }
        let x = self.decoder_norm.layer_norm(pass, &x, EPSILON)?;
        let pixels = self.pixels.forward(pass, &x)?;
        // Each token has color, row and column of its patch, columns fastest.
        let pixels = pixels.reshape([count * rows, columns, 3, patch, patch])?;
        let pixels = pass.permute(&pixels, &[0, 3, 1, 4, 2])?;
        let pixels = pixels.reshape([count, rows * patch, columns * patch, 3])?;
        pass.affine(&pixels, 0.5, 0.5)
    }
}
