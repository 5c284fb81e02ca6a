//! Diffusion over a transformer: the loss of a batch, the losses of candidates, sampling.

use crate::dit_network::{ContextAttention, DitNetwork};
use crate::dit_world_model::DitSetting;
use crate::{ContextBatch, DdimConfig, DdimStep, Error, Perturbations, Result};
use far_tensor::{Device, DiffusionTarget, NoiseSchedule, Parameters, Prediction, Tape, Tensor};
use rayon::prelude::*;
use std::ops::Range;

/// Noisy frames that pass the network together when nothing is learned; more would not be faster and
/// would leave the caches.
const TOGETHER: usize = 32;

/// What does not change.
pub(crate) struct DitDiffusion {
    pub(crate) setting: DitSetting,
    network: DitNetwork,
    pub(crate) schedule: NoiseSchedule,
    pub(crate) device: Device,
}

impl DitDiffusion {
    pub(crate) fn new(
        setting: DitSetting,
        seed: u64,
        device: &Device,
    ) -> Result<(Self, Parameters)> {
        let (builder, network) = setting.network()?;
        let schedule = NoiseSchedule::linear(1000, 1e-4, 2e-2)?;
        let core = Self { setting, network, schedule, device: device.clone() };
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

    /// Of one future: its noisy version and what should be predicted of it.
    fn perturb(
        &self,
        clean: &[f32],
        noise: &[f32],
        timestep: usize,
        noisy: &mut Vec<f32>,
        target: &mut Vec<f32>,
    ) -> far_tensor::Result<()> {
        let kept = self.schedule.signal_power(timestep)?;
        let (signal, spread) = (kept.sqrt() as f32, (1.0 - kept).sqrt() as f32);
        noisy.extend(clean.iter().zip(noise).map(|(x, e)| signal * x + spread * e));
        match self.prediction() {
            Prediction::Noise => target.extend_from_slice(noise),
            Prediction::Velocity => {
                target.extend(clean.iter().zip(noise).map(|(x, e)| signal * e - spread * x));
            }
        }
        Ok(())
    }

    /// The training loss of some predictions.
    pub(crate) fn loss(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        batch: &TrainingBatch<'_>,
        range: Range<usize>,
    ) -> far_tensor::Result<Tensor> {
        let elements = self.setting.shape.elements();
        let (mut noisy, mut target) = (Vec::new(), Vec::new());
        let rows = range.start * elements..range.end * elements;
        let clean = &batch.futures[rows.clone()];
        for example in range.clone() {
            let span = example * elements..(example + 1) * elements;
            let noise = &batch.perturbations.noise[span.clone()];
            let timestep = batch.perturbations.timesteps[example];
            self.perturb(&batch.futures[span], noise, timestep, &mut noisy, &mut target)?;
        }
        let timesteps = &batch.perturbations.timesteps[range.clone()];
        let told: Vec<f32> = timesteps.iter().map(|timestep| *timestep as f32).collect();
        let sizes = self.sizes(range.len());
        let noisy = Tensor::from_slice(&noisy, sizes)?;
        let target = Tensor::from_slice(&target, sizes)?;
        let weights = batch.weights.map(|weights| Tensor::from_slice(&weights[rows], sizes));
        let weights = weights.transpose()?;
        let output =
            self.network.forward(tape, parameters, batch.contexts, range, &noisy, &told)?;
        if !self.setting.config.learned_variance {
            return tape.squared_error(&output, &target, weights.as_ref());
        }
        // The loss wants the predictions of a sample before its variances.
        let token = self.setting.shape.token_width();
        let halves = [0..token, token..2 * token].map(|half| tape.slice(&output, 2, half));
        let [predicted, variance] = halves;
        let output = tape.concat(&[&predicted?, &variance?], 1)?;
        let coefficients = timesteps
            .iter()
            .map(|timestep| self.schedule.coefficients(*timestep, self.prediction()));
        let coefficients = coefficients.collect::<far_tensor::Result<Vec<_>>>()?;
        let clean = Tensor::from_slice(clean, sizes)?;
        let targets = DiffusionTarget { target: &target, clean: &clean, weights: weights.as_ref() };
        let bound_weight = self.setting.config.bound_weight;
        let loss = tape.diffusion_loss(&output, targets, &coefficients, bound_weight)?;
        tape.mean(&loss.loss)
    }

    /// See [`WorldModel::losses`].
    pub(crate) fn losses(
        &self,
        parameters: &Parameters,
        batch: &TrainingBatch<'_>,
    ) -> Result<Vec<f32>> {
        let TrainingBatch { contexts, futures, perturbations, weights } = *batch;
        let elements = self.setting.shape.elements();
        let draws = perturbations.draws.max(1);
        let together = (TOGETHER / draws).max(1);
        let count = contexts.examples();
        let shared = count / (futures.len() / elements).max(1);
        let parts: Vec<Range<usize>> = ranges(count, together);
        let part_losses = |range: &Range<usize>| -> Result<Vec<f32>> {
            let (mut noisy, mut target, mut told) = (Vec::new(), Vec::new(), Vec::new());
            for context in range.clone() {
                let example = context / shared;
                let clean = &futures[example * elements..(example + 1) * elements];
                for draw in example * draws..(example + 1) * draws {
                    let noise = &perturbations.noise[draw * elements..(draw + 1) * elements];
                    let timestep = perturbations.timesteps[draw];
                    self.perturb(clean, noise, timestep, &mut noisy, &mut target)?;
                    told.push(timestep as f32);
                }
            }
            let mut tape = Tape::inference(&self.device);
            let noisy = Tensor::from_slice(&noisy, self.sizes(told.len()))?;
            let output = self.network.forward(
                &mut tape,
                parameters,
                contexts,
                range.clone(),
                &noisy,
                &told,
            )?;
            let output = self.predicted(&mut tape, output)?;
            let samples = output.values().chunks(elements).zip(target.chunks(elements));
            let losses = samples.enumerate().map(|(sample, (output, target))| {
                let example = (range.start + sample / draws) / shared;
                let squares = output.iter().zip(target).map(|(y, x)| f64::from((y - x) * (y - x)));
                let sum: f64 = match weights {
                    None => squares.sum(),
                    Some(weights) => {
                        let weights = &weights[example * elements..(example + 1) * elements];
                        squares
                            .zip(weights)
                            .map(|(square, weight)| square * f64::from(*weight))
                            .sum()
                    }
                };
                (sum / elements as f64) as f32
            });
            Ok(losses.collect())
        };
        let losses: Vec<Vec<f32>> =
            self.device.run(|| parts.par_iter().map(part_losses).collect::<Result<_>>())?;
        Ok(losses.concat())
    }

    /// See [`WorldModel::sample`].
    pub(crate) fn sample(
        &self,
        parameters: &Parameters,
        contexts: &ContextBatch,
        noise: &[f32],
        sampler: &DdimConfig,
    ) -> Result<Vec<f32>> {
        let elements = self.setting.shape.elements();
        Error::check_length("the noise", noise.len(), contexts.examples() * elements)?;
        let steps = DdimStep::all(sampler, &self.schedule)?;
        let part = |range: &Range<usize>| -> Result<Vec<f32>> {
            let mut x = noise[range.start * elements..range.end * elements].to_vec();
            let mut tape = Tape::inference(&self.device);
            let state = match self.setting.config.attention {
                ContextAttention::Joint => None,
                ContextAttention::ContextFirst => Some(self.network.read_context(
                    &mut tape,
                    parameters,
                    contexts,
                    range.clone(),
                )?),
            };
            for step in &steps {
                let told = vec![step.timestep as f32; range.len()];
                let noisy = Tensor::from_slice(&x, self.sizes(range.len()))?;
                let (network, range) = (&self.network, range.clone());
                let output = match &state {
                    None => {
                        network.forward(&mut tape, parameters, contexts, range, &noisy, &told)?
                    }
                    Some(state) => network
                        .target(&mut tape, parameters, contexts, range, state, &noisy, &told)?,
                };
                let output = self.predicted(&mut tape, output)?;
                step.advance(self.prediction(), output.values(), &mut x);
            }
            Ok(x)
        };
        let parts = ranges(contexts.examples(), TOGETHER / 2);
        let parts: Vec<Vec<f32>> =
            self.device.run(|| parts.par_iter().map(part).collect::<Result<_>>())?;
        Ok(parts.concat())
    }
}

/// Contexts with their futures and noises, of sizes that fit.
#[derive(Clone, Copy)]
pub(crate) struct TrainingBatch<'a> {
    contexts: &'a ContextBatch,
    futures: &'a [f32],
    perturbations: &'a Perturbations,
    weights: Option<&'a [f32]>,
}

impl<'a> TrainingBatch<'a> {
    pub(crate) fn new(
        core: &DitDiffusion,
        contexts: &'a ContextBatch,
        futures: &'a [f32],
        perturbations: &'a Perturbations,
        weights: Option<&'a [f32]>,
    ) -> Result<Self> {
        let elements = core.setting.shape.elements();
        if contexts.shape() != core.setting.shape {
            let reason =
                format!("contexts of {:?}, not of {:?}", contexts.shape(), core.setting.shape);
            return Err(Error::Setting { setting: "tokenizer", reason });
        }
        let (count, examples) = (contexts.examples(), futures.len() / elements);
        Error::check_length("the futures", futures.len(), examples * elements)?;
        let shared = count.checked_div(examples).unwrap_or(0);
        Error::check_length("the contexts of all futures", count, shared * examples)?;
        let draws = perturbations.draws * examples;
        Error::check_length("the diffusion times", perturbations.timesteps.len(), draws)?;
        Error::check_length("the noise", perturbations.noise.len(), draws * elements)?;
        if let Some(weights) = weights {
            Error::check_length("the weights of the loss", weights.len(), futures.len())?;
        }
        Ok(Self { contexts, futures, perturbations, weights })
    }
}

/// 0..count in pieces of at most `most`.
pub(crate) fn ranges(count: usize, most: usize) -> Vec<Range<usize>> {
    (0..count).step_by(most).map(|start| start..(start + most).min(count)).collect()
}
