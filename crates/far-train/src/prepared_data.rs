//! Everything that a configuration names, made and opened: dataset, tokenizer, latents, encoders.
//!
//! What takes time to make is kept in the run's folder and taken from there the next time. All of
//! it is a function of the configuration and the dataset, so that making it again after an
//! interruption gives the same.

use crate::Result;
use crate::artifact::{ArtifactBuilder, Lost, NeededEncoders, Stage, counter};
use crate::config::{Arm, TrainConfig};
use crate::cue_registry::CueRegistry;
use crate::preparation::Preparation;
use crate::requirement::check_dataset;
use crate::run_folder::newest_checkpoint;
use far_data::{Dataset, Split};
use far_eval::{Evaluation, EvaluationPlan, Perceptual, Probes};
use far_memory::policy::{PolicyConfig, RuleConfig};
use far_model::{
    ConditionScale, DitSetting, EncodedDataset, GoalWarp, LONGLIVE_CUE, LatentDetector, WorldModel,
};
use far_tensor::{Device, Precision};
use rayon::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// A dataset ready to be trained on.
pub struct PreparedData {
    config: TrainConfig,
    arm: Arm,
    data: EncodedDataset,
    /// What it was prepared with, as checkpoints note it.
    pub(crate) preparation: Preparation,
    /// Training episodes at the run's newest checkpoint, if it has one.
    trained_episodes: Option<usize>,
    scale: ConditionScale,
    device: Device,
    /// The episodes that evaluations take clips from.
    pub(crate) judged: Vec<u32>,
    /// What detects in a generated frame whatever its state describes; `None` where frames have no state.
    pub(crate) detector: Option<LatentDetector>,
}

impl PreparedData {
    /// Opens the dataset of a configuration and makes what is missing in the run's folder. The world
    /// model will run on `device`, and what learns here learns there; encoders that have learned run there in tf32.
    ///
    /// # Errors
    /// If the dataset lacks something, a latent is not finite, or the disk refuses.
    pub fn open(
        config: &TrainConfig,
        folder: &Path,
        device: &Device,
        progress: &mut dyn FnMut(Stage),
    ) -> Result<Self> {
        Self::open_with(config, &[], &CueRegistry::of(config), folder, device, progress)
    }

    /// The same with these cues, and with the encoders of other arms as well, so that they can be
    /// compared with the configuration's.
    ///
    /// # Errors
    /// As [`PreparedData::open`].
    pub fn open_with(
        config: &TrainConfig,
        others: &[Arm],
        cues: &CueRegistry,
        folder: &Path,
        device: &Device,
        progress: &mut dyn FnMut(Stage),
    ) -> Result<Self> {
        let arm = config.arm.arm()?;
        let arms: Vec<&Arm> = [&arm].into_iter().chain(others).collect();
        let encoders = NeededEncoders::of(&arms)?;
        Self::open_episodes(config, encoders, cues, folder, device, Lost::Make, progress)
    }

    /// The same with these encoders. With [`Lost::Refuse`], for a run that was trained, only the episodes
    /// that are evaluated are read.
    pub(crate) fn open_episodes(
        config: &TrainConfig,
        mut encoders: NeededEncoders,
        cues: &CueRegistry,
        folder: &Path,
        device: &Device,
        lost: Lost,
        progress: &mut dyn FnMut(Stage),
    ) -> Result<Self> {
        let dataset = Arc::new(Dataset::open(&config.data.folder)?);
        check_dataset(config, cues, &dataset)?;
        let rule = config.data.split_rule;
        let learned = dataset.select(rule, Split::Train)?;
        let judged = dataset.select(rule, config.evaluation.split)?;
        // What a run was trained with stays its own, however the dataset grows or whichever is judged.
        let trained = newest_checkpoint(folder)?;
        let trained = trained.as_ref().map(|newest| &newest.checkpoint);
        let scale = match trained.and_then(ConditionScale::of_checkpoint) {
            Some(scale) => scale,
            None => ConditionScale::of_dataset(&dataset, &learned)?,
        };
        // Encoders are a hundredth of a step's work, and keys of neighbors differ little: they round finely.
        let encoding = &device.in_precision(Precision::Tf32)?;
        let maker = ArtifactBuilder {
            config,
            folder,
            lost,
            device,
            encoding,
            dataset: &dataset,
            learned: &learned,
        };
        encoders.add_existing(|cue| maker.has_encoder(cue, cues));
        let features = encoders.cues.iter().map(|cue| cues.feature(cue, &dataset));
        let features = features.filter_map(Result::transpose).collect::<Result<Vec<_>>>()?;
        let tokenizer = maker.tokenizer()?;
        let most_bytes = config.data.memory_megabytes << 20;
        let cache = far_data::cache_folder(&config.data.folder);
        let data = EncodedDataset::new(dataset.clone(), tokenizer, Vec::new(), cache, most_bytes)
            .with_conditioning(config.conditioning)
            .with_features(features);
        // A run that is judged reads no episode that it learned from.
        let all: Vec<u32> = match lost {
            Lost::Make => learned.iter().chain(&judged).copied().collect(),
            Lost::Refuse => judged.clone(),
        };
        encode(&data, &all, "episodes encoded", progress)?;
        let detector = maker.detector(&data, progress)?;
        let encoders = maker.encoders(&encoders, &data, progress)?;
        let data = if encoders.is_empty() { data } else { data.with_encoders(encoders) };
        if !data.encoders().is_empty() {
            encode(&data, &all, "episodes with keys", progress)?;
        }
        let preparation = Preparation::of(&data, learned.len());
        let trained_episodes =
            trained.and_then(Preparation::of_checkpoint).map(|trained| trained.episodes);
        let (config, arm, device) = (config.clone(), config.arm.arm()?, device.clone());
        Ok(Self {
            config,
            arm,
            data,
            preparation,
            trained_episodes,
            scale,
            device,
            judged,
            detector,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// The arm that recalls.
    pub fn arm(&self) -> &Arm {
        &self.arm
    }

    /// The dataset as the models see it.
    pub fn data(&self) -> &EncodedDataset {
        &self.data
    }

    /// How many episodes were learned from at the run's newest checkpoint, and how many are there now,
    /// if the training split has changed since.
    pub fn change_of_episodes(&self) -> Option<[usize; 2]> {
        let now = self.preparation.episodes;
        self.trained_episodes.filter(|then| *then != now).map(|then| [then, now])
    }

    /// The units of poses and times: those of the run's checkpoint, or else of the training split.
    pub fn scale(&self) -> ConditionScale {
        self.scale
    }

    /// What the world model runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// An evaluation of these arms on the held-out episodes, without perceptual metrics.
    pub fn evaluation<'a>(
        &'a self,
        judge: &'a dyn WorldModel,
        arms: &'a [far_eval::Arm],
        plan: &'a EvaluationPlan,
        device: &'a str,
    ) -> Evaluation<'a> {
        Evaluation {
            dataset: &self.data,
            episodes: &self.judged,
            judge,
            arms,
            plan,
            perceptual: Perceptual::default(),
            probes: Probes::default(),
            device,
        }
    }

    /// The world model of the configuration, for latents and signals of this dataset.
    pub fn model_setting(&self) -> DitSetting {
        let description = self.data.dataset().description();
        let tokenizer = self.data.tokenizer();
        let patches = tokenizer.linear_patches();
        DitSetting {
            config: self.config.world_model,
            shape: tokenizer.shape(),
            scale: self.scale,
            signals: self.config.conditioning.layout(description),
            view: patches.map(|patches| Arc::new(GoalWarp::new(patches, &description.camera()))),
        }
    }

    /// Numbers of a key of a cue, 0 without an encoder of it.
    pub fn key_dimension(&self, cue: &str) -> usize {
        let found = self.data.encoders().iter().find(|encoder| encoder.cue() == cue);
        found.map_or(0, |encoder| encoder.dimension())
    }

    /// A rule by its id with the corpus's camera, and the keys that were made for it, under the
    /// settings that the configuration gives.
    ///
    /// # Errors
    /// If there is no such rule, or a setting does not belong to it.
    pub fn rule(&self, id: &str) -> Result<PolicyConfig> {
        let description = self.data.dataset().description();
        let mut rule = PolicyConfig::from_id(id)?
            .with_camera(&description.camera(), description.overlap_radius);
        if let RuleConfig::LongLiveRag(settings) = &mut rule.rule {
            let own = self.data.encoders().iter().find(|encoder| encoder.cue() == LONGLIVE_CUE);
            settings.cue = own.map(|encoder| encoder.cue().to_owned());
        }
        self.config.arm.with_settings(rule)
    }
}

/// Makes the latents and keys of episodes that are not in the cache.
fn encode(
    data: &EncodedDataset,
    episodes: &[u32],
    unit: &'static str,
    progress: &mut dyn FnMut(Stage),
) -> Result<()> {
    // Threads encode, this one reports.
    let (sender, encoded) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let all = scope.spawn(move || {
            episodes.par_iter().try_for_each_with(sender, |sender, id| {
                data.episode(*id)?;
                // Sending fails only if the report has failed, which ends everything.
                let _ = sender.send(());
                Ok::<(), crate::Error>(())
            })
        });
        let mut report = counter(unit, episodes.len() as u64, progress);
        encoded.iter().for_each(|()| report());
        all.join().expect("encoding does not panic")
    })
}
