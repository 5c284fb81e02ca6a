//! The way of noisy targets through the network.

use crate::world_model::block::{Entered, Grouping};
use crate::world_model::extension::copy_head::CopyCandidates;
use crate::world_model::network::{DitNetwork, repeat};
use crate::world_model::row_index::RowIndex;
use crate::world_model::shared_context::{ContextCache, ContextState};
use far_tensor::{Modulation, Parameters, Result, Tape, Tensor};

/// Noisy versions of the targets of n predictions, S for each. Predictions whose targets are told the
/// same and meet the same noise share one: m versions in all, at most n·S.
pub(crate) struct NoisyTargets<'a> {
    /// The noisy latents, [m, T, P].
    pub latents: &'a Tensor,
    /// Their diffusion times, `[m]`.
    pub timesteps: &'a [f32],
    /// Of each, a prediction that it is a target of, `[m]`.
    pub predictions: RowIndex,
    /// Which of them each draw of each prediction is, [n, S].
    pub draws: RowIndex,
}

impl<'a> NoisyTargets<'a> {
    /// One noisy target for each prediction.
    pub(crate) fn apart(latents: &'a Tensor, timesteps: &'a [f32]) -> Self {
        let places = RowIndex::apart(timesteps.len());
        Self { latents, timesteps, predictions: places.clone(), draws: places }
    }
}

/// Noisy targets with what they are told.
pub(crate) struct ConditionedTargets<'a> {
    /// The noisy latents, [m, T, P].
    pub latents: &'a Tensor,
    /// Shifts, scales and gates in each block, [m, 6, D], and in the final layer, [m, 2, D].
    pub modulations: &'a [Tensor],
    /// In joint attention the same with those of the context frames behind them, from block 1 to the
    /// one before the last over all frames, [n·S·(2 + K), 6, D]; `None`: they are to be put together.
    pub joined: Option<&'a [Tensor]>,
    /// Which of the targets each draw of each prediction is, [n, S].
    pub draws: &'a RowIndex,
}

impl DitNetwork {
    /// Shifts, scales and gates of noisy targets in each block, [m, 6, D], and in the final layer,
    /// [m, 2, D], for their conditions without the noise, [m, D], and their diffusion times.
    pub(crate) fn modulations(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        goal: &Tensor,
        timesteps: &[f32],
    ) -> Result<Vec<Tensor>> {
        let condition = self.embedding.target(tape, parameters, goal, timesteps)?;
        let blocks = self.blocks.iter().map(|block| block.modulate(tape, parameters, &condition));
        let mut modulations = blocks.collect::<Result<Vec<_>>>()?;
        let last = self.final_modulation.forward(tape, parameters, &condition)?;
        modulations.push(last.reshape([timesteps.len(), 2, self.config.width])?);
        Ok(modulations)
    }

    /// The network's output for S noisy targets of each of n predictions, whose contexts left
    /// `state`: [n·S, T, P], or 2·P where the variance is learned.
    pub(crate) fn target(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        state: &ContextState,
        noisy: &NoisyTargets<'_>,
    ) -> Result<Tensor> {
        let NoisyTargets { latents, timesteps, predictions, draws } = noisy;
        let goal = predictions.spread(tape, &state.goal)?;
        let modulations = &self.modulations(tape, parameters, &goal, timesteps)?[..];
        let told = ConditionedTargets { latents, modulations, joined: None, draws };
        self.conditioned_target(tape, parameters, state, &told)
    }

    /// The same for targets whose modulations are known.
    pub(crate) fn conditioned_target(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        state: &ContextState,
        told: &ConditionedTargets<'_>,
    ) -> Result<Tensor> {
        let ConditionedTargets { latents, modulations, joined, draws: places } = *told;
        let x = self.embed(tape, parameters, latents)?;
        let grouping = Grouping { groups: x.shape().extents()[0], key_mask: None };
        let [first, second] = [&self.blocks[0], &self.blocks[1]];
        let entered = first.enter(tape, parameters, &x, modulations[0].clone())?;
        let attended = first.attend(tape, &entered, grouping)?;
        let count = state.goal.shape().rows();
        let (samples, draws) = (places.count(), places.count() / count);
        let offered = state.offered.as_ref();
        let offered = offered.map(|offer| offer.map(|part| repeat(tape, part, count, draws)));
        let offered = offered.transpose()?;
        // From here on every draw of every prediction goes its own way.
        let entered = if let Some(offer) = &offered {
            let x = first.leave(tape, parameters, &entered, &attended)?;
            let x = places.spread(tape, &x)?;
            let x = tape.add(&x, &offer.shown)?;
            let modulation = places.spread(tape, &modulations[1])?;
            second.enter(tape, parameters, &x, modulation)?
        } else {
            let both = (&entered, &attended);
            let entered =
                first.leave_into(tape, parameters, both, second, modulations[1].clone())?;
            entered.map(|part| places.spread(tape, part))?
        };

        let mask = state.mask.as_ref().map(|mask| repeat(tape, mask, count, draws)).transpose()?;
        let grouping = Grouping { groups: samples, key_mask: mask.as_ref() };
        let passage =
            TargetPass { network: self, parameters, modulations, places, count, grouping };
        let x = match &state.rest {
            ContextCache::Keys(keys) => passage.read(tape, 1, entered, keys, draws)?,
            ContextCache::Tokens { entered: context, modulations } => {
                let joined = match joined {
                    Some(joined) => joined,
                    None => &passage.joined(tape, &entered, context, modulations)?,
                };
                let last = &modulations[self.last() - 2];
                let (entered, keys) = passage.join(tape, &entered, context, joined, last)?;
                passage.read(tape, self.last(), entered, &[keys], 1)?
            }
        };
        passage.finish(tape, &x, latents, offered.as_ref())
    }
}

/// What the targets of n·S samples have with them behind block 0.
struct TargetPass<'a> {
    network: &'a DitNetwork,
    parameters: &'a Parameters,
    /// Of the noisy targets in each block and in the final layer.
    modulations: &'a [Tensor],
    /// Which noisy target each sample is.
    places: &'a RowIndex,
    /// Predictions n.
    count: usize,
    /// One group per sample; keys are those of target, current and slots.
    grouping: Grouping<'a>,
}

impl TargetPass<'_> {
    /// Shifts, scales and gates in a block, [n·S, 6, D], or in the final layer.
    fn modulation(&self, tape: &mut Tape, index: usize) -> Result<Tensor> {
        self.places.spread(tape, &self.modulations[index])
    }

    fn enter(&self, tape: &mut Tape, index: usize, x: &Tensor) -> Result<Entered> {
        let modulation = self.modulation(tape, index)?;
        self.network.blocks[index].enter(tape, self.parameters, x, modulation)
    }

    /// Puts a frame of each sample [n·S, …] before the other frames of its prediction [n·f, …]:
    /// [n·S·(1 + f), …].
    fn before(&self, tape: &mut Tape, frame: &Tensor, others: &Tensor) -> Result<Tensor> {
        let samples = self.places.count();
        let others = repeat(tape, others, self.count, samples / self.count)?;
        let mut extents = others.shape().extents().to_vec();
        extents[0] += samples;
        let [frame, others] =
            [frame, &others].map(|part| part.reshape([samples, part.shape().elements() / samples]));
        tape.concat(&[&frame?, &others?], 1)?.reshape(&extents[..])
    }

    /// The targets' modulations with those of their contexts behind them, from block 1 to the one
    /// before the last over all frames.
    fn joined(
        &self,
        tape: &mut Tape,
        target: &Entered,
        context: &Entered,
        modulations: &[Tensor],
    ) -> Result<Vec<Tensor>> {
        let mut joined = vec![self.before(tape, &target.modulation, &context.modulation)?];
        for index in 2..self.network.last() {
            let own = self.modulation(tape, index)?;
            joined.push(self.before(tape, &own, &modulations[index - 2])?);
        }
        Ok(joined)
    }

    /// Joint attention: targets and contexts together from block 1 to the last block over all
    /// frames. There the targets enter, and of the contexts, whose modulation there is given, only
    /// their keys are left.
    fn join(
        &self,
        tape: &mut Tape,
        target: &Entered,
        context: &Entered,
        joined: &[Tensor],
        context_modulation: &Tensor,
    ) -> Result<(Entered, Tensor)> {
        let (samples, last) = (self.places.count(), self.network.last());
        let (first, joined) = joined.split_first().expect("there is block 1");
        let entered = Entered {
            x: self.before(tape, &target.x, &context.x)?,
            modulation: first.clone(),
            qkv: self.before(tape, &target.qkv, &context.qkv)?,
        };
        let (network, parameters) = (self.network, self.parameters);
        let unseen = |_: &mut Tape, _: &Entered| Ok(());
        let x = network.together(tape, parameters, entered, joined, self.grouping, unseen)?;
        let (tokens, width) = (network.shape.tokens(), x.shape().last());
        let all = x.shape().rows() / samples;
        let x = x.reshape([samples, all, width])?;
        let context = tape.slice(&x, 1, tokens..all)?;
        let modulation = repeat(tape, context_modulation, self.count, samples / self.count)?;
        let keys = network.blocks[last].keys(tape, parameters, &context, &modulation)?;
        let target = tape.slice(&x, 1, 0..tokens)?;
        Ok((self.enter(tape, last, &target)?, keys))
    }

    /// Targets that have entered block `first`, which is over all frames, from there to the end. They
    /// read the keys that their contexts left in each such block, each serving so many draws.
    fn read(
        &self,
        tape: &mut Tape,
        first: usize,
        mut entered: Entered,
        keys: &[Tensor],
        draws: usize,
    ) -> Result<Tensor> {
        let inside = Grouping { key_mask: None, ..self.grouping };
        let mut index = first;
        loop {
            let block = &self.network.blocks[index];
            let attended = if index.is_multiple_of(2) {
                block.attend(tape, &entered, inside)?
            } else {
                let keys = repeat(tape, &keys[(index - first) / 2], self.count, draws)?;
                block.read(tape, &entered, &keys, self.grouping.key_mask)?
            };
            index += 1;
            let Some(next) = self.network.blocks.get(index) else {
                return block.leave(tape, self.parameters, &entered, &attended);
            };
            let modulation = self.modulation(tape, index)?;
            let both = (&entered, &attended);
            entered = block.leave_into(tape, self.parameters, both, next, modulation)?;
        }
    }

    /// The final layer: [n·S, T, D] → [n·S, T, P or 2·P], with what is copied of the noisy latents
    /// [m, T, P] and of the frames that contexts offer.
    fn finish(
        &self,
        tape: &mut Tape,
        x: &Tensor,
        latents: &Tensor,
        offered: Option<&CopyCandidates>,
    ) -> Result<Tensor> {
        let Self { network, parameters, .. } = self;
        let vectors = self.modulation(tape, network.blocks.len())?;
        let modulation = Modulation { vectors: &vectors, shift: 0, scale: 1 };
        let x = tape.modulated_norm(x, None, modulation, 1e-6)?;
        let drawn = network.output.forward(tape, parameters, &x)?;
        let (Some(copy), Some(offered)) = (&network.copy, offered) else { return Ok(drawn) };
        let mask = self.grouping.key_mask.map(|mask| {
            let target = network.shape.tokens();
            tape.slice(mask, 1, target..mask.shape().last())
        });
        let (noisy, mask) = (self.places.spread(tape, latents)?, mask.transpose()?);
        let copied = copy.take(tape, parameters, &x, &noisy, offered, mask.as_ref())?;
        tape.add(&drawn, &copied)
    }
}
