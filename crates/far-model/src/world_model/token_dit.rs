//! The plain network around the block: tokens in, alternating blocks, tokens out.
//!
//! It is what engines are compared with (`far bench train`): the world model's own block between
//! two linear maps, conditioned on one vector per sample.

use crate::layer::Linear;
use crate::layer::Pass;
use crate::world_model::block::{Block, Grouping};
use crate::world_model::block_config::BlockConfig;
use far_tensor::{Activation, ArenaBuilder, Initialization, Result, Tensor};

/// The settings of a [`TokenDit`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenDitConfig {
    /// Blocks, of which every second one attends over all frames.
    pub depth: usize,
    /// Channels of a token at the input and at the output.
    pub channels: usize,
    /// The block.
    pub block: BlockConfig,
}

/// Tokens [B, F, N, channels] and a condition [B, D] to tokens of the same shape.
pub struct TokenDit {
    input: Linear,
    blocks: Vec<Block>,
    output: Linear,
}

impl TokenDit {
    /// Adds the network's parameters.
    pub fn new(builder: &mut ArenaBuilder, config: TokenDitConfig) -> Self {
        let width = config.block.width;
        let mut plain = |name: &str, sizes| {
            Linear::new(builder, name, sizes, Initialization::Xavier, Initialization::Zero)
        };
        let input = plain("inp", [config.channels, width]);
        let output = plain("out", [width, config.channels]);
        let blocks = (0..config.depth)
            .map(|index| Block::new(builder, &format!("blocks.{index}"), config.block))
            .collect();
        Self { input, blocks, output }
    }

    /// x [B, F, N, channels], condition [B, D] → [B, F, N, channels].
    ///
    /// # Errors
    /// If a shape does not fit.
    pub fn forward(&self, pass: &mut Pass<'_>, x: &Tensor, condition: &Tensor) -> Result<Tensor> {
        let samples = condition.shape().rows();
        let frames = x.shape().extents().iter().rev().skip(2).product::<usize>();
        let condition = pass.activate(condition, Activation::Silu)?;
        let x = self.input.forward(pass, x)?;
        let x = Block::chain(&self.blocks, pass, x, &condition, |index| {
            let groups = if index.is_multiple_of(2) { frames } else { samples };
            Grouping { groups, key_mask: None }
        })?;
        self.output.forward(pass, &x)
    }
}
