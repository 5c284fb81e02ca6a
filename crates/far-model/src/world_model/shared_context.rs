//! The way of contexts through the network, as far as it does not depend on the noise.

use crate::layer::Pass;
use crate::world_model::block::{Entered, Grouping};
use crate::world_model::config::ContextAttention;
use crate::world_model::context::ContextBatch;
use crate::world_model::extension::copy_head::CopyCandidates;
use crate::world_model::network::DitNetwork;
use crate::world_model::row_index::RowIndex;
use far_memory::Pose;
use far_tensor::{Result, Tape, Tensor};
use std::ops::Range;

/// What the contexts of n predictions leave for their targets, whatever the noise.
pub(crate) struct ContextState {
    /// The part of the targets' condition that the noise does not change, [n, D].
    pub(crate) goal: Tensor,
    /// Which tokens can be read, [n, (2 + K)·T] in the order target, current, slots; `None`: all.
    pub(crate) mask: Option<Tensor>,
    /// What can be copied of the context frames; `None` where nothing is.
    pub(crate) offered: Option<CopyCandidates>,
    pub(crate) rest: ContextCache,
}

/// How far a context comes without its target.
pub(crate) enum ContextCache {
    /// Through all blocks: its keys and values in each over all frames, [n, (1 + K)·T, 2·D].
    Keys(Vec<Tensor>),
    /// Into block 1, as frames [n·(1 + K), …], with its modulations in the blocks from 2 to the last
    /// over all frames.
    Tokens { entered: Box<Entered>, modulations: Vec<Tensor> },
}

impl DitNetwork {
    /// What some context frames show, from their goals where so set, as a tensor [frames, T, P].
    pub(crate) fn context_tokens(
        &self,
        tape: &mut Tape,
        contexts: &ContextBatch<'_>,
        frames: &[usize],
    ) -> Result<Tensor> {
        let latents: Vec<&[f32]> = frames.iter().map(|frame| contexts.latent(*frame)).collect();
        let sizes = [frames.len(), self.shape.tokens(), self.shape.token_width()];
        let latents = tape.gathered(&latents, sizes)?;
        let Some((view, distance)) = &self.view else { return Ok(latents) };
        let poses: Vec<Pose> = frames.iter().map(|frame| contexts.view(*frame)).collect();
        view.of_frames(tape, &latents, &poses, *distance)
    }

    /// Which tokens of target, current and slots can be read: [n, (2 + K)·T], or `None` for all.
    fn mask(&self, contexts: &ContextBatch<'_>, range: Range<usize>) -> Result<Option<Tensor>> {
        let (slots, tokens, count) = (contexts.slots(), self.shape.tokens(), range.len());
        let present = &contexts.present()[range.start * slots..range.end * slots];
        if present.iter().all(|present| *present) {
            return Ok(None);
        }
        let mut mask = Vec::with_capacity(count * (2 + slots) * tokens);
        for present in present.chunks_exact(slots) {
            mask.resize(mask.len() + 2 * tokens, 1.0);
            for present in present {
                mask.resize(mask.len() + tokens, f32::from(*present));
            }
        }
        Ok(Some(Tensor::from_slice(&mask, [count, (2 + slots) * tokens])?))
    }

    /// The way of some predictions' contexts, as far as it does not depend on the noise. The states at
    /// the goals are those of all predictions, [B, goal_state].
    pub(crate) fn read_context(
        &self,
        pass: &mut Pass<'_>,
        contexts: &ContextBatch<'_>,
        goal_states: &[f32],
        range: Range<usize>,
    ) -> Result<ContextState> {
        let frames = 1 + contexts.slots();
        let start = range.start * frames;
        let same = |a, b| contexts.same_frame(start + a, start + b);
        let (mut distinct, places) = RowIndex::distinct(range.len() * frames, frames, same);
        distinct.iter_mut().for_each(|frame| *frame += start);
        let latents = self.context_tokens(pass, contexts, &distinct)?;
        let x = self.embed(pass, &latents)?;
        let condition = self.embedding.context(pass, contexts, &distinct)?;
        let grouping = Grouping { groups: distinct.len(), key_mask: None };
        let x = self.blocks[0].forward(pass, &x, &condition, grouping)?;

        let count = range.len();
        let offered = self.copy.as_ref().map(|copy| {
            let away = distinct.iter().map(|frame| contexts.distance_from_goal(*frame));
            let away: Vec<f32> = away.collect();
            let offered = copy.offer(pass, &x, &latents, &away)?;
            let offered = places.spread(pass, &offered)?;
            let (newer, views) =
                (contexts.superseded(range.clone()), contexts.views(range.clone()));
            copy.compare(pass, &offered, &newer, &views)
        });
        let offered = offered.transpose()?;
        let goal = self.embedding.goal(pass, contexts, goal_states, range.clone())?;
        let mask = self.mask(contexts, range)?;
        let modulations =
            self.blocks[1..=self.last()].iter().map(|block| block.modulate(pass, &condition));
        let mut modulations = modulations.collect::<Result<Vec<_>>>()?;
        if self.last() == 1 {
            // The only block over all frames: its keys are all that a context leaves.
            let keys = self.blocks[1].keys(pass, &x, &modulations[0])?;
            let keys = places.spread(pass, &keys)?;
            let rest = ContextCache::Keys(vec![self.keys_of(&keys, count)?]);
            return Ok(ContextState { goal, mask, offered, rest });
        }
        let entered = self.blocks[1].enter(pass, &x, modulations.remove(0))?;
        let entered = entered.map(|part| places.spread(pass, part))?;
        let modulations = modulations.iter().map(|modulation| places.spread(pass, modulation));
        let modulations = modulations.collect::<Result<Vec<_>>>()?;
        let rest = match self.config.attention {
            ContextAttention::Joint => {
                ContextCache::Tokens { entered: Box::new(entered), modulations }
            }
            ContextAttention::ContextFirst => {
                let mask = mask.as_ref();
                ContextCache::Keys(self.context_first(pass, entered, &modulations, count, mask)?)
            }
        };
        Ok(ContextState { goal, mask, offered, rest })
    }

    /// The way of contexts that have entered block 1 without their targets: keys and values in every
    /// block over all frames.
    fn context_first(
        &self,
        pass: &mut Pass<'_>,
        entered: Entered,
        modulations: &[Tensor],
        count: usize,
        mask: Option<&Tensor>,
    ) -> Result<Vec<Tensor>> {
        let (width, target) = (self.config.width, self.shape.tokens());
        let mask = mask.map(|mask| pass.slice(mask, 1, target..mask.shape().last())).transpose()?;
        let grouping = Grouping { groups: count, key_mask: mask.as_ref() };
        let (last, before) = modulations.split_last().expect("a second block over all frames");
        let mut keys = Vec::with_capacity(self.blocks.len() / 2);
        let keep = |pass: &mut Tape, entered: &Entered| {
            let own = pass.slice(&entered.qkv, 2, width..3 * width)?;
            keys.push(self.keys_of(&own, count)?);
            Ok(())
        };
        let x = self.together(pass, entered, before, grouping, keep)?;
        let own = self.blocks[self.last()].keys(pass, &x, last)?;
        keys.push(self.keys_of(&own, count)?);
        Ok(keys)
    }
}
