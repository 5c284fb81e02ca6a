//! The diffusion transformer as a world model: one that learns and one that has learned.

use crate::architecture::{architecture, difference, is_same};
use crate::layer::Pass;
use crate::world_model::config::DitConfig;
use crate::world_model::diffusion::{DitDiffusion, ranges};
use crate::world_model::network::DitNetwork;
use crate::world_model::training_batch::TrainingBatch;
use crate::{
    ConditionScale, ContextBatch, DdimConfig, Error, Futures, GoalWarp, LatentShape,
    ParameterCount, Perturbations, Result, SignalLayout, TrainableWorldModel, WorldModel,
};
use far_tensor::{
    AdamWConfig, ArenaBuilder, Checkpoint, CheckpointWriter, Device, Matching, NoiseSchedule,
    Parameters, Step, Trained,
};
use std::sync::Arc;

/// The prefix of the model's tensors in checkpoints.
const PREFIX: &str = "world_model.";
/// The note in checkpoints that says which architecture they hold.
pub(crate) const ARCHITECTURE: &str = "world_model";

/// What a world model of this kind is made for.
#[derive(Clone, Debug)]
pub struct DitSetting {
    /// The network.
    pub config: DitConfig,
    /// The latents.
    pub shape: LatentShape,
    /// Units of poses and times.
    pub scale: ConditionScale,
    /// The channels beyond latents, poses and times.
    pub signals: SignalLayout,
    /// How latents look from another place, where the tokenizer can tell.
    pub view: Option<Arc<GoalWarp>>,
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
    pub(crate) fn network(&self) -> Result<(ArenaBuilder, DitNetwork)> {
        let Self { config, shape, signals, .. } = *self;
        let view = self.view.clone();
        if !shape.is_valid() {
            let reason = format!("{shape:?} cannot be cut into patches");
            return Err(Error::Setting { setting: "tokenizer", reason });
        }
        let view = match (config.seen_from_goal, view) {
            (None, _) => None,
            (Some(distance), Some(view)) => Some((view, distance)),
            (Some(_), None) => {
                let reason = "the tokens of this tokenizer are not linear in pixels: it wants \
                    tokenizer.patch_pca with group = 1";
                let setting = "world_model.seen_from_goal";
                return Err(Error::Setting { setting, reason: reason.to_owned() });
            }
        };
        let mut builder = ArenaBuilder::new("world model");
        let network = DitNetwork::new(&mut builder, config, shape, signals, view)?;
        Ok((builder, network))
    }
}

/// A diffusion transformer that learns.
pub struct DitWorldModel {
    core: Arc<DitDiffusion>,
    trained: Trained,
}

/// A diffusion transformer that has learned.
pub struct FrozenDit {
    core: Arc<DitDiffusion>,
    parameters: Parameters,
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
        let (core, parameters) = DitDiffusion::new(setting, seed, device)?;
        Ok(Self { core: Arc::new(core), trained: Trained::new(parameters, optimizer) })
    }

    /// The settings.
    pub fn setting(&self) -> &DitSetting {
        &self.core.setting
    }
}

impl FrozenDit {
    /// A network that has learned nothing, initialized by `seed`: it predicts zero, with as much work
    /// as any other, and takes no memory for learning. For measuring speed.
    ///
    /// # Errors
    /// If the settings do not make a network.
    pub fn new(setting: DitSetting, seed: u64, device: &Device) -> Result<Self> {
        let (core, parameters) = DitDiffusion::new(setting, seed, device)?;
        Ok(Self { core: Arc::new(core), parameters })
    }

    /// The averaged model of a checkpoint that [`DitWorldModel`] was saved to, or the model itself
    /// where no average was kept.
    ///
    /// # Errors
    /// If the checkpoint holds another architecture.
    pub fn load(setting: DitSetting, checkpoint: &mut Checkpoint, device: &Device) -> Result<Self> {
        let (core, mut parameters) = DitDiffusion::new(setting, 0, device)?;
        check_architecture(&core.setting, checkpoint)?;
        let average = format!("{PREFIX}average.");
        let found = checkpoint.load_parameters(&average, &mut parameters, Matching::Partial)?;
        let prefix = if found == 0 { PREFIX } else { &average };
        checkpoint.load_parameters(prefix, &mut parameters, Matching::Strict)?;
        Ok(Self { core: Arc::new(core), parameters })
    }
}

impl DitWorldModel {
    fn freeze(&self) -> Result<FrozenDit> {
        let values = self.trained.optimizer.average().unwrap_or(self.trained.parameters.values());
        let parameters = self.trained.parameters.with_values(values)?;
        Ok(FrozenDit { core: self.core.clone(), parameters })
    }
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

            fn signals(&self) -> SignalLayout {
                self.core.setting.signals
            }

            fn earlier_view(&self) -> Option<f32> {
                self.core.setting.config.earlier_view
            }

            fn schedule(&self) -> &NoiseSchedule {
                &self.core.schedule
            }

            fn losses(
                &$self,
                contexts: &ContextBatch<'_>,
                futures: &Futures,
                perturbations: &Perturbations,
                weights: Option<&[f32]>,
            ) -> Result<Vec<f32>> {
                let core = &$self.core;
                let batch = TrainingBatch::new(core, contexts, futures, perturbations, weights)?;
                core.losses($parameters, &batch)
            }

            fn sample(
                &$self,
                contexts: &ContextBatch<'_>,
                noise: &[f32],
                sampler: &DdimConfig,
            ) -> Result<Vec<f32>> {
                $self.core.sample($parameters, contexts, noise, sampler)
            }

            fn auxiliary(&$self, contexts: &ContextBatch<'_>) -> Result<Option<Vec<f32>>> {
                $self.core.auxiliary($parameters, contexts)
            }

            fn auxiliary_losses(
                &$self,
                contexts: &ContextBatch<'_>,
                futures: &Futures,
            ) -> Result<Option<Vec<f32>>> {
                $self.core.auxiliary_losses($parameters, contexts, futures)
            }
        }
    };
}

world_model!(DitWorldModel, self => &self.trained.parameters);
world_model!(FrozenDit, self => &self.parameters);

impl TrainableWorldModel for DitWorldModel {
    fn train(
        &mut self,
        contexts: &ContextBatch<'_>,
        futures: &Futures,
        perturbations: &Perturbations,
        weights: Option<&[f32]>,
        micro_batches: usize,
    ) -> Result<Step> {
        let core = &self.core;
        let batch = TrainingBatch::new(core, contexts, futures, perturbations, weights)?;
        let examples = contexts.examples();
        let times = perturbations.timesteps.len();
        Error::check_length("the diffusion times of a step", times, examples)?;
        let parts = ranges(examples, examples.div_ceil(micro_batches.max(1)).max(1));
        let step = self.trained.step(&core.device, parts.len(), |tape, parameters, part| {
            core.loss(&mut Pass::new(tape, parameters), &batch, parts[part].clone())
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
        let writer = writer.note(ARCHITECTURE, architecture(&self.core.setting));
        self.trained.save(PREFIX, writer)
    }

    fn load(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        check_architecture(&self.core.setting, checkpoint)?;
        Ok(self.trained.load(PREFIX, checkpoint)?)
    }
}

/// Refuses the checkpoint of a model with other settings.
fn check_architecture(setting: &DitSetting, checkpoint: &Checkpoint) -> Result<()> {
    let own = architecture(setting);
    if let Some(other) = checkpoint.notes().get(ARCHITECTURE)
        && !is_same(other, &own)
    {
        let difference = difference(other, &own);
        let reason = format!("the checkpoint has another architecture: {difference}");
        return Err(Error::Setting { setting: "world_model", reason });
    }
    Ok(())
}
