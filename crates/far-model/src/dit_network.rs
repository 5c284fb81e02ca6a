//! The world model's network: noisy target and context frames through one diffusion transformer.
//!
//! Tokens of all frames pass blocks that attend, in turn, inside each frame and over all frames.
//! In `joint` attention (the paper) every token reads every other. In `context-first` attention the
//! context never reads the target: its keys and values do not depend on the noise, and are computed
//! once for all noise levels and all denoising steps.

use crate::context::ContextBatch;
use crate::dit::{Block, BlockConfig, Linear};
use crate::frame_embedding::FrameEmbedding;
use crate::{Error, LatentShape};
use far_tensor::{
    ArenaBuilder, Attention, Initialization, Modulation, Parameters, Prediction, Result, Tape,
    Tensor, position_table,
};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Who reads whom in attention over all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContextAttention {
    /// Every frame reads every other. Paper.
    #[default]
    Joint,
    /// Context frames read each other; the target reads all.
    ContextFirst,
}

/// What the network predicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredictionKind {
    /// The noise ε. Paper.
    #[default]
    Noise,
    /// The velocity √ᾱ·ε − √(1−ᾱ)·x_0; learns much faster in short runs.
    Velocity,
}

impl From<PredictionKind> for Prediction {
    fn from(kind: PredictionKind) -> Self {
        match kind {
            PredictionKind::Noise => Self::Noise,
            PredictionKind::Velocity => Self::Velocity,
        }
    }
}

/// The settings of the network; the defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DitConfig {
    /// Blocks in all, every second one over all frames. Paper: 12; whether that counts pairs it does
    /// not say.
    pub depth: usize,
    /// Channels of a token. Paper: 768.
    pub width: usize,
    /// Heads. Paper: 12.
    pub heads: usize,
    /// Who reads whom.
    pub attention: ContextAttention,
    /// What is predicted.
    pub prediction: PredictionKind,
    /// Whether the network also learns the variance of each step, by the variational bound. Paper:
    /// yes.
    pub learned_variance: bool,
    /// Weight of the bound in the loss. DiT: 1.
    pub bound_weight: f32,
    /// Whether frames know their pose from the goal as well as from the present.
    pub goal_relative: bool,
    /// Whether queries and keys are normalized per head, as in VGGT.
    pub query_key_norm: bool,
}

impl Default for DitConfig {
    fn default() -> Self {
        Self {
            depth: 12,
            width: 768,
            heads: 12,
            attention: ContextAttention::Joint,
            prediction: PredictionKind::Noise,
            learned_variance: true,
            bound_weight: 1.0,
            goal_relative: true,
            query_key_norm: true,
        }
    }
}

impl DitConfig {
    /// Checks that the sizes make a network.
    ///
    /// # Errors
    /// Naming the setting that does not.
    pub fn check(&self) -> crate::Result<()> {
        let wrong =
            |setting, reason: &str| Err(Error::Setting { setting, reason: reason.to_owned() });
        if self.depth < 2 {
            return wrong("world_model.depth", "two blocks are needed to read a context");
        }
        if self.heads == 0 || !self.width.is_multiple_of(self.heads) {
            return wrong("world_model.heads", "they must divide the width");
        }
        if !self.width.is_multiple_of(4) || self.width == 0 {
            return wrong("world_model.width", "it must be a positive multiple of 4");
        }
        if !(self.bound_weight >= 0.0 && self.bound_weight.is_finite()) {
            return wrong("world_model.bound_weight", "it must be zero or more");
        }
        Ok(())
    }
}

/// The network; its parameters live in the arena it was built into.
pub(crate) struct DitNetwork {
    pub(crate) config: DitConfig,
    pub(crate) shape: LatentShape,
    positions: Tensor,
    embedding: FrameEmbedding,
    input: Linear,
    blocks: Vec<Block>,
    final_modulation: Linear,
    output: Linear,
}

/// What a context leaves for its targets: keys and values of every block over all frames.
pub(crate) struct ContextState {
    /// [n, (1 + K)·T, 2·D] for every second block.
    keys: Vec<Tensor>,
}

impl DitNetwork {
    /// Adds the parameters, named and initialized as DiT's; the network begins by predicting zero.
    pub(crate) fn new(
        builder: &mut ArenaBuilder,
        config: DitConfig,
        shape: LatentShape,
        signals: usize,
    ) -> crate::Result<Self> {
        config.check()?;
        let DitConfig { width, heads, .. } = config;
        let [rows, columns] = shape.grid();
        let token = shape.token_width();
        let zero = Initialization::Zero;
        let input =
            Linear::new(builder, "x_embedder.proj", [token, width], Initialization::Xavier, zero);
        let embedding = FrameEmbedding::new(builder, width, signals, config.goal_relative);
        let block =
            BlockConfig { query_key_norm: config.query_key_norm, ..BlockConfig::new(width, heads) };
        let blocks = (0..config.depth)
            .map(|index| Block::new(builder, &format!("blocks.{index}"), block))
            .collect();
        let modulation = "final_layer.adaLN_modulation.1";
        let final_modulation = Linear::new(builder, modulation, [width, 2 * width], zero, zero);
        let outputs = if config.learned_variance { 2 * token } else { token };
        let output = Linear::new(builder, "final_layer.linear", [width, outputs], zero, zero);
        let positions = position_table(rows, columns, width)?;
        Ok(Self { config, shape, positions, embedding, input, blocks, final_modulation, output })
    }

    /// The network's output for S noisy versions `noisy` [n·S, T, P] of the targets of predictions
    /// `range`: [n·S, T, P], or 2·P where the variance is learned.
    pub(crate) fn forward(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        contexts: &ContextBatch,
        range: Range<usize>,
        noisy: &Tensor,
        timesteps: &[f32],
    ) -> Result<Tensor> {
        match self.config.attention {
            ContextAttention::Joint => {
                self.joint(tape, parameters, contexts, range, noisy, timesteps)
            }
            ContextAttention::ContextFirst => {
                let state = self.read_context(tape, parameters, contexts, range.clone())?;
                self.target(tape, parameters, contexts, range, &state, noisy, timesteps)
            }
        }
    }

    /// Tokens [m, T, P] as channels, with their positions: [m, T, D].
    fn embed(&self, tape: &mut Tape, parameters: &Parameters, tokens: &Tensor) -> Result<Tensor> {
        let frames = tokens.shape().elements() / self.shape.elements();
        let embedded = self.input.forward(tape, parameters, tokens)?;
        let positions = tape.repeat(&self.positions, 0, frames)?;
        let embedded = embedded.reshape(*positions.shape())?;
        tape.add(&embedded, &positions)
    }

    /// The latents of context frames as a tensor [n·(1 + K), T, P].
    fn context_tokens(&self, contexts: &ContextBatch, range: Range<usize>) -> Result<Tensor> {
        let (frames, elements) = (1 + contexts.slots(), self.shape.elements());
        let values =
            &contexts.latents()[range.start * frames * elements..range.end * frames * elements];
        let sizes = [range.len() * frames, self.shape.tokens(), self.shape.token_width()];
        Tensor::from_slice(values, sizes)
    }

    /// Which tokens can be read, [n·S, frames·T], with `before` and `after` frames that always can.
    fn mask(
        &self,
        contexts: &ContextBatch,
        range: Range<usize>,
        draws: usize,
        [before, after]: [usize; 2],
    ) -> Result<Option<Tensor>> {
        let slots = contexts.slots();
        let present = &contexts.present()[range.start * slots..range.end * slots];
        if present.iter().all(|present| *present) {
            return Ok(None);
        }
        let tokens = self.shape.tokens();
        let frames = before + slots + after;
        let mut mask = Vec::with_capacity(range.len() * draws * frames * tokens);
        for example in 0..range.len() * draws {
            for frame in 0..frames {
                let slot = frame.checked_sub(before).filter(|slot| *slot < slots);
                let seen = slot.is_none_or(|slot| present[example / draws * slots + slot]);
                mask.resize(mask.len() + tokens, if seen { 1.0 } else { 0.0 });
            }
        }
        Ok(Some(Tensor::from_slice(&mask, [range.len() * draws, frames * tokens])?))
    }

    fn joint(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        contexts: &ContextBatch,
        range: Range<usize>,
        noisy: &Tensor,
        timesteps: &[f32],
    ) -> Result<Tensor> {
        let (predictions, samples) = (range.len(), timesteps.len());
        let draws = samples / predictions.max(1);
        let (tokens, width) = (self.shape.tokens(), self.config.width);
        let frames = 2 + contexts.slots();
        let per_context = |tape: &mut Tape, x: Tensor, rows: usize| -> Result<Tensor> {
            // Every draw of a prediction has the same context.
            let x = x.reshape([predictions, x.shape().elements() / predictions])?;
            let x = if draws > 1 { tape.repeat(&x, 1, draws)? } else { x };
            x.reshape([samples, frames - 1, rows])
        };
        let context = self.context_tokens(contexts, range.clone())?;
        let context = self.embed(tape, parameters, &context)?;
        let context = per_context(tape, context, tokens * width)?;
        let target = self.embed(tape, parameters, noisy)?.reshape([samples, 1, tokens * width])?;
        let mut x = tape.concat(&[&target, &context], 1)?;
        x = x.reshape([samples * frames * tokens, width])?;

        let embedding = &self.embedding;
        let context = embedding.context(tape, parameters, contexts, range.clone())?;
        let context = per_context(tape, context, width)?;
        let target = embedding.target(tape, parameters, contexts, range.clone(), timesteps)?;
        let condition = tape.concat(&[&target.reshape([samples, 1, width])?, &context], 1)?;
        let condition = condition.reshape([samples * frames, width])?;

        let mask = self.mask(contexts, range, draws, [2, 0])?;
        for (index, block) in self.blocks.iter().enumerate() {
            let (groups, key_mask) =
                if index % 2 == 0 { (samples * frames, None) } else { (samples, mask.as_ref()) };
            let (qkv, modulation) = block.project(tape, parameters, &x, &condition)?;
            let attention = Attention { heads: block.heads(), groups, key_mask };
            let attended = tape.self_attention(&qkv, attention)?;
            x = block.finish(tape, parameters, &x, &attended, &modulation)?;
        }
        let x = x.reshape([samples, frames, tokens * width])?;
        let x = tape.slice(&x, 1, 0..1)?.reshape([samples, tokens, width])?;
        self.finish(tape, parameters, &x, &target)
    }

    /// Keys and values of the context for every block over all frames. Context-first only.
    pub(crate) fn read_context(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        contexts: &ContextBatch,
        range: Range<usize>,
    ) -> Result<ContextState> {
        let (predictions, frames) = (range.len(), 1 + contexts.slots());
        let (tokens, width) = (self.shape.tokens(), self.config.width);
        let x = self.context_tokens(contexts, range.clone())?;
        let x = self.embed(tape, parameters, &x)?;
        let mut x = x.reshape([predictions * frames * tokens, width])?;
        let condition = self.embedding.context(tape, parameters, contexts, range.clone())?;
        let mask = self.mask(contexts, range, 1, [1, 0])?;
        let mut keys = Vec::with_capacity(self.blocks.len() / 2);
        for (index, block) in self.blocks.iter().enumerate() {
            let global = index % 2 == 1;
            let (qkv, modulation) = block.project(tape, parameters, &x, &condition)?;
            if global {
                let key_value = tape.slice(&qkv, 1, width..3 * width)?;
                keys.push(key_value.reshape([predictions, frames * tokens, 2 * width])?);
                if index + 2 >= self.blocks.len() {
                    break; // Nothing reads the context after this.
                }
            }
            let (groups, key_mask) =
                if global { (predictions, mask.as_ref()) } else { (predictions * frames, None) };
            let attention = Attention { heads: block.heads(), groups, key_mask };
            let attended = tape.self_attention(&qkv, attention)?;
            x = block.finish(tape, parameters, &x, &attended, &modulation)?;
        }
        Ok(ContextState { keys })
    }

    /// The target's way through the blocks, reading what its context left. Context-first only.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn target(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        contexts: &ContextBatch,
        range: Range<usize>,
        state: &ContextState,
        noisy: &Tensor,
        timesteps: &[f32],
    ) -> Result<Tensor> {
        let (predictions, samples) = (range.len(), timesteps.len());
        let draws = samples / predictions.max(1);
        let (tokens, width) = (self.shape.tokens(), self.config.width);
        let x = self.embed(tape, parameters, noisy)?;
        let mut x = x.reshape([samples * tokens, width])?;
        let condition =
            self.embedding.target(tape, parameters, contexts, range.clone(), timesteps)?;
        let mask = self.mask(contexts, range, draws, [1, 1])?;
        for (index, block) in self.blocks.iter().enumerate() {
            let (qkv, modulation) = block.project(tape, parameters, &x, &condition)?;
            let heads = block.heads();
            let attended = if index % 2 == 0 {
                tape.self_attention(&qkv, Attention { heads, groups: samples, key_mask: None })?
            } else {
                let query = tape.slice(&qkv, 1, 0..width)?;
                let own = tape.slice(&qkv, 1, width..3 * width)?;
                let own = own.reshape([samples, tokens, 2 * width])?;
                let context = &state.keys[index / 2];
                let length = context.shape().extents()[1];
                let context = if draws > 1 {
                    tape.repeat(context, 1, draws)?.reshape([samples, length, 2 * width])?
                } else {
                    context.clone()
                };
                let key_value = tape.concat(&[&context, &own], 1)?;
                let key_value = key_value.reshape([samples * (length + tokens), 2 * width])?;
                let attention = Attention { heads, groups: samples, key_mask: mask.as_ref() };
                tape.cross_attention(&query, &key_value, attention)?
            };
            x = block.finish(tape, parameters, &x, &attended, &modulation)?;
        }
        let x = x.reshape([samples, tokens, width])?;
        self.finish(tape, parameters, &x, &condition)
    }

    /// The final layer over the target's tokens: [m, T, D] → [m, T, P or 2·P].
    fn finish(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        x: &Tensor,
        condition: &Tensor,
    ) -> Result<Tensor> {
        let samples = condition.shape().rows();
        let modulation = self.final_modulation.forward(tape, parameters, condition)?;
        let vectors = modulation.reshape([samples, 2, self.config.width])?;
        let modulation = Modulation { vectors: &vectors, shift: 0, scale: 1 };
        let x = tape.modulated_norm(x, None, modulation, 1e-6)?;
        self.output.forward(tape, parameters, &x)
    }
}
