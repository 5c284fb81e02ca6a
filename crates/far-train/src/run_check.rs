//! Everything that can be known of a run before anything is written, deleted or trained.

use crate::artifact::artifacts_in;
use crate::companion::learned_arms;
use crate::config::TrainConfig;
use crate::memory_need::MemoryNeed;
use crate::requirement::check_description;
use crate::{CueRegistry, Error, Result};
use far_data::{
    Dataset, DatasetDescription, EvaluationClip, SamplingConfig, Split, TrainingSampler,
};
use far_model::{ConditionScale, DitConfig, DitSetting, LatentShape, ParameterCount};
use far_tensor::Device;
use std::path::Path;

/// What a run will be.
#[derive(Clone, Debug)]
pub struct RunCheck {
    /// Episodes that are learned from.
    pub episodes: usize,
    /// Clips that can be judged.
    pub clips: usize,
    /// A frame as the world model reads it.
    pub shape: LatentShape,
    /// Parameters of the world model.
    pub parameters: ParameterCount,
    /// The memory that it takes.
    pub memory: MemoryNeed,
}

impl RunCheck {
    /// Checks a configuration against its dataset and a device: everything is there that the arm and
    /// its companions need, there are examples to learn from and clips to judge by, files that are named
    /// exist, the settings make a network, and it fits into memory.
    ///
    /// # Errors
    /// The first reason why the run would not start.
    pub fn new(
        config: &TrainConfig,
        companions: &[(String, TrainConfig)],
        device: &Device,
    ) -> Result<Self> {
        let dataset = &Dataset::open(&config.data.folder)?;
        check_arms(config, companions, dataset.description(), dataset.folder())?;
        for path in [&config.encoder.path, &config.encoder.pretraining.from].into_iter().flatten() {
            std::fs::metadata(path).map_err(Error::file("read", path))?;
        }
        let episodes = dataset.select(config.data.split_rule, Split::Train)?.len();
        // Anchors are looked for when training begins: finding them takes reading every episode.
        let sampling =
            SamplingConfig { anchor: None, ..config.data.sampling(config.training.seed) };
        TrainingSampler::new(dataset, sampling)?;
        let clips = clips(config, dataset)?;
        if clips == 0 && config.training.evaluate_every > 0 {
            let (folder, split) = (dataset.folder().to_path_buf(), config.evaluation.split.name());
            return Err(Error::NothingHeldOut { folder, split });
        }
        let shape = latent_shape(config, dataset, device)?;
        let parameters = parameters(config, dataset, shape)?;
        let memory = MemoryNeed::new(config, parameters.total(), shape);
        memory.check(config, device)?;
        Ok(Self { episodes, clips, shape, parameters, memory })
    }
}

/// Checks what can be known of a run's arm and its companions before their dataset is recorded: the arms can
/// learn beside each other, and a dataset of this description in this folder has what they need.
///
/// # Errors
/// The first reason why the run would not start.
pub fn check_arms(
    config: &TrainConfig,
    companions: &[(String, TrainConfig)],
    description: &DatasetDescription,
    folder: &Path,
) -> Result<()> {
    learned_arms(config, companions)?;
    let mut all = std::iter::once(config).chain(companions.iter().map(|(_, config)| config));
    all.try_for_each(|config| {
        check_description(config, &CueRegistry::of(config), description, folder)
    })
}

/// Refuses a folder that has no tokenizer and no encoder to take over.
///
/// # Errors
/// [`Error::NotPrepared`], or the disk's.
pub fn check_prepared(folder: &Path) -> Result<()> {
    match artifacts_in(folder)?.is_empty() {
        true => Err(Error::NotPrepared { folder: folder.to_path_buf() }),
        false => Ok(()),
    }
}

/// Held-out episodes that explore and return.
fn clips(config: &TrainConfig, dataset: &Dataset) -> Result<usize> {
    let walk = config.evaluation_plan().walk;
    let mut clips = 0;
    for id in dataset.select(config.data.split_rule, config.evaluation.split)? {
        clips += usize::from(EvaluationClip::new(dataset, id, &walk)?.is_some());
    }
    Ok(clips)
}

/// The shape that frames will have, without fitting anything.
fn latent_shape(config: &TrainConfig, dataset: &Dataset, device: &Device) -> Result<LatentShape> {
    match config.tokenizer.is_fitted() {
        true => Ok(config.tokenizer.patch_pca.shape()),
        false => Ok(config.tokenizer.build(dataset, &[], device)?.shape()),
    }
}

fn parameters(
    config: &TrainConfig,
    dataset: &Dataset,
    shape: LatentShape,
) -> Result<ParameterCount> {
    // Seeing from the goal has no parameters; what it needs of a tokenizer, a fitted one has.
    let is_linear = config.tokenizer.is_fitted() && shape.patch == 1;
    let model = config.world_model;
    let seen_from_goal = model.seen_from_goal.filter(|_| !is_linear);
    let setting = DitSetting {
        config: DitConfig { seen_from_goal, ..model },
        shape,
        scale: ConditionScale { length: 1.0, time: 1.0 },
        signals: config.conditioning.layout(dataset.description()),
        view: None,
    };
    Ok(setting.parameter_count()?)
}
