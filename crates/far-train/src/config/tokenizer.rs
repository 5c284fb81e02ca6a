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
    /// Settings of `taesd`.
    pub taesd: TaesdConfig,
    /// Settings of `precomputed`.
    pub precomputed: PrecomputedConfig,
}

/// The tokenizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenizerKind {
    /// Principal components of patches, fitted to the dataset in seconds.
    PatchPca,
    /// A published autoencoder of the TAESD family, with its own weights.
    Taesd,
    /// Latents that came with the data.
    Precomputed,
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
        Ok(match self.kind {
            TokenizerKind::PatchPca => Arc::new(PatchPca::fit(dataset, episodes, self.patch_pca)?),
            TokenizerKind::Taesd => Arc::new(Taesd::load(self.taesd.clone(), device)?),
            TokenizerKind::Precomputed => Arc::new(Precomputed::new(dataset, self.precomputed)?),
        })
    }

    /// The tokenizer that was fitted before and saved; `None` for one that is never saved.
    ///
    /// # Errors
    /// If the file holds something else.
    pub fn load(&self, path: &Path) -> Result<Option<Arc<dyn Tokenizer>>> {
        Ok(match self.kind {
            TokenizerKind::PatchPca => Some(Arc::new(PatchPca::load(path)?)),
            TokenizerKind::Taesd | TokenizerKind::Precomputed => None,
        })
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.kind {
            TokenizerKind::PatchPca => self.check_patch_pca(),
            // How many channels the latent has is known once the weights are read.
            TokenizerKind::Taesd => Ok(self.taesd.shape(1).map(|_| ())?),
            TokenizerKind::Precomputed => {
                super::positive_number("tokenizer.precomputed.scale", self.precomputed.scale)
            }
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
