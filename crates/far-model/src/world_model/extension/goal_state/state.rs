//! The auxiliary output of a world model: a second agent's state at the goals, and how wrong that is.

use crate::layer::Pass;
use crate::world_model::diffusion::{DitDiffusion, TOGETHER};
use crate::world_model::extension::goal_state::predictor::decided;
use crate::{ContextBatch, Error, Futures, Result};
use far_tensor::{Parameters, Tape};

impl DitDiffusion {
    /// What is predicted at the goals, [B, goal_state]: the logit of presence, and the position. `None`
    /// where frames have no state.
    fn goal_states(
        &self,
        parameters: &Parameters,
        contexts: &ContextBatch<'_>,
    ) -> Result<Option<Vec<f32>>> {
        let Some(predictor) = &self.network.predictor else { return Ok(None) };
        let together = self.together(contexts, 1, TOGETHER);
        let predicted = self.by_parts(contexts.examples(), together, |range| {
            let mut tape = Tape::inference(&self.device);
            let found =
                predictor.forward(&mut Pass::new(&mut tape, parameters), contexts, range)?;
            Ok(found.values().to_vec())
        });
        predicted.map(Some)
    }

    /// See [`crate::WorldModel::auxiliary`].
    pub(crate) fn auxiliary(
        &self,
        parameters: &Parameters,
        contexts: &ContextBatch<'_>,
    ) -> Result<Option<Vec<f32>>> {
        let width = self.setting.signals.goal_state.width;
        let predicted = self.goal_states(parameters, contexts)?;
        Ok(predicted.map(|rows| rows.chunks_exact(width).flat_map(decided).collect()))
    }

    /// See [`crate::WorldModel::auxiliary_losses`].
    pub(crate) fn auxiliary_losses(
        &self,
        parameters: &Parameters,
        contexts: &ContextBatch<'_>,
        futures: &Futures,
    ) -> Result<Option<Vec<f32>>> {
        let Some(predictor) = &self.network.predictor else { return Ok(None) };
        let Some(predicted) = self.goal_states(parameters, contexts)? else { return Ok(None) };
        let width = self.setting.signals.goal_state.width;
        let truths: Vec<&[f32]> = futures.states.chunks_exact(width).collect();
        let each = contexts.examples().checked_div(truths.len()).unwrap_or(0);
        Error::check_length("the states of the futures", each * truths.len(), contexts.examples())?;
        let losses = predicted.chunks_exact(width).enumerate();
        Ok(Some(losses.map(|(at, found)| predictor.error(found, truths[at / each])).collect()))
    }
}
