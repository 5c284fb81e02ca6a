//! What targets are told at every denoising step, computed for all steps at once.

use crate::layer::Pass;
use crate::world_model::network::DitNetwork;
use crate::world_model::noisy_target::ConditionedTargets;
use crate::world_model::row_index::RowIndex;
use crate::world_model::shared_context::{ContextCache, ContextState};
use far_tensor::{Result, Tape, Tensor};

/// The modulations of the targets of n predictions at each of S steps.
pub(crate) struct ModulationTable<'a> {
    network: &'a DitNetwork,
    /// A row for each step: the targets' modulations in each block, then in the final layer.
    rows: Tensor,
    /// In joint attention, those of the context frames in the blocks from 1 to the one before the
    /// last over all frames, one behind the other: [blocks·n, (1 + K)·6·D].
    contexts: Option<Tensor>,
    /// Predictions n.
    count: usize,
}

impl DitNetwork {
    /// The modulations of the targets of contexts that left `state`, at diffusion times `[S]`.
    pub(crate) fn modulation_table(
        &self,
        pass: &mut Pass<'_>,
        state: &ContextState,
        timesteps: &[f32],
    ) -> Result<ModulationTable<'_>> {
        let (steps, count) = (timesteps.len(), state.goal.shape().rows());
        let goal = pass.repeat(&state.goal, 0, steps)?;
        let goal = goal.reshape([steps * count, self.config.width])?;
        let told: Vec<f32> =
            timesteps.iter().flat_map(|time| std::iter::repeat_n(*time, count)).collect();
        let modulations = self.modulations(pass, &goal, &told)?;
        let rows = joined(pass, &modulations, steps, 1)?;
        let contexts = match &state.rest {
            ContextCache::Keys(_) => None,
            ContextCache::Tokens { entered, modulations } => {
                let before_last = &modulations[..self.last() - 2];
                let mut all = vec![entered.modulation.clone()];
                all.extend_from_slice(before_last);
                Some(joined(pass, &all, count, 0)?)
            }
        };
        Ok(ModulationTable { network: self, rows, contexts, count })
    }
}

/// Tensors as matrices of so many rows, joined along an axis.
fn joined(tape: &mut Tape, parts: &[Tensor], rows: usize, axis: usize) -> Result<Tensor> {
    let parts = parts.iter().map(|part| part.reshape([rows, part.shape().elements() / rows]));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    tape.concat(&parts.iter().collect::<Vec<_>>(), axis)
}

impl ModulationTable<'_> {
    /// What is told at a step: [1, …].
    pub(crate) fn row(&self, tape: &mut Tape, step: usize) -> Result<Tensor> {
        tape.slice(&self.rows, 0, step..step + 1)
    }

    /// The network's output for one noisy target [n, T, P] of each prediction, told a row of this.
    pub(crate) fn target(
        &self,
        pass: &mut Pass<'_>,
        state: &ContextState,
        latents: &Tensor,
        row: &Tensor,
    ) -> Result<Tensor> {
        let Self { network, count, .. } = *self;
        let (width, depth) = (network.config.width, network.blocks.len());
        let block = count * 6 * width;
        let mut modulations = Vec::with_capacity(depth + 1);
        for index in 0..depth {
            let own = pass.slice(row, 1, index * block..(index + 1) * block)?;
            modulations.push(own.reshape([count, 6, width])?);
        }
        let last = pass.slice(row, 1, depth * block..row.shape().last())?;
        modulations.push(last.reshape([count, 2, width])?);
        let joined = self.contexts.as_ref().map(|contexts| self.join(pass, row, contexts));
        let joined = joined.transpose()?;
        let told = ConditionedTargets {
            latents,
            modulations: &modulations,
            joined: joined.as_deref(),
            draws: &RowIndex::apart(count),
        };
        network.conditioned_target(pass, state, &told)
    }

    /// The targets' modulations before those of their contexts, of all blocks in one piece and then
    /// by block, [n·(2 + K), 6, D].
    fn join(&self, tape: &mut Tape, row: &Tensor, contexts: &Tensor) -> Result<Vec<Tensor>> {
        let Self { network, count, .. } = *self;
        let width = network.config.width;
        let (blocks, block) = (network.last() - 1, count * 6 * width);
        let own = tape.slice(row, 1, block..network.last() * block)?;
        let own = own.reshape([blocks * count, 6 * width])?;
        let all = tape.concat(&[&own, contexts], 1)?;
        let frames = all.shape().last() / (6 * width);
        let of_block = |index: usize| {
            let part = tape.slice(&all, 0, index * count..(index + 1) * count)?;
            part.reshape([count * frames, 6, width])
        };
        (0..blocks).map(of_block).collect()
    }
}
