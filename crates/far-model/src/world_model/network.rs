//! The world model's network: noisy target and context frames through one diffusion transformer.
//!
//! Tokens of all frames pass blocks that attend, in turn, inside each frame and over all frames.
//! In `joint` attention (the paper) every token reads every other. In `context-first` attention the
//! context never reads the target. Nothing is computed twice, and nothing that no output needs:
//!
//! * What does not depend on the noise is computed once per context and serves all noise levels and
//!   all denoising steps: in joint attention embedding and block 0 of the context frames, their
//!   projections into block 1 and their modulations in all blocks; in context-first attention all.
//! * Frames that contexts share, such as the present of all candidates, pass block 0 once.
//! * Only the target leaves the network. In the last block over all frames a context is read but
//!   does not read, and behind it the target goes alone.

use crate::layer::Linear;
use crate::layer::Pass;
use crate::world_model::block::{Block, Entered, Grouping};
use crate::world_model::block_config::BlockConfig;
use crate::world_model::config::DitConfig;
use crate::world_model::embedding::FrameEmbedding;
use crate::world_model::extension::copy_head::CopyHead;
use crate::world_model::extension::goal_state::predictor::StatePredictor;
use crate::{GoalWarp, LatentShape, SignalLayout};
use far_tensor::{ArenaBuilder, Initialization, Result, Tape, Tensor, position_table};
use std::sync::Arc;

/// The network; its parameters live in the arena it was built into.
pub(crate) struct DitNetwork {
    pub(crate) config: DitConfig,
    pub(crate) shape: LatentShape,
    positions: Tensor,
    pub(crate) embedding: FrameEmbedding,
    input: Linear,
    pub(crate) blocks: Vec<Block>,
    pub(crate) final_modulation: Linear,
    pub(crate) output: Linear,
    /// Where frames are shown as from the goal, how, and how far away things are taken to stand.
    pub(crate) view: Option<(Arc<GoalWarp>, f32)>,
    /// Where tokens of the context can be copied, what copies them.
    pub(crate) copy: Option<CopyHead>,
    /// Where frames have states, what predicts that at the goal.
    pub(crate) predictor: Option<StatePredictor>,
}

impl DitNetwork {
    /// Adds the parameters, named and initialized as DiT's; the network begins by predicting zero
    /// or, where it copies, what the nearest frame of its context shows.
    pub(crate) fn new(
        builder: &mut ArenaBuilder,
        config: DitConfig,
        shape: LatentShape,
        signals: SignalLayout,
        view: Option<(Arc<GoalWarp>, f32)>,
    ) -> crate::Result<Self> {
        config.check()?;
        let DitConfig { width, heads, .. } = config;
        let [rows, columns] = shape.grid();
        let token = shape.token_width();
        let zero = Initialization::Zero;
        let input =
            Linear::new(builder, "x_embedder.proj", [token, width], Initialization::Xavier, zero);
        let embedding = FrameEmbedding::new(builder, width, signals);
        let block = BlockConfig::new(width, heads);
        let blocks = (0..config.depth)
            .map(|index| Block::new(builder, &format!("blocks.{index}"), block))
            .collect();
        let modulation = "final_layer.adaLN_modulation.1";
        let final_modulation = Linear::new(builder, modulation, [width, 2 * width], zero, zero);
        let outputs = if config.learned_variance { 2 * token } else { token };
        let output = Linear::new(builder, "final_layer.linear", [width, outputs], zero, zero);
        let copy = config.copy.then(|| CopyHead::new(builder, width, shape)).transpose()?;
        let state = signals.goal_state.is_present();
        let predictor = state.then(|| StatePredictor::new(builder, signals));
        let positions = position_table(rows, columns, width)?;
        Ok(Self {
            config,
            shape,
            positions,
            embedding,
            input,
            blocks,
            final_modulation,
            output,
            view,
            copy,
            predictor,
        })
    }

    /// The last block over all frames; there is one.
    pub(crate) fn last(&self) -> usize {
        self.blocks.len() / 2 * 2 - 1
    }

    /// Tokens [m, T, P] as channels, with their positions: [m, T, D].
    pub(crate) fn embed(&self, pass: &mut Pass<'_>, tokens: &Tensor) -> Result<Tensor> {
        let frames = tokens.shape().elements() / self.shape.elements();
        let embedded = self.input.forward(pass, tokens)?;
        let positions = pass.repeat(&self.positions, 0, frames)?;
        let embedded = embedded.reshape(*positions.shape())?;
        pass.add(&embedded, &positions)
    }

    /// Keys and values of frames [n·f, T, 2·D] by prediction: [n, f·T, 2·D].
    pub(crate) fn keys_of(&self, keys: &Tensor, predictions: usize) -> Result<Tensor> {
        let rows = keys.shape().rows() / predictions;
        keys.reshape([predictions, rows, 2 * self.config.width])
    }

    /// Frames that have entered block 1, from there through all blocks before the last over all
    /// frames; `modulations` are those from block 2 on. `seen` is called with them in each block over
    /// all frames.
    pub(crate) fn together(
        &self,
        pass: &mut Pass<'_>,
        entered: Entered,
        modulations: &[Tensor],
        grouping: Grouping<'_>,
        mut seen: impl FnMut(&mut Tape, &Entered) -> Result<()>,
    ) -> Result<Tensor> {
        let inside = Grouping { groups: entered.x.shape().extents()[0], key_mask: None };
        let blocks = &self.blocks[1..modulations.len() + 2];
        let modulation = |_: &mut Pass<'_>, place: usize| Ok(modulations[place - 1].clone());
        Block::run(blocks, pass, entered, modulation, |pass, place, entered| {
            if !place.is_multiple_of(2) {
                return blocks[place].attend(pass, entered, inside);
            }
            seen(pass, entered)?;
            blocks[place].attend(pass, entered, grouping)
        })
    }
}

/// Gives each of `count` equal parts of x [count·f, …] to so many draws: [count·draws·f, …].
pub(crate) fn repeat(tape: &mut Tape, x: &Tensor, count: usize, draws: usize) -> Result<Tensor> {
    if draws == 1 {
        return Ok(x.clone());
    }
    let mut extents = x.shape().extents().to_vec();
    extents[0] *= draws;
    let parts = x.reshape([count, x.shape().elements() / count])?;
    tape.repeat(&parts, 1, draws)?.reshape(&extents[..])
}

#[cfg(test)]
mod tests;
