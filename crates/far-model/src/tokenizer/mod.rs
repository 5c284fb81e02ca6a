//! Tokenizers: frames to latents and back.

mod patch_pca;
mod precomputed;
mod resize;
mod spread;
mod taesd;
mod taesd_network;

pub use patch_pca::{PatchPca, PatchPcaConfig};
pub use precomputed::{Precomputed, PrecomputedConfig};
pub use resize::area_resize;
pub use taesd::{Taesd, TaesdConfig};
pub use taesd_network::TaesdStructure;

use crate::{LatentShape, LinearPatches, Result};
use far_data::{Episode, Picture};
use std::path::Path;

/// Side of the world model's patches of an autoencoder's latent, as in the paper.
const PATCH: usize = 2;

/// Turns frames of an episode into latents and latents into pictures.
///
/// Latents are normalized to about unit variance and held as tokens (see [`LatentShape`]).
pub trait Tokenizer: Send + Sync {
    /// The shape of a latent.
    fn shape(&self) -> LatentShape;

    /// What decides the latents, as text: settings and a hash of the weights. Caches are named by
    /// it.
    fn recipe(&self) -> String;

    /// The latents of all frames of an episode, [frames, E].
    ///
    /// # Errors
    /// If a frame has no picture, or no latent where latents come with the data.
    fn encode(&self, episode: &Episode) -> Result<Vec<f32>>;

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

    /// How tokens follow from pixels and pixels from tokens, where both are linear.
    fn linear_patches(&self) -> Option<LinearPatches> {
        None
    }
}
