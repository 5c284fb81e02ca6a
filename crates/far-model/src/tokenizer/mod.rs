//! Tokenizers: frames to latents and back.

mod autoencoder;
mod autoencoder_network;
mod built_in;
mod kl_network;
mod patch_pca;
mod precomputed;
mod resize;
mod spread;
mod taesd_network;
mod taesd_training;
mod vit_vae_network;

pub use autoencoder::{Autoencoder, AutoencoderConfig};
pub use autoencoder_network::AutoencoderStructure;
pub use built_in::BUILT_IN;
pub use kl_network::KlStructure;
pub use patch_pca::{PatchPca, PatchPcaConfig};
pub use precomputed::{Precomputed, PrecomputedConfig};
pub use resize::area_resize;
pub use taesd_network::TaesdStructure;
pub use taesd_training::{TaesdLosses, TaesdTraining};
pub use vit_vae_network::VitVaeStructure;

use crate::{LatentShape, LinearPatches, Result};
use far_data::{Episode, Picture};
use rayon::prelude::*;
use std::path::Path;

/// Side of the world model's patches of an autoencoder's latent, as in the paper.
const PATCH: usize = 2;

/// Turns frames of an episode into latents and latents into pictures.
///
/// Latents are normalized to about unit variance and held as tokens (see [`LatentShape`]).
pub trait Tokenizer: Send + Sync {
    /// The shape of a latent.
    fn shape(&self) -> LatentShape;

    /// What decides the latents, as text: settings and a hash of the weights.
    fn recipe(&self) -> String;

    /// How the device rounds, as text; empty where it does not matter. Latents that were rounded
    /// otherwise are the same to an encoder or a world model, but not to the last digit: caches are named
    /// by it too.
    fn rounding(&self) -> String {
        String::new()
    }

    /// The latents of frames of an episode, [frames, E].
    ///
    /// # Errors
    /// If a frame has no picture, or no latent where latents come with the data.
    fn encode(&self, episode: &Episode, frames: &[usize]) -> Result<Vec<f32>>;

    /// Writes what was fitted to a file; a tokenizer that was not fitted has nothing to write.
    ///
    /// # Errors
    /// If the system refuses.
    fn save(&self, path: &Path) -> Result<()> {
        let _ = path;
        Ok(())
    }

    /// The picture of a latent; `None` where latents came with the data and nothing can decode them.
    fn decode(&self, latent: &[f32]) -> Option<Picture>;

    /// The pictures of latents, in order; a network decodes several at once.
    fn decode_all(&self, latents: &[&[f32]]) -> Option<Vec<Picture>> {
        latents.par_iter().map(|latent| self.decode(latent)).collect()
    }

    /// How tokens follow from pixels and pixels from tokens, where both are linear.
    fn linear_patches(&self) -> Option<LinearPatches> {
        None
    }
}
