//! What losses are computed from: contexts with their futures and noises, all of sizes that fit the model.

use crate::world_model::diffusion::DitDiffusion;
use crate::{ContextBatch, Error, Futures, Perturbations, Result};

/// Contexts with their futures and noises, of sizes that fit.
#[derive(Clone, Copy)]
pub(crate) struct TrainingBatch<'a> {
    pub(super) contexts: &'a ContextBatch<'a>,
    pub(super) futures: &'a Futures,
    pub(super) perturbations: &'a Perturbations,
    pub(super) weights: Option<&'a [f32]>,
}

impl<'a> TrainingBatch<'a> {
    pub(super) fn new(
        core: &DitDiffusion,
        contexts: &'a ContextBatch<'a>,
        futures: &'a Futures,
        perturbations: &'a Perturbations,
        weights: Option<&'a [f32]>,
    ) -> Result<Self> {
        let elements = core.setting.shape.elements();
        if contexts.shape() != core.setting.shape {
            let reason =
                format!("contexts of {:?}, not of {:?}", contexts.shape(), core.setting.shape);
            return Err(Error::Setting { setting: "tokenizer", reason });
        }
        let (found, signals) = (contexts.signals(), core.setting.signals);
        if found != signals {
            let reason = format!("contexts have {found:?}, not {signals:?}");
            return Err(Error::Setting { setting: "conditioning", reason });
        }
        let (count, examples) = (contexts.examples(), futures.latents.len() / elements);
        Error::check_length("the futures", futures.latents.len(), examples * elements)?;
        let states = examples * signals.goal_state.width;
        Error::check_length("the states of the futures", futures.states.len(), states)?;
        Error::check_finite("the states of the futures", &futures.states)?;
        let shared = count.checked_div(examples).unwrap_or(0);
        Error::check_length("the contexts of all futures", count, shared * examples)?;
        let draws = perturbations.draws * examples;
        Error::check_length("the diffusion times", perturbations.timesteps.len(), draws)?;
        Error::check_length("the noise", perturbations.noise.len(), draws * elements)?;
        if let Some(weights) = weights {
            Error::check_length("the weights of the loss", weights.len(), futures.latents.len())?;
        }
        Ok(Self { contexts, futures, perturbations, weights })
    }

    /// How many contexts each future has.
    pub(super) fn contexts_per_future(&self) -> usize {
        let elements = self.contexts.shape().elements();
        self.contexts.examples() / (self.futures.latents.len() / elements).max(1)
    }

    /// The state at the goal of each context.
    pub(super) fn goal_states(&self) -> Vec<f32> {
        let width = self.contexts.signals().goal_state.width;
        let states = self.futures.states.chunks_exact(width.max(1));
        states.flat_map(|state| state.repeat(self.contexts_per_future())).collect()
    }
}
