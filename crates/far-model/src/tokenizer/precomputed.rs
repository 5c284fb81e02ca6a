//! Latents that came with the data: `latents/000042.safetensors` in the dataset's folder, one file
//! per episode with a tensor `latents` of [frames, C, H, W], as encoders such as the SDXL VAE give
//! them.

use super::{Autoencoder, PATCH, Tokenizer};
use crate::{Error, LatentShape, Result};
use far_data::{CachedTensors, Dataset, Episode, Picture};
use far_tensor::Device;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The settings of a [`Precomputed`] tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrecomputedConfig {
    /// What the stored numbers are multiplied by to have about unit variance; 1 where that was done
    /// before, 0.13025 for raw SDXL latents, 20/255 for raw OASIS ones.
    pub scale: f32,
}

/// Reads latents instead of making them.
pub struct Precomputed {
    config: PrecomputedConfig,
    shape: LatentShape,
    folder: PathBuf,
    /// What turns them back into pictures, where it is known.
    decoder: Option<Autoencoder>,
}

impl Precomputed {
    /// The latents of this dataset, whose shape is that of its first episode's.
    ///
    /// # Errors
    /// If the dataset has no folder `latents` or no episode, or the latents cannot be cut into patches.
    pub fn new(dataset: &Dataset, config: PrecomputedConfig) -> Result<Self> {
        let wrong = |reason: String| Err(Error::Setting { setting: "tokenizer", reason });
        if !(config.scale.is_finite() && config.scale > 0.0) {
            return wrong(format!("a scale of {} makes no latents", config.scale));
        }
        let folder = dataset.folder().join("latents");
        if !folder.is_dir() {
            return wrong(format!("{} is not there", folder.display()));
        }
        let Some(first) = dataset.ids().next() else {
            return wrong("the dataset has no episode".to_owned());
        };
        let path = file(&folder, first);
        let stored = CachedTensors::open(&path)?.tensor("latents")?.shape;
        let &[_, channels, height, width] = stored.as_slice() else {
            let reason = format!("latents have shape {stored:?} instead of [frames, C, H, W]");
            return Err(Error::File { path, reason });
        };
        let shape = LatentShape { channels, height, width, patch: PATCH };
        if !shape.is_valid() {
            let reason = format!("{PATCH} does not divide {channels} × {height} × {width}");
            return Err(Error::File { path, reason });
        }
        Ok(Self { config, shape, folder, decoder: None })
    }

    /// The same, with the autoencoder that made the latents to show them: its name or the path of its
    /// file. Scaled, the latents are what it gives.
    ///
    /// # Errors
    /// If there is no such autoencoder, or its latents have other channels.
    pub fn with_decoder(self, weights: &str, device: &Device) -> Result<Self> {
        let LatentShape { channels, height, width, .. } = self.shape;
        let weights = weights.to_owned();
        let decoder = Autoencoder::for_latents(weights.clone(), [width, height], device)?;
        if decoder.shape() != self.shape {
            let reason = format!(
                "latents have {channels} channels, those of `{weights}` have {}",
                decoder.shape().channels
            );
            return Err(Error::Setting { setting: "tokenizer.kind", reason });
        }
        Ok(Self { decoder: Some(decoder), ..self })
    }
}

/// The latents of an episode.
fn file(folder: &Path, episode: u32) -> PathBuf {
    folder.join(format!("{episode:06}.safetensors"))
}

impl Tokenizer for Precomputed {
    fn shape(&self) -> LatentShape {
        self.shape
    }

    fn recipe(&self) -> String {
        format!("precomputed {:?} {:?}", self.shape, self.config)
    }

    fn encode(&self, episode: &Episode, frames: &[usize]) -> Result<Vec<f32>> {
        let LatentShape { channels, height, width, .. } = self.shape;
        let path = file(&self.folder, episode.id());
        let stored = CachedTensors::open(&path)?.tensor("latents")?;
        let expected = [episode.len(), channels, height, width];
        if stored.shape != expected {
            let reason = format!("latents have shape {:?} instead of {expected:?}", stored.shape);
            return Err(Error::File { path, reason });
        }
        let elements = self.shape.elements();
        let mut latents = Vec::with_capacity(frames.len() * elements);
        for frame in frames {
            let values = &stored.values[frame * elements..][..elements];
            Error::check_finite(
                format!("{}: the latent of frame {frame}", path.display()),
                values,
            )?;
            let tokens = self.shape.to_tokens(values);
            latents.extend(tokens.into_iter().map(|value| self.config.scale * value));
        }
        Ok(latents)
    }

    fn decode(&self, latent: &[f32]) -> Option<Picture> {
        self.decoder.as_ref()?.decode(latent)
    }

    fn decode_all(&self, latents: &[&[f32]]) -> Option<Vec<Picture>> {
        self.decoder.as_ref()?.decode_all(latents)
    }
}
