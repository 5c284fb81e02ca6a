//! The diffusion transformer as a world model: training, the losses of candidates, sampling.

use crate::architecture::{architecture, difference};
use crate::dit_network::{ContextAttention, DitConfig, DitNetwork};
use crate::{
    ConditionScale, ContextBatch, DdimConfig, DdimStep, Error, LatentShape, ParameterCount,
    Perturbations, Result, TrainableWorldModel, WorldModel,
};
use far_tensor::{
    AdamWConfig, ArenaBuilder, Checkpoint, CheckpointWriter, Device, DiffusionTarget, Matching,
    NoiseSchedule, Parameters, Prediction, Step, Tape, Tensor, Trained,
};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Noisy frames that pass the network together when nothing is learned; more would not be faster and
/// would leave the caches.
const TOGETHER: usize = 32;
/// The prefix of the model's tensors in checkpoints.
const PREFIX: &str = "world_model.";
/// The note in checkpoints that says which architecture they hold.
const ARCHITECTURE: &str = "world_model";

/// What a world model of this kind is made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DitSetting {
    /// The network.
    pub config: DitConfig,
    /// The latents.
    pub shape: LatentShape,
    /// Units of poses and times.
    pub scale: ConditionScale,
    /// Further signals of a query.
    pub signals: usize,
}

impl DitSetting {
    /// How many parameters such a model has and what for, without making one.
    ///
    /// # Errors
    /// If the settings do not make a network.
    pub fn parameter_count(&self) -> Result<ParameterCount> {
        let (builder, _) = self.network()?;
        Ok(ParameterCount::new(builder.named()))
    }

    /// The network, and its parameters before memory is laid out for them.
    fn network(&self) -> Result<(ArenaBuilder, DitNetwork)> {
        let Self { config, shape, signals, .. } = *self;
        if !shape.is_valid() {
            let reason = format!("{shape:?} cannot be cut into patches");
            return Err(Error::Setting { setting: "tokenizer", reason });
        }
        let mut builder = ArenaBuilder::new("world model");
        let network = DitNetwork::new(&mut builder, config, shape, signals)?;
        Ok((builder, network))
    }
}

/// A diffusion transformer that learns.
pub struct DitWorldModel {
    core: Arc<Core>,
    trained: Trained,
}

/// A diffusion transformer that has learned.
pub struct FrozenDit {
    core: Arc<Core>,
    parameters: Parameters,
}

/// What does not change.
struct Core {
    setting: DitSetting,
    network: DitNetwork,
    schedule: NoiseSchedule,
    device: Device,
}

impl DitWorldModel {
    /// A fresh model, initialized by `seed`.
    ///
    /// # Errors
    /// If the settings do not make a network.
    pub fn new(
        setting: DitSetting,
        optimizer: AdamWConfig,
        seed: u64,
        device: &Device,
    ) -> Result<Self> {
        let (core, parameters) = Core::new(setting, seed, device)?;
        Ok(Self { core: Arc::new(core), trained: Trained::new(parameters, optimizer) })
    }

    /// The settings.
    pub fn setting(&self) -> &DitSetting {
        &self.core.setting
    }
}

impl FrozenDit {
    /// The averaged model of a checkpoint that [`DitWorldModel`] was saved to.
    ///
    /// # Errors
    /// If the checkpoint holds another architecture.
    pub fn load(setting: DitSetting, checkpoint: &mut Checkpoint, device: &Device) -> Result<Self> {
        let mut model = DitWorldModel::new(setting, AdamWConfig::default(), 0, device)?;
        model.load(checkpoint)?;
        model.freeze()
    }
}

impl DitWorldModel {
    fn freeze(&self) -> Result<FrozenDit> {
        let values = self.trained.optimizer.average().unwrap_or(self.trained.parameters.values());
        let parameters = self.trained.parameters.with_values(values)?;
        Ok(FrozenDit { core: self.core.clone(), parameters })
    }
}

impl Core {
    fn new(setting: DitSetting, seed: u64, device: &Device) -> Result<(Self, Parameters)> {
        let (builder, network) = setting.network()?;
        let schedule = NoiseSchedule::linear(1000, 1e-4, 2e-2)?;
        let core = Self { setting, network, schedule, device: device.clone() };
        Ok((core, builder.build(seed)))
    }

    fn prediction(&self) -> Prediction {
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
    fn loss(
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
    fn losses(&self, parameters: &Parameters, batch: &TrainingBatch<'_>) -> Result<Vec<f32>> {
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
    fn sample(
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
struct TrainingBatch<'a> {
    contexts: &'a ContextBatch,
    futures: &'a [f32],
    perturbations: &'a Perturbations,
    weights: Option<&'a [f32]>,
}

impl<'a> TrainingBatch<'a> {
    fn new(
        core: &Core,
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
fn ranges(count: usize, most: usize) -> Vec<Range<usize>> {
    (0..count).step_by(most).map(|start| start..(start + most).min(count)).collect()
}

macro_rules! world_model {
    ($kind:ty, $self:ident => $parameters:expr) => {
        impl WorldModel for $kind {
            fn shape(&self) -> LatentShape {
                self.core.setting.shape
            }

            fn scale(&self) -> ConditionScale {
                self.core.setting.scale
            }

            fn signals(&self) -> usize {
                self.core.setting.signals
            }

            fn schedule(&self) -> &NoiseSchedule {
                &self.core.schedule
            }

            fn prediction(&self) -> Prediction {
                self.core.prediction()
            }

            fn losses(
                &$self,
                contexts: &ContextBatch,
                futures: &[f32],
                perturbations: &Perturbations,
                weights: Option<&[f32]>,
            ) -> Result<Vec<f32>> {
                let core = &$self.core;
                let batch = TrainingBatch::new(core, contexts, futures, perturbations, weights)?;
                core.losses($parameters, &batch)
            }

            fn sample(
                &$self,
                contexts: &ContextBatch,
                noise: &[f32],
                sampler: &DdimConfig,
            ) -> Result<Vec<f32>> {
                $self.core.sample($parameters, contexts, noise, sampler)
            }
        }
    };
}

world_model!(DitWorldModel, self => &self.trained.parameters);
world_model!(FrozenDit, self => &self.parameters);

impl TrainableWorldModel for DitWorldModel {
    fn train(
        &mut self,
        contexts: &ContextBatch,
        futures: &[f32],
        perturbations: &Perturbations,
        weights: Option<&[f32]>,
        micro_batches: usize,
    ) -> Result<Step> {
        let core = &self.core;
        let batch = TrainingBatch::new(core, contexts, futures, perturbations, weights)?;
        let examples = contexts.examples();
        Error::check_length(
            "the diffusion times of a step",
            perturbations.timesteps.len(),
            examples,
        )?;
        let parts = ranges(examples, examples.div_ceil(micro_batches.max(1)).max(1));
        let step = self.trained.step(&core.device, parts.len(), |tape, parameters, part| {
            core.loss(tape, parameters, &batch, parts[part].clone())
        });
        Ok(step?)
    }

    fn average(&self) -> Result<Box<dyn WorldModel>> {
        Ok(Box::new(self.freeze()?))
    }

    fn parameter_count(&self) -> usize {
        self.trained.parameters.count()
    }

    fn save<'a>(&'a self, writer: CheckpointWriter<'a>) -> CheckpointWriter<'a> {
        let Trained { parameters, optimizer, .. } = &self.trained;
        writer
            .parameters(PREFIX, parameters)
            .optimizer(PREFIX, parameters, optimizer)
            .note(ARCHITECTURE, architecture(&self.core.setting))
    }

    fn load(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        let own = architecture(&self.core.setting);
        if let Some(other) = checkpoint.notes().get(ARCHITECTURE)
            && *other != own
        {
            let difference = difference(other, &own);
            let reason = format!("the checkpoint has another architecture: {difference}");
            return Err(Error::Setting { setting: "world_model", reason });
        }
        let Trained { parameters, optimizer, .. } = &mut self.trained;
        checkpoint.load_parameters(PREFIX, parameters, Matching::Strict)?;
        checkpoint.load_optimizer(PREFIX, parameters, optimizer)?;
        Ok(())
    }
}
