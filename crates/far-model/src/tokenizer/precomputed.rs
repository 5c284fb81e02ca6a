//! Latents that came with the data: `latents/000042.safetensors` in the dataset's folder, one file
//! per episode with a tensor `latents` of [frames, C, H, W], as encoders such as the SDXL VAE give
//! them.

use super::Tokenizer;
use crate::{Error, LatentShape, Result};
use far_data::{CachedTensors, Dataset, Episode, Picture};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The settings of a [`Precomputed`] tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrecomputedConfig {
    /// The shape of the latents. Paper: 16 × 18 × 32 (LoopNav) and 4 × 32 × 32, patch 2.
    #[serde(flatten)]
    pub shape: LatentShape,
    /// What the stored numbers are multiplied by to have about unit variance; 1 where that was done
    /// before, 0.13025 for raw SDXL latents, 20/255 for raw OASIS ones.
    #[serde(default = "one")]
    pub scale: f32,
}

fn one() -> f32 {
    1.0
}

/// Reads latents instead of making them.
pub struct Precomputed {
    config: PrecomputedConfig,
    folder: PathBuf,
}

impl Precomputed {
    /// The latents of this dataset.
    ///
    /// # Errors
    /// If the shape cannot be cut into patches, or the dataset has no folder `latents`.
    pub fn new(dataset: &Dataset, config: PrecomputedConfig) -> Result<Self> {
        let wrong = |reason: String| Err(Error::Setting { setting: "tokenizer", reason });
        let sound = config.scale.is_finite() && config.scale > 0.0;
        if !(config.shape.is_valid() && sound) {
            return wrong(format!("{config:?} does not describe latents"));
        }
        let folder = dataset.folder().join("latents");
        if !folder.is_dir() {
            return wrong(format!("{} is not there", folder.display()));
        }
        Ok(Self { config, folder })
    }
}

impl Tokenizer for Precomputed {
    fn shape(&self) -> LatentShape {
        self.config.shape
    }

    fn recipe(&self) -> String {
        format!("precomputed {:?}", self.config)
    }

    fn encode(&self, episode: &Episode) -> Result<Vec<f32>> {
        let LatentShape { channels, height, width, .. } = self.config.shape;
        let path = self.folder.join(format!("{:06}.safetensors", episode.id()));
        let stored = CachedTensors::open(&path)?.tensor("latents")?;
        let expected = [episode.len(), channels, height, width];
        if stored.shape != expected {
            let reason = format!("latents have shape {:?} instead of {expected:?}", stored.shape);
            return Err(Error::File { path, reason });
        }
        let frames = stored.values.chunks_exact(self.config.shape.elements());
        for (frame, values) in frames.clone().enumerate() {
            Error::check_finite(
                format!("{}: the latent of frame {frame}", path.display()),
                values,
            )?;
        }
        let scale = self.config.scale;
        Ok(frames
            .flat_map(|frame| self.config.shape.to_tokens(frame))
            .map(|value| scale * value)
            .collect())
    }

    fn decode(&self, _: &[f32]) -> Option<Picture> {
        None
    }
}
