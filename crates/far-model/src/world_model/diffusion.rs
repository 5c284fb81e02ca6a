//! Diffusion over a transformer: the loss of a batch, the losses of candidates, and in which parts a batch
//! passes the network.

use crate::layer::Pass;
use crate::world_model::dit_world_model::DitSetting;
use crate::world_model::network::DitNetwork;
use crate::world_model::noisy_target::NoisyTargets;
use crate::world_model::row_index::RowIndex;
use crate::world_model::training_batch::TrainingBatch;
use crate::{ContextBatch, Result};
use far_tensor::{
    Buffer, Device, DiffusionTarget, NoiseSchedule, Parameters, Prediction, Tape, Tensor,
};
use rayon::prelude::*;
use std::ops::Range;

/// Noisy frames that pass the network together when nothing is learned, on a device that works on
/// several such parts at once; more would not be faster and would leave the caches.
pub(crate) const TOGETHER: usize = 32;

/// Numbers, tokens times their width, that pass the network together on a device that works on one
/// part at a time, and so wants large ones: 2¹⁷ tokens of width 1,024. About a dozen such tensors live
/// at once, 6 GiB.
const LARGEST: usize = 1 << 27;

/// Weight of the variational bound in the loss, as in DiT.
const BOUND_WEIGHT: f32 = 1.0;

/// What does not change.
pub(crate) struct DitDiffusion {
    pub(crate) setting: DitSetting,
    pub(crate) network: DitNetwork,
    pub(crate) schedule: NoiseSchedule,
    pub(crate) device: Device,
    /// Whether parts of a batch pass the network at once, as the device has it.
    parallel: bool,
}

impl DitDiffusion {
    pub(crate) fn new(
        setting: DitSetting,
        seed: u64,
        device: &Device,
    ) -> Result<(Self, Parameters)> {
        let (builder, network) = setting.network()?;
        let schedule = NoiseSchedule::linear(1000, 1e-4, 2e-2)?;
        let (device, parallel) = (device.clone(), device.parallel());
        let core = Self { setting, network, schedule, device, parallel };
        Ok((core, builder.build(seed)))
    }

    pub(crate) fn prediction(&self) -> Prediction {
        self.setting.config.prediction.into()
    }

    /// Sizes of a tensor of `samples` latents.
    pub(super) fn sizes(&self, samples: usize) -> [usize; 3] {
        let shape = self.setting.shape;
        [samples, shape.tokens(), shape.token_width()]
    }

    /// The predicted half of the network's output, [m, T, P].
    pub(super) fn predicted(&self, tape: &mut Tape, output: Tensor) -> far_tensor::Result<Tensor> {
        let token = self.setting.shape.token_width();
        if output.shape().last() == token { Ok(output) } else { tape.slice(&output, 2, 0..token) }
    }

    /// Of some futures with a noise and a diffusion time each: their noisy versions and what should be
    /// predicted of them, [m, T, P].
    fn perturb(&self, futures: &[Disturbed<'_>]) -> far_tensor::Result<[Tensor; 2]> {
        let powers = futures.iter().map(|future| self.schedule.signal_power(future.timestep));
        let powers = powers.collect::<far_tensor::Result<Vec<f64>>>()?;
        let (elements, prediction) = (self.setting.shape.elements(), self.prediction());
        let mut both = [(); 2].map(|()| Buffer::zeroed(futures.len() * elements));
        let [noisy, target] = &mut both;
        let rows = noisy.par_chunks_mut(elements).zip(target.par_chunks_mut(elements));
        rows.zip(futures).zip(&powers).for_each(|(((noisy, target), future), kept)| {
            let Disturbed { clean, noise, .. } = *future;
            let (signal, spread) = (kept.sqrt() as f32, (1.0 - kept).sqrt() as f32);
            for (place, (x, e)) in noisy.iter_mut().zip(clean.iter().zip(noise)) {
                *place = signal * x + spread * e;
            }
            match prediction {
                Prediction::Noise => target.copy_from_slice(noise),
                Prediction::Velocity => {
                    for (place, (x, e)) in target.iter_mut().zip(clean.iter().zip(noise)) {
                        *place = signal * e - spread * x;
                    }
                }
                Prediction::Clean => target.copy_from_slice(clean),
            }
        });
        let [noisy, target] =
            both.map(|values| Tensor::from_buffer(values, self.sizes(futures.len())));
        Ok([noisy?, target?])
    }

    /// The training loss of some predictions: that of the frame and, where frames have states, that of
    /// the predicted state.
    pub(crate) fn loss(
        &self,
        pass: &mut Pass<'_>,
        batch: &TrainingBatch<'_>,
        range: Range<usize>,
    ) -> far_tensor::Result<Tensor> {
        let frame = self.frame_loss(pass, batch, range.clone())?;
        match &self.network.predictor {
            None => Ok(frame),
            Some(predictor) => {
                let truths = &batch.futures.states;
                let state = predictor.loss(pass, batch.contexts, truths, range)?;
                pass.add(&frame, &state)
            }
        }
    }

    fn frame_loss(
        &self,
        pass: &mut Pass<'_>,
        batch: &TrainingBatch<'_>,
        range: Range<usize>,
    ) -> far_tensor::Result<Tensor> {
        // A GPU reads the contexts while the host disturbs the futures.
        let goal_states = &batch.futures.states;
        let state = self.network.read_context(pass, batch.contexts, goal_states, range.clone())?;
        let elements = self.setting.shape.elements();
        let all = range.start * elements..range.end * elements;
        let clean = &batch.futures.latents[all.clone()];
        let disturbed = range.clone().map(|example| {
            let span = example * elements..(example + 1) * elements;
            Disturbed {
                clean: &batch.futures.latents[span.clone()],
                noise: &batch.perturbations.noise[span],
                timestep: batch.perturbations.timesteps[example],
            }
        });
        let [noisy, target] = self.perturb(&disturbed.collect::<Vec<_>>())?;
        let timesteps = &batch.perturbations.timesteps[range.clone()];
        let times: Vec<f32> = timesteps.iter().map(|timestep| *timestep as f32).collect();
        let sizes = self.sizes(range.len());
        let weights = batch.weights.map(|weights| Tensor::from_slice(&weights[all], sizes));
        let weights = weights.transpose()?;
        let noisy = NoisyTargets::apart(&noisy, &times);
        let output = self.network.target(pass, &state, &noisy)?;
        if !self.setting.config.learned_variance {
            return pass.squared_error(&output, &target, weights.as_ref());
        }
        // The loss wants the predictions of a sample before its variances.
        let token = self.setting.shape.token_width();
        let halves = [0..token, token..2 * token].map(|half| pass.slice(&output, 2, half));
        let [predicted, variance] = halves;
        let output = pass.concat(&[&predicted?, &variance?], 1)?;
        let coefficients = timesteps
            .iter()
            .map(|timestep| self.schedule.coefficients(*timestep, self.prediction()));
        let coefficients = coefficients.collect::<far_tensor::Result<Vec<_>>>()?;
        let clean = Tensor::from_slice(clean, sizes)?;
        let targets = DiffusionTarget { target: &target, clean: &clean, weights: weights.as_ref() };
        let loss = pass.diffusion_loss(&output, targets, &coefficients, BOUND_WEIGHT)?;
        pass.mean(&loss.loss)
    }

    /// See [`WorldModel::losses`].
    pub(crate) fn losses(
        &self,
        parameters: &Parameters,
        batch: &TrainingBatch<'_>,
    ) -> Result<Vec<f32>> {
        let goal_states = batch.goal_states();
        let draws = batch.perturbations.draws.max(1);
        let together = self.together(batch.contexts, draws, TOGETHER);
        let losses =
            |range: Range<usize>| self.part_losses(parameters, batch, &goal_states, draws, range);
        if self.parallel {
            let values = |range| Ok(losses(range)?.values().to_vec());
            return self.by_parts(batch.contexts.examples(), together, values);
        }
        // No part is read before all are launched: the host prepares one while another is computed.
        let parts = ranges(batch.contexts.examples(), together).into_iter().map(losses);
        let parts = parts.collect::<Result<Vec<Tensor>>>()?;
        Ok(parts.iter().flat_map(Tensor::values).copied().collect())
    }

    /// The losses of some contexts, [n, S].
    fn part_losses(
        &self,
        parameters: &Parameters,
        batch: &TrainingBatch<'_>,
        goal_states: &[f32],
        draws: usize,
        range: Range<usize>,
    ) -> Result<Tensor> {
        let TrainingBatch { contexts, futures, perturbations, weights } = *batch;
        let (elements, shared) = (self.setting.shape.elements(), batch.contexts_per_future());
        // Contexts of the same future whose targets have the same conditioning share their noisy
        // targets.
        let like = |a: usize, b: usize| {
            let (a, b) = (range.start + a, range.start + b);
            a / shared == b / shared && contexts.goal(a) == contexts.goal(b)
        };
        let (goals, of_context) = RowIndex::distinct(range.len(), 1, like);
        let (mut disturbed, mut times) = (Vec::new(), Vec::new());
        let mut chosen_weights = Vec::new();
        for goal in &goals {
            let example = (range.start + goal) / shared;
            let span = example * elements..(example + 1) * elements;
            for draw in example * draws..(example + 1) * draws {
                let noise = &perturbations.noise[draw * elements..(draw + 1) * elements];
                let timestep = perturbations.timesteps[draw];
                let clean = &futures.latents[span.clone()];
                disturbed.push(Disturbed { clean, noise, timestep });
                times.push(timestep as f32);
                chosen_weights.extend(weights.iter().flat_map(|all| &all[span.clone()]));
            }
        }
        let predictions = goals.iter().flat_map(|goal| std::iter::repeat_n(*goal, draws));
        let of_draws = of_context.rows().iter().flat_map(|goal| goal * draws..(goal + 1) * draws);
        let sizes = self.sizes(times.len());
        let [latents, target] = self.perturb(&disturbed)?;
        let noisy = NoisyTargets {
            latents: &latents,
            timesteps: &times,
            predictions: RowIndex::new(predictions.collect(), range.len()),
            draws: RowIndex::new(of_draws.collect(), times.len()),
        };
        let mut tape = Tape::inference(&self.device);
        let mut pass = Pass::new(&mut tape, parameters);
        let state = self.network.read_context(&mut pass, contexts, goal_states, range)?;
        let output = self.network.target(&mut pass, &state, &noisy)?;
        let output = self.predicted(&mut tape, output)?;
        let target = noisy.draws.spread(&mut tape, &target)?;
        let weights = (!chosen_weights.is_empty()).then(|| {
            let weights = Tensor::from_slice(&chosen_weights, sizes)?;
            noisy.draws.spread(&mut tape, &weights)
        });
        Ok(tape.squared_errors(&output, &target, weights.transpose()?.as_ref())?)
    }

    /// How many contexts pass the network together, with so many draws of noise each, where a device
    /// that works on several parts at once takes `most` noisy frames.
    pub(crate) fn together(&self, contexts: &ContextBatch<'_>, draws: usize, most: usize) -> usize {
        let tokens = (2 + contexts.slots()) * self.setting.shape.tokens();
        let most =
            if self.parallel { most } else { LARGEST / (tokens * self.setting.config.width) };
        (most / draws).max(1)
    }

    /// The results of `work` on 0..count in parts of at most `together`, one after another.
    pub(crate) fn by_parts(
        &self,
        count: usize,
        together: usize,
        work: impl Fn(Range<usize>) -> Result<Vec<f32>> + Sync,
    ) -> Result<Vec<f32>> {
        let parts = ranges(count, together);
        let results: Vec<Vec<f32>> = if self.parallel {
            self.device.run(|| parts.into_par_iter().map(&work).collect::<Result<_>>())?
        } else {
            parts.into_iter().map(work).collect::<Result<_>>()?
        };
        Ok(results.concat())
    }
}

/// A future with the noise that it is hidden by.
#[derive(Clone, Copy)]
struct Disturbed<'a> {
    clean: &'a [f32],
    noise: &'a [f32],
    timestep: usize,
}

/// 0..count in pieces of at most `most`.
pub(crate) fn ranges(count: usize, most: usize) -> Vec<Range<usize>> {
    (0..count).step_by(most).map(|start| start..(start + most).min(count)).collect()
}

#[cfg(test)]
mod tests;
