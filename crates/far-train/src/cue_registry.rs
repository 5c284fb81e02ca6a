//! The cues that a configuration can name.

use crate::config::{CueColumn, LATENT_CUES};
use crate::{Error, Result, TrainConfig};
use far_data::Dataset;
use far_model::{
    AUDIO_CUE, AudioConfig, AudioFeature, ColumnFeature, CueFeature, INTERACTION_CUE,
    InteractionFeature,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Features by cue. A cue without one is a column of the dataset if the configuration says so, or
/// else made of latents, and must be one of those that are.
#[derive(Clone)]
pub struct CueRegistry {
    features: Vec<Arc<dyn CueFeature>>,
    columns: BTreeMap<String, CueColumn>,
    audio: AudioConfig,
}

impl CueRegistry {
    /// The built-in cues with the settings of a configuration, and the columns that it names.
    pub fn of(config: &TrainConfig) -> Self {
        Self { features: Vec::new(), columns: config.cues.clone(), audio: config.audio }
    }

    /// The same with one more cue; a later one replaces an earlier one of the same name.
    pub fn with(mut self, feature: Arc<dyn CueFeature>) -> Self {
        self.features.retain(|known| known.cue() != feature.cue());
        self.features.push(feature);
        self
    }

    /// Whether a dataset need not say that it has a cue: a column, a feature of somebody's own, or one
    /// that is made of signals, which it names.
    pub fn is_own(&self, cue: &str) -> bool {
        let added = self.features.iter().any(|known| known.cue() == cue);
        cue == INTERACTION_CUE || self.columns.contains_key(cue) || added && cue != AUDIO_CUE
    }

    /// The feature of a cue; `None` for one that is made of latents. One that was added by
    /// [`CueRegistry::with`] wins over a column of the same name.
    ///
    /// # Errors
    /// If there is no such cue, or the dataset lacks what it is made of.
    pub fn feature(&self, cue: &str, dataset: &Dataset) -> Result<Option<Arc<dyn CueFeature>>> {
        if let Some(feature) = self.features.iter().find(|feature| feature.cue() == cue) {
            return match feature.lacking(dataset.description()) {
                None => Ok(Some(feature.clone())),
                Some(lacking) => {
                    let reason = format!("the cue `{cue}` needs {lacking}");
                    Err(Error::setting("arm.cue", reason))
                }
            };
        }
        if let Some(CueColumn { column, scale }) = self.columns.get(cue) {
            return Ok(Some(Arc::new(ColumnFeature::of(dataset, cue, column, *scale)?)));
        }
        if cue == AUDIO_CUE {
            return Ok(Some(Arc::new(AudioFeature::of(dataset.description(), self.audio)?)));
        }
        if cue == INTERACTION_CUE {
            return Ok(Some(Arc::new(InteractionFeature::of(dataset.description())?)));
        }
        if LATENT_CUES.contains(&cue) {
            return Ok(None);
        }
        let own = self.features.iter().map(|feature| feature.cue());
        let columns = self.columns.keys().map(String::as_str);
        let known: Vec<&str> = LATENT_CUES
            .into_iter()
            .chain([AUDIO_CUE, INTERACTION_CUE])
            .chain(own)
            .chain(columns)
            .collect();
        Err(Error::NoEncoder { cue: cue.to_owned(), known: known.join(", ") })
    }
}
