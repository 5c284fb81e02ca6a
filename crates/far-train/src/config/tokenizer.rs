//! `[tokenizer]`: how frames become latents.

use crate::{Error, Result};
use far_model::LatentShape;
use serde::{Deserialize, Serialize};

/// Which tokenizer is used, with the settings of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerConfig {
    /// Which one.
    pub kind: TokenizerKind,
    /// Settings of `patch-pca`.
    pub patch_pca: PatchPcaConfig,
    /// Settings of `precomputed`.
    pub precomputed: PrecomputedConfig,
}

/// The tokenizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenizerKind {
    /// Principal components of patches, fitted to the dataset in seconds.
    PatchPca,
    /// Latents that came with the data.
    Precomputed,
}

/// The settings of the components of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchPcaConfig {
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Components kept per patch.
    pub channels: usize,
    /// Frames that are fitted.
    pub frames: usize,
}

/// What latents that came with the data look like.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrecomputedConfig {
    /// Their shape and the world model's patch.
    pub shape: LatentShape,
    /// What they are multiplied by, to have about unit variance.
    pub scale: f32,
}

impl TokenizerConfig {
    pub(super) fn check(&self) -> Result<()> {
        let counts = [
            ("tokenizer.patch_pca.patch", self.patch_pca.patch),
            ("tokenizer.patch_pca.channels", self.patch_pca.channels),
            ("tokenizer.patch_pca.frames", self.patch_pca.frames),
        ];
        counts.into_iter().try_for_each(|(key, count)| super::positive(key, count as u64))?;
        super::positive_number("tokenizer.precomputed.scale", self.precomputed.scale)?;
        if !self.precomputed.shape.is_valid() {
            let LatentShape { channels, height, width, patch } = self.precomputed.shape;
            let reason = format!("patches of {patch} do not fill {channels} × {height} × {width}");
            return Err(Error::setting("tokenizer.precomputed.shape", reason));
        }
        Ok(())
    }
}
