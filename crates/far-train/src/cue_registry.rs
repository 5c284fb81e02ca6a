//! The cues that a configuration can name.

use crate::{Error, Result, TrainConfig};
use far_data::DatasetDescription;
use far_model::{AudioFeature, CueFeature};
use std::sync::Arc;

/// Cues whose encoders read the latents of frames: what is seen, and who is seen.
const OF_LATENTS: [&str; 2] = ["vision", "agent"];

/// Features by cue. A cue without one is made of latents, and must be one of those that are.
#[derive(Clone, Default)]
pub struct CueRegistry {
    features: Vec<Arc<dyn CueFeature>>,
}

impl CueRegistry {
    /// The built-in cues with the settings of a configuration.
    ///
    /// # Errors
    /// If the settings of a cue make no features.
    pub fn of(config: &TrainConfig) -> Result<Self> {
        Ok(Self::new().with(Arc::new(AudioFeature::new(config.audio)?)))
    }

    /// Only the cues that are made of latents.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more cue; a later one replaces an earlier one of the same name.
    pub fn with(mut self, feature: Arc<dyn CueFeature>) -> Self {
        self.features.retain(|known| known.cue() != feature.cue());
        self.features.push(feature);
        self
    }

    /// The feature of a cue; `None` for one that is made of latents.
    ///
    /// # Errors
    /// If there is no such cue, or the dataset lacks what it is made of.
    pub fn feature(
        &self,
        cue: &str,
        description: &DatasetDescription,
    ) -> Result<Option<Arc<dyn CueFeature>>> {
        let feature = self.features.iter().find(|feature| feature.cue() == cue);
        match feature {
            None if OF_LATENTS.contains(&cue) => Ok(None),
            None => {
                let own = self.features.iter().map(|feature| feature.cue());
                let known: Vec<&str> = OF_LATENTS.into_iter().chain(own).collect();
                Err(Error::NoEncoder { cue: cue.to_owned(), known: known.join(", ") })
            }
            Some(feature) => match feature.lacking(description) {
                None => Ok(Some(feature.clone())),
                Some(lacking) => {
                    let reason = format!("the cue `{cue}` needs {lacking}");
                    Err(Error::setting("arm.cue", reason))
                }
            },
        }
    }
}
