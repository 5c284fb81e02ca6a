//! What a world model makes of a second agent: its state at the goals, and how wrong that is.

use crate::world_model::diffusion::{DitDiffusion, TOGETHER};
use crate::world_model::extension::second_agent::predictor::decided;
use crate::{ContextBatch, Error, Result};
use far_tensor::{Parameters, Tape};
use std::borrow::Cow;

impl DitDiffusion {
    /// What is predicted of the second agent at the goals, [B, states / 2]: the logit of presence,
    /// and the position. `None` where nothing is told of one.
    fn states(
        &self,
        parameters: &Parameters,
        contexts: &ContextBatch<'_>,
    ) -> Result<Option<Vec<f32>>> {
        let Some(predictor) = &self.network.predictor else { return Ok(None) };
        let together = self.together(contexts, 1, TOGETHER);
        let predicted = self.by_parts(contexts.examples(), together, |range| {
            let mut tape = Tape::inference(&self.device);
            let found = predictor.forward(&mut tape, parameters, contexts, range)?;
            Ok(found.values().to_vec())
        });
        predicted.map(Some)
    }

    /// See [`crate::WorldModel::predicted_states`].
    pub(crate) fn predicted_states(
        &self,
        parameters: &Parameters,
        contexts: &ContextBatch<'_>,
    ) -> Result<Option<Vec<f32>>> {
        let numbers = self.setting.told.states / 2;
        let predicted = self.states(parameters, contexts)?;
        Ok(predicted.map(|rows| rows.chunks_exact(numbers).flat_map(decided).collect()))
    }

    /// See [`crate::WorldModel::auxiliary_losses`].
    pub(crate) fn auxiliary_losses(
        &self,
        parameters: &Parameters,
        contexts: &ContextBatch<'_>,
    ) -> Result<Option<Vec<f32>>> {
        let numbers = self.setting.told.states / 2;
        Error::check_finite("the states at the goals", contexts.goal_states())?;
        let (predicted, predictor) = (self.states(parameters, contexts)?, &self.network.predictor);
        Ok(predicted.zip(predictor.as_ref()).map(|(predicted, predictor)| {
            let truths = contexts.goal_states().chunks_exact(numbers);
            let pairs = predicted.chunks_exact(numbers).zip(truths);
            pairs.map(|(predicted, truth)| predictor.error(predicted, truth)).collect()
        }))
    }

    /// The contexts with what is predicted of the second agent where they do not say it.
    pub(crate) fn completed<'a>(
        &self,
        parameters: &Parameters,
        contexts: &'a ContextBatch<'a>,
    ) -> Result<Cow<'a, ContextBatch<'a>>> {
        let known = contexts.goal_states();
        if known.iter().all(|value| !value.is_nan()) {
            return Ok(Cow::Borrowed(contexts));
        }
        let predicted = self.predicted_states(parameters, contexts)?.unwrap_or_default();
        let pairs = known.iter().zip(predicted);
        let whole = pairs.map(|(known, own)| if known.is_nan() { own } else { *known }).collect();
        Ok(Cow::Owned(contexts.with_goal_states(whole)))
    }
}
