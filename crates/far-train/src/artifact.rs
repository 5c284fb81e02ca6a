//! What is made before the first step and kept in the run's folder: tokenizer, encoders, detector.

use crate::config::{Arm, TrainConfig};
use crate::contrastive::Contrastive;
use crate::{CueRegistry, Error, Result};
use far_data::Dataset;
use far_memory::policy::{KeyCues, PolicyConfig, RuleConfig};
use far_model::{
    CueEncoder, EncodedDataset, KeyEncoder, LatentDetector, LongLiveEncoder, Tokenizer,
};
use far_tensor::Device;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is made before the first step, in the run's folder.
pub(crate) fn is_artifact(name: &str) -> bool {
    let encoder = name.starts_with(ENCODER) && name.ends_with(TENSORS);
    [TOKENIZER, LONGLIVE, DETECTOR].contains(&name) || encoder
}

/// The names of what was made, in a run's folder.
pub(crate) fn artifacts_in(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).map_err(Error::file("list", folder))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| is_artifact(name)).collect())
}

pub(crate) const TOKENIZER: &str = "tokenizer.safetensors";
const LONGLIVE: &str = "longlive.safetensors";
const DETECTOR: &str = "detector.safetensors";
/// Encoders are called by their cues: `encoder-audio.safetensors`.
const ENCODER: &str = "encoder-";
const TENSORS: &str = ".safetensors";
/// The cue of rules that compare pictures.
const VISION: &str = "vision";

/// How far the preparation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What is counted, such as "episodes encoded".
    pub unit: &'static str,
    /// How many are done.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// The encoders that the cues of some arms need.
#[derive(Default)]
pub(crate) struct NeededEncoders {
    /// Each once, in the order of the arms: rules that name no cue compare the first.
    pub cues: Vec<String>,
    /// Cues whose encoders are opened too if the run has them.
    optional: Vec<String>,
    longlive: bool,
}

impl NeededEncoders {
    /// # Errors
    /// If the settings of a rule are out of range.
    pub fn of(arms: &[&Arm]) -> Result<Self> {
        let mut needed = Self::default();
        for arm in arms {
            match arm {
                Arm::Far(far) => far.keys.iter().for_each(|cue| needed.add(cue)),
                // Its keys come from an encoder of its own.
                Arm::Rule(PolicyConfig { rule: RuleConfig::LongLiveRag(_), .. }) => {
                    needed.longlive = true;
                }
                Arm::Rule(rule) => match rule.clone().build()?.requirements().keys {
                    KeyCues::None => {}
                    KeyCues::First => needed.add(VISION),
                    KeyCues::Named(cues) => cues.iter().for_each(|cue| needed.add(cue)),
                },
            }
        }
        Ok(needed)
    }

    /// The same, and the encoders of these cues if a run has them.
    pub fn with_optional(self, cues: &[String]) -> Self {
        Self { optional: cues.to_vec(), ..self }
    }

    /// Adds the optional cues whose encoders exist.
    pub fn add_existing(&mut self, exists: impl Fn(&str) -> bool) {
        let optional = std::mem::take(&mut self.optional);
        optional.iter().filter(|cue| exists(cue)).for_each(|cue| self.add(cue));
    }

    fn add(&mut self, cue: &str) {
        if !self.cues.iter().any(|known| known == cue) {
            self.cues.push(cue.to_owned());
        }
    }
}

/// What is done where a run's folder lacks something, or a file of it is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It is made, or made again.
    Make,
    /// It is refused: what a checkpoint was trained with is never replaced silently.
    Refuse,
}

/// Makes what is missing.
pub(crate) struct ArtifactBuilder<'a> {
    pub config: &'a TrainConfig,
    pub folder: &'a Path,
    pub lost: Lost,
    /// What encoders learn on, and a tokenizer that is a network runs on.
    pub device: &'a Device,
    /// What encoders run on once they have: the same in the precision of keys.
    pub encoding: &'a Device,
    pub dataset: &'a Dataset,
    pub learned: &'a [u32],
}

impl ArtifactBuilder<'_> {
    /// What the folder has under a name; `None` where it is to be made.
    fn kept<T>(&self, name: &str, load: impl FnOnce(&Path) -> Result<T>) -> Result<Option<T>> {
        let path = self.folder.join(name);
        let makes = self.lost == Lost::Make;
        if !path.exists() {
            return if makes { Ok(None) } else { Err(Error::NoArtifact { path }) };
        }
        match load(&path) {
            Err(error) if makes && error.is_damage() => Ok(None),
            loaded => loaded.map(Some),
        }
    }

    /// What the folder has under a name, or what is then made and saved there.
    fn kept_or_made<T>(
        &self,
        name: &str,
        load: impl Fn(&Path) -> Result<T>,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<T> {
        if let Some(kept) = self.kept(name, &load)? {
            return Ok(kept);
        }
        let path = self.folder.join(name);
        make(&path)?;
        load(&path)
    }

    pub fn tokenizer(&self) -> Result<Arc<dyn Tokenizer>> {
        let settings = &self.config.tokenizer;
        let path = self.folder.join(TOKENIZER);
        let load = |path: &Path| settings.load(path, self.dataset, self.device);
        // Runs keep a copy of a small network too; one without goes by the name alone.
        if (settings.is_fitted() || path.exists())
            && let Some(Some(fitted)) = self.kept(TOKENIZER, load)?
        {
            return Ok(fitted);
        }
        let fitted = settings.build(self.dataset, self.learned, self.device)?;
        fitted.save(&path)?;
        // Networks too large to be kept, and latents that came with the data, leave no file.
        Ok(if path.exists() { load(&path)?.unwrap_or(fitted) } else { fitted })
    }

    pub fn encoders(
        &self,
        needed: &NeededEncoders,
        data: &EncodedDataset,
        progress: &mut dyn FnMut(Stage),
    ) -> Result<Vec<Arc<dyn CueEncoder>>> {
        let mut encoders = Vec::new();
        for cue in &needed.cues {
            encoders.push(self.encoder(cue, data, progress)?);
        }
        if needed.longlive {
            encoders.push(self.longlive(data, progress)?);
        }
        Ok(encoders)
    }

    /// Whether the keys of a cue can be made without teaching an encoder.
    pub fn has_encoder(&self, cue: &str, cues: &CueRegistry) -> bool {
        let feature = cues.feature(cue, self.dataset).ok().flatten();
        let is_plain = feature.is_some_and(|feature| feature.encoder().is_some());
        // A file that a configuration names serves any cue where the arm has none.
        let arm = self.config.arm.arm();
        let is_given =
            self.config.encoder.path.is_some() && arm.is_ok_and(|arm| arm.key_cues().is_empty());
        is_plain || is_given || self.folder.join(format!("{ENCODER}{cue}{TENSORS}")).exists()
    }

    fn encoder(
        &self,
        cue: &str,
        data: &EncodedDataset,
        progress: &mut dyn FnMut(Stage),
    ) -> Result<Arc<dyn CueEncoder>> {
        if let Some(encoder) = data.plain_encoder(cue) {
            return Ok(encoder);
        }
        let encoder = &self.config.encoder;
        // A file that a configuration names is that of one cue: the first.
        let first = self.config.arm.arm()?.key_cues().first().is_none_or(|first| first == cue);
        let given = |path: &Option<PathBuf>| path.clone().filter(|_| first);
        let load = |path: &Path| -> Result<Arc<dyn CueEncoder>> {
            let encoder = KeyEncoder::load(path, self.encoding)?;
            encoder.check_input(&data.input_recipe(cue))?;
            Ok(Arc::new(encoder))
        };
        if let Some(path) = given(&encoder.path) {
            return load(&path);
        }
        self.kept_or_made(&format!("{ENCODER}{cue}{TENSORS}"), load, |path| {
            let seed = self.config.training.seed;
            let sampling = encoder.sampling(&self.config.data, seed);
            let (network, training) = (encoder.network(), encoder.training(seed));
            let mut contrastive =
                Contrastive::new(data, cue, sampling, network, training, self.device)?;
            if let Some(from) = given(&encoder.pretraining.from) {
                contrastive.begin_with(&KeyEncoder::load(&from, self.encoding)?)?;
            }
            let steps = encoder.pretraining.steps;
            let mut report = counter("updates of the encoder", steps, progress);
            while contrastive.done() < steps {
                contrastive.step()?;
                report();
            }
            Ok(contrastive.encoder()?.save(path)?)
        })
    }

    /// The detector for what states describe, where frames have states.
    pub fn detector(
        &self,
        data: &EncodedDataset,
        progress: &mut dyn FnMut(Stage),
    ) -> Result<Option<LatentDetector>> {
        let description = self.dataset.description();
        if !self.config.conditioning.layout(description).state.is_present() {
            return Ok(None);
        }
        let load = |path: &Path| {
            let detector = LatentDetector::load(path, &Device::cpu())?;
            detector.check_input(&data.tokenizer().recipe())?;
            Ok(detector)
        };
        let detector = self.kept_or_made(DETECTOR, load, |path| {
            let (settings, seed) = (self.config.detector, self.config.training.seed);
            let report = counter("updates of the detector", settings.steps, progress);
            let fitted =
                LatentDetector::fit(data, self.learned, settings, seed, self.device, report)?;
            Ok(fitted.save(path)?)
        });
        detector.map(Some)
    }

    fn longlive(
        &self,
        data: &EncodedDataset,
        progress: &mut dyn FnMut(Stage),
    ) -> Result<Arc<dyn CueEncoder>> {
        let load = |path: &Path| -> Result<Arc<dyn CueEncoder>> {
            Ok(Arc::new(LongLiveEncoder::load(path, self.encoding)?))
        };
        self.kept_or_made(LONGLIVE, load, |path| {
            let (settings, seed) = (&self.config.longlive, self.config.training.seed);
            let mut report = counter("updates of the autoencoder", settings.steps, progress);
            let fitted =
                LongLiveEncoder::fit(data, self.learned, settings, seed, self.device, |_| {
                    report();
                })?;
            Ok(fitted.save(path)?)
        })
    }
}

/// Reports one more of `total` each time it is called.
pub(crate) fn counter(
    unit: &'static str,
    total: u64,
    progress: &mut dyn FnMut(Stage),
) -> impl FnMut() {
    let mut done = 0;
    move || {
        done += 1;
        progress(Stage { unit, done, total });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoders_are_needed_once_each_in_the_order_of_the_arms() {
        let sets = ["conditioning.interactions=true", "arm.also=[\"interaction\"]"];
        let config = TrainConfig::resolve("quick", &sets).expect("a configuration");
        let learned = config.arm.arm().expect("far-multi");
        let sets = ["arm.id=mixture-of-contexts"];
        let rule = TrainConfig::resolve("quick", &sets).expect("a rule").arm.arm().expect("known");
        let needed = |arms: &[&Arm]| NeededEncoders::of(arms).expect("valid settings").cues;
        assert_eq!(needed(&[&learned, &rule]), ["vision", "interaction"]);
        assert_eq!(needed(&[&rule, &learned]), ["vision", "interaction"]);
        assert_eq!(needed(&[&rule]), ["vision"]);
    }

    #[test]
    fn every_rule_that_compares_keys_gets_an_encoder() {
        let arm = |sets: &[&str]| TrainConfig::resolve("quick", sets).expect("valid").arm.arm();
        let needed = |sets: &[&str]| {
            let arm = arm(sets).expect("known");
            NeededEncoders::of(&[&arm]).expect("valid settings").cues
        };
        assert_eq!(needed(&["arm.id=worldmem-paper"]), ["vision"]);
        assert_eq!(needed(&["arm.id=mixture-of-contexts", "arm.settings.cue=audio"]), ["audio"]);
        assert!(needed(&["arm.id=longlive-rag"]).is_empty(), "it has an encoder of its own");
        assert!(needed(&["arm.id=worldmem"]).is_empty());
    }
}
