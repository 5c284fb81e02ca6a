//! The way of noisy targets through the network.

use crate::layer::Pass;
use crate::world_model::block::{Block, Entered, Grouping};
use crate::world_model::extension::copy_head::CopyCandidates;
use crate::world_model::network::{DitNetwork, repeat};
use crate::world_model::row_index::RowIndex;
use crate::world_model::shared_context::{ContextCache, ContextState};
use far_tensor::{Modulation, Result, Tape, Tensor};

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
        pass: &mut Pass<'_>,
        goal: &Tensor,
        timesteps: &[f32],
    ) -> Result<Vec<Tensor>> {
        let condition = self.embedding.target(pass, goal, timesteps)?;
        let blocks = self.blocks.iter().map(|block| block.modulate(pass, &condition));
        let mut modulations = blocks.collect::<Result<Vec<_>>>()?;
        let last = self.final_modulation.forward(pass, &condition)?;
        modulations.push(last.reshape([timesteps.len(), 2, self.config.width])?);
        Ok(modulations)
    }

    /// The network's output for S noisy targets of each of n predictions, whose contexts left
    /// `state`: [n·S, T, P], or 2·P where the variance is learned.
    pub(crate) fn target(
        &self,
        pass: &mut Pass<'_>,
        state: &ContextState,
        noisy: &NoisyTargets<'_>,
    ) -> Result<Tensor> {
        let NoisyTargets { latents, timesteps, predictions, draws } = noisy;
        let goal = predictions.spread(pass, &state.goal)?;
        let modulations = &self.modulations(pass, &goal, timesteps)?[..];
        let told = ConditionedTargets { latents, modulations, joined: None, draws };
        self.conditioned_target(pass, state, &told)
    }

    /// The same for targets whose modulations are known.
    pub(crate) fn conditioned_target(
        &self,
        pass: &mut Pass<'_>,
        state: &ContextState,
        told: &ConditionedTargets<'_>,
    ) -> Result<Tensor> {
        let ConditionedTargets { latents, modulations, joined, draws: places } = *told;
        let x = self.embed(pass, latents)?;
        let grouping = Grouping { groups: x.shape().extents()[0], key_mask: None };
        let [first, second] = [&self.blocks[0], &self.blocks[1]];
        let entered = first.enter(pass, &x, modulations[0].clone())?;
        let attended = first.attend(pass, &entered, grouping)?;
        let count = state.goal.shape().rows();
        let (samples, draws) = (places.count(), places.count() / count);
        let offered = state.offered.as_ref();
        let offered = offered.map(|offer| offer.map(|part| repeat(pass, part, count, draws)));
        let offered = offered.transpose()?;
        // From here on every draw of every prediction goes its own way.
        let entered = if let Some(offer) = &offered {
            let x = first.leave(pass, &entered, &attended)?;
            let x = places.spread(pass, &x)?;
            let x = pass.add(&x, &offer.shown)?;
            let modulation = places.spread(pass, &modulations[1])?;
            second.enter(pass, &x, modulation)?
        } else {
            let both = (&entered, &attended);
            let entered = first.leave_into(pass, both, second, modulations[1].clone())?;
            entered.map(|part| places.spread(pass, part))?
        };

        let mask = state.mask.as_ref().map(|mask| repeat(pass, mask, count, draws)).transpose()?;
        let grouping = Grouping { groups: samples, key_mask: mask.as_ref() };
        let passage = TargetPassage { network: self, modulations, places, count, grouping };
        let x = match &state.rest {
            ContextCache::Keys(keys) => passage.read(pass, 1, entered, keys, draws)?,
            ContextCache::Tokens { entered: context, modulations } => {
                let joined = match joined {
                    Some(joined) => joined,
                    None => &passage.joined(pass, &entered, context, modulations)?,
                };
                let last = &modulations[self.last() - 2];
                let (entered, keys) = passage.join(pass, &entered, context, joined, last)?;
                passage.read(pass, self.last(), entered, &[keys], 1)?
            }
        };
        passage.finish(pass, &x, latents, offered.as_ref())
    }
}

/// What the targets of n·S samples have with them behind block 0.
struct TargetPassage<'a> {
    network: &'a DitNetwork,
    /// Of the noisy targets in each block and in the final layer.
    modulations: &'a [Tensor],
    /// Which noisy target each sample is.
    places: &'a RowIndex,
    /// Predictions n.
    count: usize,
    /// One group per sample; keys are those of target, current and slots.
    grouping: Grouping<'a>,
}

impl TargetPassage<'_> {
    /// Shifts, scales and gates in a block, [n·S, 6, D], or in the final layer.
    fn modulation(&self, pass: &mut Pass<'_>, index: usize) -> Result<Tensor> {
        self.places.spread(pass, &self.modulations[index])
    }

    fn enter(&self, pass: &mut Pass<'_>, index: usize, x: &Tensor) -> Result<Entered> {
        let modulation = self.modulation(pass, index)?;
        self.network.blocks[index].enter(pass, x, modulation)
    }

    /// Puts a frame of each sample [n·S, …] before the other frames of its prediction [n·f, …]:
    /// [n·S·(1 + f), …].
    fn before(&self, pass: &mut Pass<'_>, frame: &Tensor, others: &Tensor) -> Result<Tensor> {
        let samples = self.places.count();
        let others = repeat(pass, others, self.count, samples / self.count)?;
        let mut extents = others.shape().extents().to_vec();
        extents[0] += samples;
        let [frame, others] =
            [frame, &others].map(|part| part.reshape([samples, part.shape().elements() / samples]));
        pass.concat(&[&frame?, &others?], 1)?.reshape(&extents[..])
    }

    /// The targets' modulations with those of their contexts behind them, from block 1 to the one
    /// before the last over all frames.
    fn joined(
        &self,
        pass: &mut Pass<'_>,
        target: &Entered,
        context: &Entered,
        modulations: &[Tensor],
    ) -> Result<Vec<Tensor>> {
        let mut joined = vec![self.before(pass, &target.modulation, &context.modulation)?];
        for index in 2..self.network.last() {
            let own = self.modulation(pass, index)?;
            joined.push(self.before(pass, &own, &modulations[index - 2])?);
        }
        Ok(joined)
    }

    /// Joint attention: targets and contexts together from block 1 to the last block over all
    /// frames. There the targets enter, and of the contexts, whose modulation there is given, only
    /// their keys are left.
    fn join(
        &self,
        pass: &mut Pass<'_>,
        target: &Entered,
        context: &Entered,
        joined: &[Tensor],
        context_modulation: &Tensor,
    ) -> Result<(Entered, Tensor)> {
        let (samples, last) = (self.places.count(), self.network.last());
        let (first, joined) = joined.split_first().expect("there is block 1");
        let entered = Entered {
            x: self.before(pass, &target.x, &context.x)?,
            modulation: first.clone(),
            qkv: self.before(pass, &target.qkv, &context.qkv)?,
        };
        let network = self.network;
        let unseen = |_: &mut Tape, _: &Entered| Ok(());
        let x = network.together(pass, entered, joined, self.grouping, unseen)?;
        let (tokens, width) = (network.shape.tokens(), x.shape().last());
        let all = x.shape().rows() / samples;
        let x = x.reshape([samples, all, width])?;
        let context = pass.slice(&x, 1, tokens..all)?;
        let modulation = repeat(pass, context_modulation, self.count, samples / self.count)?;
        let keys = network.blocks[last].keys(pass, &context, &modulation)?;
        let target = pass.slice(&x, 1, 0..tokens)?;
        Ok((self.enter(pass, last, &target)?, keys))
    }

    /// Targets that have entered block `first`, which is over all frames, from there to the end. They
    /// read the keys that their contexts left in each such block, each serving so many draws.
    fn read(
        &self,
        pass: &mut Pass<'_>,
        first: usize,
        entered: Entered,
        keys: &[Tensor],
        draws: usize,
    ) -> Result<Tensor> {
        let inside = Grouping { key_mask: None, ..self.grouping };
        let blocks = &self.network.blocks[first..];
        let modulation = |pass: &mut Pass<'_>, place: usize| self.modulation(pass, first + place);
        Block::run(blocks, pass, entered, modulation, |pass, place, entered| {
            if !place.is_multiple_of(2) {
                return blocks[place].attend(pass, entered, inside);
            }
            let keys = repeat(pass, &keys[place / 2], self.count, draws)?;
            blocks[place].read(pass, entered, &keys, self.grouping.key_mask)
        })
    }

    /// The final layer: [n·S, T, D] → [n·S, T, P or 2·P], with what is copied of the noisy latents
    /// [m, T, P] and of the frames that contexts offer.
    fn finish(
        &self,
        pass: &mut Pass<'_>,
        x: &Tensor,
        latents: &Tensor,
        offered: Option<&CopyCandidates>,
    ) -> Result<Tensor> {
        let network = self.network;
        let vectors = self.modulation(pass, network.blocks.len())?;
        let modulation = Modulation { vectors: &vectors, shift: 0, scale: 1 };
        let x = pass.modulated_norm(x, None, modulation, 1e-6)?;
        let drawn = network.output.forward(pass, &x)?;
        let (Some(copy), Some(offered)) = (&network.copy, offered) else { return Ok(drawn) };
        let mask = self.grouping.key_mask.map(|mask| {
            let target = network.shape.tokens();
            pass.slice(mask, 1, target..mask.shape().last())
        });
        let (noisy, mask) = (self.places.spread(pass, latents)?, mask.transpose()?);
        let copied = copy.take(pass, &x, &noisy, offered, mask.as_ref())?;
        pass.add(&drawn, &copied)
    }
}
