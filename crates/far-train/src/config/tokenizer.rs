//! `[tokenizer]`: how frames become latents.

use crate::{Error, Result};
use far_data::Dataset;
use far_model::{
    PatchPca, PatchPcaConfig, Precomputed, PrecomputedConfig, Taesd, TaesdConfig, Tokenizer,
};
use far_tensor::Device;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

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
    /// The published autoencoder of Stable Diffusion's latents, 4 channels.
    Taesd,
    /// That of SDXL's, 4 channels.
    Taesdxl,
    /// That of Stable Diffusion 3's, 16 channels.
    Taesd3,
    /// That of FLUX.1's, 16 channels.
    Taef1,
    /// That of FLUX.2's, 32 channels.
    Taef2,
    /// Latents that came with the data.
    Precomputed,
}

impl TokenizerKind {
    /// The name of the published weights in the cache; `None` for tokenizers without any.
    pub fn published(self) -> Option<&'static str> {
        match self {
            Self::PatchPca | Self::Precomputed => None,
            Self::Taesd => Some("taesd"),
            Self::Taesdxl => Some("taesdxl"),
            Self::Taesd3 => Some("taesd3"),
            Self::Taef1 => Some("taef1"),
            Self::Taef2 => Some("taef2"),
        }
    }
}

impl TokenizerConfig {
    /// The tokenizer of a dataset, fitted to these episodes where it is one that is fitted; a network
    /// runs on the device.
    ///
    /// # Errors
    /// If frames or latents are missing, or the settings do not fit them.
    pub fn build(
        &self,
        dataset: &Dataset,
        episodes: &[u32],
        device: &Device,
    ) -> Result<Arc<dyn Tokenizer>> {
        if let Some(weights) = self.kind.published() {
            let resolution = dataset.description().resolution.map(|side| side as usize);
            let config = TaesdConfig { weights: weights.to_owned(), resolution };
            return Ok(Arc::new(Taesd::load(config, device)?));
        }
        Ok(match self.kind {
            TokenizerKind::Precomputed => Arc::new(Precomputed::new(dataset, self.precomputed)?),
            _ => Arc::new(PatchPca::fit(dataset, episodes, self.patch_pca)?),
        })
    }

    /// Whether it is fitted to frames and kept in a run's folder.
    pub fn is_fitted(&self) -> bool {
        self.kind == TokenizerKind::PatchPca
    }

    /// The tokenizer that was fitted before and saved; `None` for one that is never saved.
    ///
    /// # Errors
    /// If the file holds something else.
    pub fn load(&self, path: &Path) -> Result<Option<Arc<dyn Tokenizer>>> {
        Ok(match self.kind {
            TokenizerKind::PatchPca => Some(Arc::new(PatchPca::load(path)?)),
            _ => None,
        })
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.kind {
            TokenizerKind::PatchPca => self.check_patch_pca(),
            TokenizerKind::Precomputed => {
                super::positive_number("tokenizer.precomputed.scale", self.precomputed.scale)
            }
            _ => Ok(()),
        }
    }

    fn check_patch_pca(&self) -> Result<()> {
        let PatchPcaConfig { resolution: [width, height], patch, channels, frames, group } =
            self.patch_pca;
        let counts = [
            ("tokenizer.patch_pca.resolution", width.min(height)),
            ("tokenizer.patch_pca.patch", patch),
            ("tokenizer.patch_pca.channels", channels),
            ("tokenizer.patch_pca.frames", frames),
            ("tokenizer.patch_pca.group", group),
        ];
        counts.into_iter().try_for_each(|(key, count)| super::positive(key, count as u64))?;
        if !width.is_multiple_of(patch) || !height.is_multiple_of(patch) {
            let reason = format!("{patch} does not divide {width} × {height}");
            return Err(Error::setting("tokenizer.patch_pca.patch", reason));
        }
        if ![width, height].into_iter().all(|side| (side / patch).is_multiple_of(group)) {
            let reason = format!("{group} does not divide {} × {}", width / patch, height / patch);
            return Err(Error::setting("tokenizer.patch_pca.group", reason));
        }
        if channels > 3 * patch * patch {
            let reason = format!("a patch of {patch} × {patch} pixels has no {channels}");
            return Err(Error::setting("tokenizer.patch_pca.channels", reason));
        }
        Ok(())
    }
}
