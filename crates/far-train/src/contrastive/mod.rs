//! Contrastive pretraining of the encoder: the query of a frame and an action is drawn toward the
//! keys of what was seen near the goal, away from other keys of the same episode.
//!
//! Queries h = enc(z, a) and keys k = enc(z, ∅) come from one network; the loss is InfoNCE over
//! their cosines. Afterwards the encoder is frozen, so keys of memories are made once and kept.

mod batch;

use crate::{Error, Result};
use batch::Batch;
use far_data::{ContrastiveConfig, ContrastiveSampler};
use far_model::{
    ConditionScale, EncodedDataset, EncoderDescription, KeyEncoder, Pass, QueryVit, QueryVitConfig,
};
use far_tensor::{AdamWConfig, Checkpoint, CheckpointWriter, Device, Matching, Trained};
use serde::Serialize;
use std::path::Path;

/// The note of a checkpoint that holds what decides the run.
const NOTE: &str = "pretraining";

far_memory::settings! {
    /// How pretraining goes, besides what it is shown.
    #[derive(Copy)]
    pub struct ContrastiveTraining {
        /// Updates. Paper: 400,000; dyn 12,500.
        pub steps: u64 = 400_000,
        /// Learning rate. Paper: 2e-4; dyn 5e-5.
        pub learning_rate: f32 = 2e-4,
        /// Updates over which the rate rises; the paper gives none, 5,000 as in joint training.
        pub warm_up: u64 = 5_000,
        /// Seed of the parameters.
        pub seed: u64 = 0,
    }
}

/// What an update saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContrastiveStep {
    /// The number of this update, from 1.
    pub number: u64,
    /// The loss before it.
    pub loss: f32,
    /// The share of queries whose best key is a positive.
    pub accuracy: f32,
    /// The gradient's norm before clipping.
    pub gradient_norm: f32,
}

/// Everything that decides a run: a checkpoint of another one is refused.
#[derive(Serialize)]
struct Identity<'a> {
    encoder: &'a EncoderDescription,
    sampler: &'a ContrastiveConfig,
    pretraining: ContrastiveTraining,
}

/// An encoder in training.
pub struct Contrastive<'a> {
    encoded: &'a EncodedDataset,
    sampler: ContrastiveSampler<'a>,
    config: ContrastiveTraining,
    description: EncoderDescription,
    identity: String,
    network: QueryVit,
    trained: Trained,
    device: Device,
}

impl<'a> Contrastive<'a> {
    /// Begins to train an encoder of a cue of `encoded`.
    ///
    /// # Errors
    /// If a setting is out of range or the dataset has nothing to draw.
    pub fn new(
        encoded: &'a EncodedDataset,
        cue: &str,
        sampler: ContrastiveConfig,
        network: QueryVitConfig,
        config: ContrastiveTraining,
        device: &Device,
    ) -> Result<Self> {
        if encoded.plain_encoder(cue).is_some() {
            let reason = format!("the keys of `{cue}` follow from recordings: nothing to train");
            return Err(Error::setting("arm.cue", reason));
        }
        let dataset = encoded.dataset();
        let episodes = dataset.select(sampler.split_rule, sampler.split)?;
        let scale = ConditionScale::of_dataset(dataset, &episodes)?;
        let (latent, input) = (encoded.input_shape(cue), encoded.input_recipe(cue));
        let signals = encoded.conditioning().layout(dataset.description()).action.width;
        let cue = cue.to_owned();
        let description = EncoderDescription { cue, network, latent, input, scale, signals };
        let (network, parameters) = description.build(config.seed)?;
        let identity = Identity { encoder: &description, sampler: &sampler, pretraining: config };
        let identity = serde_json::to_string(&identity).expect("settings become JSON");
        let optimizer = AdamWConfig {
            learning_rate: config.learning_rate,
            warm_up: config.warm_up,
            average_decay: None,
            ..AdamWConfig::default()
        };
        Ok(Self {
            encoded,
            sampler: ContrastiveSampler::new(dataset, sampler)?,
            config,
            description,
            identity,
            network,
            trained: Trained::new(parameters, optimizer),
            device: device.clone(),
        })
    }

    /// Takes the weights of an encoder to begin with: of the same network, which reads the same.
    ///
    /// # Errors
    /// If it is another network, or was taught with other inputs.
    pub fn begin_with(&mut self, encoder: &KeyEncoder) -> Result<()> {
        let (found, own) = (encoder.description(), &self.description);
        if found.network != own.network
            || found.latent != own.latent
            || found.signals != own.signals
        {
            let reason = format!("{:?} is not {:?}", found.network, own.network);
            return Err(Error::setting("encoder.pretraining.from", reason));
        }
        encoder.check_input(&own.input)?;
        // Into the arena itself: one made of other values would be frozen, and nothing would be learned.
        self.trained.parameters.values_mut()?.copy_from_slice(encoder.values());
        Ok(())
    }

    /// The settings.
    pub fn config(&self) -> &ContrastiveTraining {
        &self.config
    }

    /// The updates made so far.
    pub fn done(&self) -> u64 {
        self.trained.optimizer.updates()
    }

    /// One update.
    ///
    /// # Errors
    /// If an episode cannot be read, or the loss is not finite; the parameters are then as they
    /// were.
    pub fn step(&mut self) -> Result<ContrastiveStep> {
        let examples = self.sampler.batch(self.done())?;
        let batch = Batch::new(self.encoded, &self.description, &examples)?;
        let (network, mut hits) = (&self.network, 0);
        let step = self.trained.step(&self.device, 1, |tape, parameters, _| {
            let (loss, found) = batch.loss(&mut Pass::new(tape, parameters), network)?;
            hits = found;
            Ok(loss)
        })?;
        Ok(ContrastiveStep {
            number: step.update.number,
            loss: step.loss,
            accuracy: hits as f32 / examples.len() as f32,
            gradient_norm: step.update.gradient_norm,
        })
    }

    /// The encoder as it stands, frozen.
    ///
    /// # Errors
    /// If memory is short of it.
    pub fn encoder(&self) -> Result<KeyEncoder> {
        let values = self.trained.parameters.values();
        Ok(KeyEncoder::new(self.description.clone(), values, &self.device)?)
    }

    /// Writes the encoder as it stands, with a note of everything that made it.
    ///
    /// # Errors
    /// If a number is not finite or the system refuses.
    pub fn save_encoder(&self, path: &Path) -> Result<()> {
        Ok(self.encoder()?.save_with_note(path, NOTE, &self.identity)?)
    }

    /// Whether a file is the encoder that this training would end with.
    pub fn has_made(&self, path: &Path) -> bool {
        let found = Checkpoint::open(path);
        found.is_ok_and(|file| file.notes().get(NOTE) == Some(&self.identity))
    }

    /// Writes everything needed to resume.
    ///
    /// # Errors
    /// If a number is not finite or the system refuses.
    pub fn save(&self, path: &Path) -> Result<()> {
        let Trained { parameters, optimizer, .. } = &self.trained;
        let file = CheckpointWriter::new().parameters("encoder.", parameters);
        let file = file.optimizer("optimizer.", parameters, optimizer);
        Ok(file.note(NOTE, self.identity.as_str()).save(path)?)
    }

    /// Resumes from what [`Contrastive::save`] wrote, as if training had never stopped.
    ///
    /// # Errors
    /// If the file cannot be read, or belongs to another run.
    pub fn resume(&mut self, path: &Path) -> Result<()> {
        let mut file = Checkpoint::open(path)?;
        let found = file.notes().get(NOTE).map(String::as_str).unwrap_or_default();
        if found != self.identity {
            let (key, found, wanted) = first_difference(found, &self.identity);
            return Err(Error::OtherConfig { folder: path.to_owned(), key, found, wanted });
        }
        let Trained { parameters, optimizer, .. } = &mut self.trained;
        file.load_parameters("encoder.", parameters, Matching::Strict)?;
        file.load_optimizer("optimizer.", parameters, optimizer)?;
        Ok(file.expect_all_used()?)
    }
}

/// The first key in which two JSON objects differ, with both values.
fn first_difference(found: &str, wanted: &str) -> (String, String, String) {
    let parse = |text| serde_json::from_str(text).unwrap_or(serde_json::Value::Null);
    let (found, wanted): (serde_json::Value, serde_json::Value) = (parse(found), parse(wanted));
    differing("", &found, &wanted)
        .unwrap_or_else(|| ("its settings".into(), found.to_string(), wanted.to_string()))
}

fn differing(
    path: &str,
    found: &serde_json::Value,
    wanted: &serde_json::Value,
) -> Option<(String, String, String)> {
    match (found.as_object(), wanted.as_object()) {
        (Some(here), Some(there)) => there.iter().find_map(|(key, wanted)| {
            let found = here.get(key).unwrap_or(&serde_json::Value::Null);
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            differing(&path, found, wanted)
        }),
        _ => (found != wanted).then(|| (path.to_owned(), found.to_string(), wanted.to_string())),
    }
}
