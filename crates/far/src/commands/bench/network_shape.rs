//! The sizes that engines are compared at, and what a training step costs at least.

use super::yardstick::Work;
use clap::ValueEnum;
use far_model::LatentShape;

/// Numbers of a token at the input and the output.
pub const CHANNELS: usize = 16;

/// The shapes that peers are measured with.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum NetworkShape {
    /// Depth 4, width 128, 4 heads, 16 tokens per frame; training: batch 8 of 5 frames.
    Small,
    /// Depth 6, width 256, 4 heads, 16 tokens per frame; training: batch 16 of 5 frames.
    Medium,
    /// Depth 6, width 256, 4 heads, 64 tokens per frame; training: batch 64 of 5 frames.
    GpuSmall,
    /// Depth 12, width 768, 12 heads, 256 tokens per frame; training: batch 32 of 5 frames.
    Paper,
}

/// A shape in numbers.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Blocks.
    pub depth: usize,
    /// Channels of a token inside.
    pub width: usize,
    /// Heads.
    pub heads: usize,
    /// Examples of a training step.
    pub batch: usize,
    /// Frames of a training example.
    pub frames: usize,
    /// Rows and columns of tokens of a frame.
    pub grid: usize,
}

impl NetworkShape {
    /// As written on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// In numbers.
    pub fn sizes(self) -> Sizes {
        let [depth, width, heads, batch, frames, grid] = match self {
            Self::Small => [4, 128, 4, 8, 5, 4],
            Self::Medium => [6, 256, 4, 16, 5, 4],
            Self::GpuSmall => [6, 256, 4, 64, 5, 8],
            Self::Paper => [12, 768, 12, 32, 5, 16],
        };
        Sizes { depth, width, heads, batch, frames, grid }
    }
}

impl Sizes {
    /// Tokens of a frame.
    pub fn tokens(&self) -> usize {
        self.grid * self.grid
    }

    /// Latents of as many tokens of [`CHANNELS`] numbers.
    pub fn latent(&self) -> LatentShape {
        LatentShape {
            channels: CHANNELS / 4,
            height: 2 * self.grid,
            width: 2 * self.grid,
            patch: 2,
        }
    }

    /// What a training step of `parameters` parameters cannot do without.
    ///
    /// Operations: the backward of a product costs two more, that of attention two and a half (it
    /// computes the scores again).
    ///
    /// Bytes: of an activation that the backward needs, one write and one read: in every block and
    /// for every token the two inputs and two results of the norms, queries, keys and values, what
    /// attention gathered, and the MLP's hidden channels before and after GELU, 16 widths in all. Of
    /// a parameter, in f32: its gradient, itself and its two moments, each read and written, and one
    /// copy in the precision of activations, written once and read forward and backward. Gradients
    /// of activations are taken to pass from one kernel to the next without touching memory.
    pub fn training(&self, parameters: usize, number_bytes: f64) -> Work {
        let Self { depth, width, batch, frames, .. } = *self;
        let tokens = self.tokens();
        let rows = (batch * frames * tokens) as f64;
        let wide = width as f64;
        let block = 2.0 * rows * 12.0 * wide * wide + 2.0 * batch as f64 * 6.0 * wide * wide;
        let ends = 2.0 * rows * 2.0 * wide * CHANNELS as f64;
        let attention = |keys: usize| 4.0 * rows * keys as f64 * wide;
        let global = depth / 2;
        let scores = (depth - global) as f64 * attention(tokens)
            + global as f64 * attention(frames * tokens);
        let kept = 16.0 * depth as f64 * rows * wide;
        Work {
            operations: 3.0 * (depth as f64 * block + ends) + 3.5 * scores,
            bytes: 2.0 * kept * number_bytes + parameters as f64 * (8.0 * 4.0 + 3.0 * number_bytes),
        }
    }
}
