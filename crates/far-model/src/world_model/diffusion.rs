//! Diffusion over a transformer: the loss of a batch, the losses of candidates, sampling.

use crate::layer::Pass;
use crate::world_model::dit_world_model::DitSetting;
use crate::world_model::network::DitNetwork;
use crate::world_model::noisy_target::NoisyTargets;
use crate::world_model::row_index::RowIndex;
use crate::{ContextBatch, DdimConfig, DdimStep, Error, Futures, Perturbations, Result};
use far_tensor::{
    Buffer, Device, DiffusionTarget, NoiseSchedule, Parameters, Prediction, Repeated, Tape, Tensor,
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
    fn sizes(&self, samples: usize) -> [usize; 3] {
        let shape = self.setting.shape;
        [samples, shape.tokens(), shape.token_width()]
    }

    /// The predicted half of the network's output, [m, T, P].
    fn predicted(&self, tape: &mut Tape, output: Tensor) -> far_tensor::Result<Tensor> {
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

    /// See [`WorldModel::sample`].
    pub(crate) fn sample(
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

/// Contexts with their futures and noises, of sizes that fit.
#[derive(Clone, Copy)]
pub(crate) struct TrainingBatch<'a> {
    pub(crate) contexts: &'a ContextBatch<'a>,
    pub(crate) futures: &'a Futures,
    perturbations: &'a Perturbations,
    weights: Option<&'a [f32]>,
}

impl<'a> TrainingBatch<'a> {
    pub(crate) fn new(
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
    fn contexts_per_future(&self) -> usize {
        let elements = self.contexts.shape().elements();
        self.contexts.examples() / (self.futures.latents.len() / elements).max(1)
    }

    /// The state at the goal of each context.
    pub(crate) fn goal_states(&self) -> Vec<f32> {
        let width = self.contexts.signals().goal_state.width;
        let states = self.futures.states.chunks_exact(width.max(1));
        states.flat_map(|state| state.repeat(self.contexts_per_future())).collect()
    }
}

/// 0..count in pieces of at most `most`.
pub(crate) fn ranges(count: usize, most: usize) -> Vec<Range<usize>> {
    (0..count).step_by(most).map(|start| start..(start + most).min(count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        ELEMENTS, SHAPE, SIGNALS, assert_near, contexts, futures, normal, shaken,
    };
    use crate::{ConditionScale, ContextAttention, DitConfig, PredictionKind};

    fn core(attention: ContextAttention) -> (DitDiffusion, Parameters) {
        let config = DitConfig { depth: 4, width: 8, heads: 2, attention, ..DitConfig::default() };
        let scale = ConditionScale { length: 2.0, time: 6.4 };
        let setting = DitSetting { config, shape: SHAPE, scale, signals: SIGNALS, view: None };
        let (core, parameters) = DitDiffusion::new(setting, 3, &Device::cpu()).unwrap();
        (core, shaken(&parameters, 3))
    }

    /// A device that takes everything at once gives what small parts give.
    #[test]
    fn the_size_of_parts_changes_nothing() {
        for attention in [ContextAttention::Joint, ContextAttention::ContextFirst] {
            let (mut core, parameters) = core(attention);
            let contexts = contexts(1, &(0..40).map(|example| example % 2).collect::<Vec<_>>(), 5);
            // Twenty futures with two contexts each.
            let futures = futures(20, 5);
            let weights: Vec<f32> = futures.latents.iter().map(|value| value.abs()).collect();
            let drawn = Perturbations::stratified(0..1000, [20, 3, ELEMENTS], 1, "draw", 0);
            let batch =
                TrainingBatch::new(&core, &contexts, &futures, &drawn, Some(&weights)).unwrap();
            let noise = normal(40 * ELEMENTS, "noise", 5);
            let sampler = DdimConfig { steps: 3, ..DdimConfig::default() };
            let run = |core: &DitDiffusion| {
                let losses = core.losses(&parameters, &batch).unwrap();
                (losses, core.sample(&parameters, &contexts, &noise, &sampler).unwrap())
            };
            assert_eq!(core.together(&contexts, 3, TOGETHER), 10);
            let small = run(&core);
            core.parallel = false;
            // 3 frames of 2 tokens of 8 channels each.
            assert_eq!(core.together(&contexts, 3, TOGETHER), (1 << 27) / 48 / 3);
            let large = run(&core);
            assert_near("losses", &large.0, &small.0);
            assert_near("samples", &large.1, &small.1);
        }
    }

    /// Errors by hand of a network that predicts zero.
    #[test]
    fn losses_of_a_fresh_network_are_weighted_squares() {
        let (core, _) = core(ContextAttention::Joint);
        let fresh = core.setting.network().unwrap().0.build(3);
        let (contexts, futures) = (contexts(1, &[1, 1, 1, 0], 5), futures(2, 5));
        let weights: Vec<f32> = futures.latents.iter().map(|value| value.abs()).collect();
        let drawn = Perturbations::stratified(0..1000, [2, 2, ELEMENTS], 1, "draw", 0);
        let batch = TrainingBatch::new(&core, &contexts, &futures, &drawn, Some(&weights)).unwrap();
        let found = core.losses(&fresh, &batch).unwrap();
        let expected: Vec<f32> = (0..8)
            .map(|sample| {
                let (example, draw) = (sample / 4, sample / 4 * 2 + sample % 2);
                let noise = &drawn.noise[draw * ELEMENTS..(draw + 1) * ELEMENTS];
                let weights = &weights[example * ELEMENTS..(example + 1) * ELEMENTS];
                let sum: f32 = noise.iter().zip(weights).map(|(noise, w)| w * noise * noise).sum();
                sum / ELEMENTS as f32
            })
            .collect();
        assert_near("losses", &found, &expected);
    }

    /// A network that predicts the future itself: noise does not enter.
    #[test]
    fn clean_losses_are_weighted_by_place() {
        let (core, _) = core(ContextAttention::Joint);
        let prediction = PredictionKind::Clean;
        let config = DitConfig { prediction, learned_variance: false, ..core.setting.config };
        let setting = DitSetting { config, ..core.setting.clone() };
        let (core, fresh) = DitDiffusion::new(setting, 3, &Device::cpu()).unwrap();
        let (contexts, futures) = (contexts(1, &[1, 0], 5), futures(2, 5));
        let given: Vec<f32> = futures.latents.iter().map(|value| value.abs()).collect();
        let drawn = Perturbations::stratified(0..1000, [2, 1, ELEMENTS], 1, "draw", 0);
        for weights in [None, Some(&given[..])] {
            let batch = TrainingBatch::new(&core, &contexts, &futures, &drawn, weights).unwrap();
            let expected: Vec<f32> = (0..2)
                .map(|example| {
                    let span = example * ELEMENTS..(example + 1) * ELEMENTS;
                    let squares =
                        span.map(|at| weights.map_or(1.0, |w| w[at]) * futures.latents[at].powi(2));
                    squares.sum::<f32>() / ELEMENTS as f32
                })
                .collect();
            assert_near("losses", &core.losses(&fresh, &batch).unwrap(), &expected);
            // Training counts the same errors.
            let mut tape = Tape::inference(&core.device);
            let loss = core.frame_loss(&mut Pass::new(&mut tape, &fresh), &batch, 0..2).unwrap();
            assert_near("loss", loss.values(), &[expected.iter().sum::<f32>() / 2.0]);
        }
    }
}
