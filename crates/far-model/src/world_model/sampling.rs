//! Sampling: noise becomes futures, step by step as `ddim` has it.

use crate::layer::Pass;
use crate::world_model::diffusion::{DitDiffusion, TOGETHER};
use crate::{ContextBatch, DdimConfig, DdimStep, Error, Result};
use far_tensor::{Parameters, Repeated, Tape, Tensor};
use std::ops::Range;

impl DitDiffusion {
    /// See [`crate::WorldModel::sample`].
    pub(super) fn sample(
        &self,
        parameters: &Parameters,
        contexts: &ContextBatch<'_>,
        noise: &[f32],
        sampler: &DdimConfig,
    ) -> Result<Vec<f32>> {
        let elements = self.setting.shape.elements();
        Error::check_length("the noise", noise.len(), contexts.examples() * elements)?;
        let steps = DdimStep::all(sampler, &self.schedule)?;
        let goal_states = self.auxiliary(parameters, contexts)?.unwrap_or_default();
        let together = self.together(contexts, 1, TOGETHER / 2);
        self.by_parts(contexts.examples(), together, |range| {
            let rows = range.start * elements..range.end * elements;
            let x = Tensor::from_slice(&noise[rows], self.sizes(range.len()))?;
            self.denoise(parameters, (contexts, &goal_states), range, x, &steps)
        })
    }

    /// Some predictions, from the noise `x`.
    fn denoise(
        &self,
        parameters: &Parameters,
        (contexts, goal_states): (&ContextBatch<'_>, &[f32]),
        range: Range<usize>,
        mut x: Tensor,
        steps: &[DdimStep],
    ) -> Result<Vec<f32>> {
        let mut tape = Tape::inference(&self.device);
        let mut pass = Pass::new(&mut tape, parameters);
        let state = self.network.read_context(&mut pass, contexts, goal_states, range)?;
        let timesteps: Vec<f32> = steps.iter().map(|step| step.timestep as f32).collect();
        let table = self.network.modulation_table(&mut pass, &state, &timesteps)?;
        // All steps are the same work on other numbers.
        let mut predict = Repeated::new(&self.device, |tape, inputs| {
            let [x, row] = inputs else { unreachable!("two are given") };
            let output = table.target(&mut Pass::new(tape, parameters), &state, x, row)?;
            self.predicted(tape, output)
        });
        for (index, step) in steps.iter().enumerate() {
            let predicted = predict.run(&[&x, &table.row(&mut tape, index)?])?;
            let [of_x, of_prediction] = step.coefficients(self.prediction());
            x = tape.weighted_sum(&x, of_x, &predicted, of_prediction)?;
        }
        Ok(x.values().to_vec())
    }
}
